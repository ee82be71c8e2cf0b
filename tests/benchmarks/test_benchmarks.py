"""The benchmarks: implementations that agree, fair turns, a script that measures. No time is asserted."""

from dataclasses import replace

import numpy as np
import pytest

from bandit_lab.bandits import BANDITS
from benchmarks import against_numpy, numpy_reference
from benchmarks.engines import ENGINES, shortened
from benchmarks.numpy_reference import Curves, kurtosis, pooled
from benchmarks.policies import policy_flops
from benchmarks.timing import agreement, in_turn, ratio
from benchmarks.workload import Case, cases

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
        found = agreement(curves[one], curves[other], tail)
        assert max(found["mean_z"], found["variance_z"]) <= 5, (one, other, found)
    other_kind = ENGINES["numpy"](replace(case, learning_rate=0.021), "hash", 2)(5)
    found = agreement(curves["fast"], other_kind, tail)
    assert max(found["mean_z"], found["variance_z"]) > 5


def test_mean_fields_agree_to_float32():
    case = Case("D", 8, 0, 512, 60)
    curves = [ENGINES[name](case, "hash", 2)(0) for name in ("numpy", "fast", "reference")]
    for other in curves[1:]:
        assert agreement(curves[0], other, None)["mean_difference"] < 1e-6
    off = ENGINES["numpy"](replace(case, kl_weight=0.051), "hash", 2)(0)
    assert agreement(curves[1], off, None)["mean_difference"] > 1e-5


def test_settings_share_the_seeds_out():
    case = Case("B", 3, 4, 256, 5, settings=4)
    assert (case.cells().learning_rate.shape, case.seeds_per_cell) == ((4,), 64)
    assert ENGINES["fast"](case, "hash", 1)(0).mean.shape == (5,)


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


def test_implementations_run_in_turn_with_new_seeds():
    seen = []

    def run(name):
        return lambda seed: seen.append((name, seed)) or Curves(2, np.zeros(3), np.ones(3))

    timed = in_turn({"a": run("a"), "b": run("b")}, 3, 10, least=0)
    assert [name for name, _ in seen] == ["a", "b"] * 3
    assert [seed for name, seed in seen if name == "a"] == [11, 12, 13]
    assert timed["a"].seconds.shape == (3,)
    assert timed["b"].curves.count == 6


def test_ratio_is_of_neighbours():
    """The machine is three times slower in one repetition: each ratio, so their median, does not notice."""
    slow, fast = np.array([8.0, 24.0, 8.0]), np.array([1.0, 3.0, 1.0])
    assert ratio(slow, fast) == (8, 8, 8)
    assert ratio(slow, fast, work=0.5) == (4, 4, 4)


def test_cases_of_the_workload():
    assert [c.label for c in cases("AD", [False, True], [1, 8], None, None)] == [
        "A", "A N=8", "A Bernoulli", "A Bernoulli N=8", "D",
    ]  # fmt: skip
    assert shortened("reference", Case("A", 2, 8, 64, 1000)).steps == 200
    assert shortened("fast", Case("A", 2, 8, 64, 1000)).steps == 1000
    rate, momentum = cases("D", [False], [1], None, None)[0].grid
    assert (len(rate), rate[0], rate[255], momentum[0], momentum[-1]) == (65_536, 1e-3, pytest.approx(0.1), 0, 0.95)


def test_a_quick_look_at_two_sizes(capsys):
    rows = against_numpy.main(["--quick", "--sizes", "A", "D", "--reps", "1", "--seeds", "256", "--steps", "6"])
    assert [row["case"] for row in rows] == ["A", "D"]
    for row in rows:
        speeds, over = row["seed_steps_per_second"], row["over_numpy"]
        assert set(speeds) == set(ENGINES)
        assert all(speed > 0 for speed in speeds.values())
        assert over["fast"]["median"] == pytest.approx(speeds["fast"] / speeds["numpy"])  # one repetition
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_operations_are_counted():
    """Every weight has a product and a sum, forward and back."""
    neural = BANDITS["neural"]()
    flops = policy_flops(neural)
    assert flops is not None
    assert flops > 4 * neural.initial_parameters.shape[-1]
