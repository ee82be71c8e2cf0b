"""The benchmarks: implementations that agree, fair turns, a script that measures. No time is asserted."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import against_numpy, numpy_reference
from benchmarks.engines import ENGINES
from benchmarks.numpy_reference import Curves, kurtosis, pooled
from benchmarks.timing import agreement, ratio
from benchmarks.workload import Case

SAMPLED = [
    Case("A", 2, 8, 16_384, 40),
    Case("A", 2, 8, 16_384, 40, bernoulli=True, interval=3),
    Case("B", 5, 12, 16_384, 40, interval=4),
    Case("B", 5, 12, 16_384, 40, bernoulli=True),
]


@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.label)
def test_all_three_draw_the_same_curves(case):
    """|z| <= 5 for mean and variance at nine steps. n = 16,384 runs each (reference path: 2,048), seeds fixed; by
    chance one in 10^5 of these tests would fail. A learning rate 5 % off, or rewards of another kind, is seen."""
    curves = {name: ENGINES[name](case, "hash", 2)(seed) for seed, name in enumerate(("numpy", "fast"))}
    few = replace(case, seeds=2048, steps=20)
    curves["reference"] = ENGINES["reference"](few, "hash", 2)(7)
    tail = kurtosis(case, 3)
    for one, other in (("fast", "numpy"), ("reference", "numpy"), ("reference", "fast")):
        distance = agreement(curves[one], curves[other], tail)
        assert max(distance["mean_z"], distance["variance_z"]) <= 5, (one, other, distance)
    other_kind = ENGINES["numpy"](replace(case, learning_rate=0.021), "hash", 2)(5)
    distance = agreement(curves["fast"], other_kind, tail)
    assert max(distance["mean_z"], distance["variance_z"]) > 5


def test_mean_fields_agree_to_float32():
    case = Case("D", 8, 0, 512, 60)
    curves = [ENGINES[name](case, "hash", 2)(0) for name in ("numpy", "fast", "reference")]
    for other in curves[1:]:
        assert agreement(curves[0], other, None)["mean_difference"] < 1e-6
    off = ENGINES["numpy"](replace(case, kl_weight=0.051), "hash", 2)(0)
    assert agreement(curves[1], off, None)["mean_difference"] > 1e-5


def test_blocks_pool_to_the_whole():
    rng = np.random.default_rng(0)
    runs = rng.normal(3, [[1e-3, 1.0]], (700, 2))
    parts = [Curves(len(x), x.mean(0), x.var(0)) for x in np.split(runs, [100, 450])]
    whole = pooled(parts)
    assert whole.count == 700
    np.testing.assert_allclose(whole.mean, runs.mean(0), rtol=1e-13)
    np.testing.assert_allclose(whole.variance, runs.var(0), rtol=1e-10)


def test_kurtosis_of_a_known_law(monkeypatch):
    """A two-point law of chance p: 1/(p (1 - p)) - 3."""
    record = numpy_reference._Record(1000, 1, True)
    record.add(0, np.repeat(np.float32([0, 1]), [900, 100]))
    assert record.curves().kurtosis[0] == pytest.approx(1 / 0.09 - 3, rel=1e-5)


def test_ratio_is_of_neighbours():
    """The machine is three times slower in one repetition: each ratio, so their median, does not notice."""
    slow, fast = np.array([8.0, 24.0, 8.0]), np.array([1.0, 3.0, 1.0])
    assert ratio(slow, fast) == (8, 8, 8)
    assert ratio(slow, fast, work=0.5) == (4, 4, 4)


def test_a_quick_look_at_two_sizes(capsys):
    rows = against_numpy.main(["--quick", "--sizes", "A", "D", "--reps", "1", "--seeds", "256", "--steps", "6"])
    assert [row["case"] for row in rows] == ["A", "D"]
    for row in rows:
        speeds, over = row["seed_steps_per_second"], row["over_numpy"]
        assert set(speeds) == set(ENGINES)
        assert all(speed > 0 for speed in speeds.values())
        assert over["fast"]["median"] == pytest.approx(speeds["fast"] / speeds["numpy"])  # one repetition
    assert len(capsys.readouterr().out.splitlines()) == 4
