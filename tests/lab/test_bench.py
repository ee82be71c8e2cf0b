"""`bench`: implementations that agree, fair turns, and a command that measures. No time is asserted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bandit_lab.app.cli import main
from bandit_lab.lab.bench import numpy_reference
from bandit_lab.lab.bench.engines import ENGINES, shortened
from bandit_lab.lab.bench.numpy_reference import Curves, kurtosis, pooled
from bandit_lab.lab.bench.probe import probe
from bandit_lab.lab.bench.timing import agreement, in_turn, ratio
from bandit_lab.lab.bench.workload import Case, cases

SAMPLED = [
    Case("A", 2, 8, 16_384, 40),
    Case("A", 2, 8, 16_384, 40, bernoulli=True, interval=3),
    Case("B", 5, 12, 16_384, 40, interval=4),
    Case("B", 5, 12, 16_384, 40, bernoulli=True),
    Case("B", 3, 4, 16_384, 40, bernoulli=True, averages=True),
]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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

    timed = in_turn({"a": run("a"), "b": run("b")}, 3, 10, lambda done, total: None, least=0)
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


def test_quick_bench_writes_a_run(capsys):
    assert main(["bench", "quick=true", "sizes=[A,D]", "reps=1", "seeds=256", "steps=6", "run_dir=here"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "here"
    assert all(any(f"{engine}/numpy" in line for line in lines) for engine in ("fast", "reference"))
    summary = json.loads(Path("here/summary.json").read_text())
    assert [row["case"] for row in summary["rows"]] == ["A", "D"]
    for row in summary["rows"]:
        assert set(row["engines"]) == set(ENGINES)
        assert all(engine["seed_steps_per_second"] > 0 for engine in row["engines"].values())
        ratios = {name: found["median"] for name, found in row["ratios"].items()}
        assert set(ratios) == {"fast_over_numpy", "fast_over_reference", "reference_over_numpy"}
        of_one = ratios["fast_over_numpy"] / (ratios["fast_over_reference"] * ratios["reference_over_numpy"])
        assert of_one == pytest.approx(1)  # one repetition
    assert {"processor", "usable_cores", "versions", "load_before"} <= set(summary["machine"])
    assert {"throughput.png", "manifest.json", "results.zarr", "config.yaml"} <= {
        p.name for p in Path("here").iterdir()
    }


def test_probe_answers_from_a_process_of_its_own():
    found = probe("fast", Case("A", 2, 8, 512, 3), "hash", 1, cores=1, calls=2)
    assert found["first_seconds"] > 0
    assert found["peak_bytes"] > found["above_import_bytes"] > 0
    with pytest.raises(RuntimeError, match="nothing on A"):
        probe("nothing", Case("A", 2, 8, 512, 3), "hash", 1)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("sizes=[A,E]", "sizes: expected one of A, B, C, D, got 'E'"),
        ("sizes=[]", "sizes: expected some of A, B, C, D"),
        ("study=scaling", "study: expected a setting of bench (that is now python experiments/speed/scaling.py"),
        ("intervals=[0]", "intervals: expected an integer >= 1"),
        ("reps=0", "reps: expected an integer >= 1"),
        ("seeds=10", "seeds: expected an integer >= 64"),
        ("rng=sobol", "rng: expected one of"),
    ],
)
def test_bad_input_is_one_line(override, line, capsys):
    assert main(["bench", *override.split()]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
