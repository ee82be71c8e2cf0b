"""The step of console rows, staircases, and what one column becomes."""

import re

import numpy as np
import pytest
import written_logs as logs
from grpo_clinic.readers import columns, read


def console(path, rates, interval, total, shown=None, keep=None):
    rows = []
    for i, rate in enumerate(rates):
        if keep is None or keep[i]:
            rows.append(f"{{'loss': 0.1, 'reward': {i / 100}, 'learning_rate': {rate!r}, 'epoch': 0.1}}")
    bars = "".join(f"\r 1%| | {k}/{total} [00:01<00:02, 1.0s/it]" for k in range(0, (shown or total) + 1))
    path.write_text(bars + "\n" + "\n".join(rows) + "\n")


def test_a_linear_rate_gives_the_interval_and_finds_lost_rows(tmp_path):
    """Out-of-order progress bars and a hole of rows 20..59: the rows after it keep their true steps."""
    step = 5 * np.arange(1, 101)
    keep = (np.arange(100) < 20) | (np.arange(100) >= 60)
    console(tmp_path / "x.log", 1e-5 * (1 - (step - 1) / 500), 5, 500, keep=keep)
    (curve,) = read(tmp_path / "x.log")
    np.testing.assert_array_equal(curve.step, step[keep])
    assert "40 rows missing" in " ".join(curve.notes)


@pytest.mark.parametrize("seed", range(12))
def test_steps_of_drawn_linear_rates(seed, tmp_path):
    """Few or many rows, of the whole run or of its first half."""
    draw = np.random.default_rng(seed)
    interval, rows, part = (int(draw.choice(some)) for some in ([2, 5, 10, 25], [8, 12, 40], [4, 5, 8]))
    step, total = interval * np.arange(1, rows + 1), interval * rows * part // 4
    console(tmp_path / "x.log", 1e-5 * (1 - (step - 1) / total), interval, total, step[-1])
    np.testing.assert_array_equal(read(tmp_path / "x.log")[0].step, step)


def test_warm_up_then_decay_in_four_digits(tmp_path):
    step = np.arange(1, 61)
    rates = [float(f"{r:.4g}") for r in np.where(step < 10, (step - 1) * 1e-5 / 9, 1e-5 * (61 - step) / 52)]
    console(tmp_path / "x.log", rates, 1, 60)
    (curve,) = read(tmp_path / "x.log")
    np.testing.assert_array_equal(curve.step, step)


def test_differences_of_learning_rates_that_overflow_are_no_schedule(tmp_path):
    """Without a warning: the largest quotient and the largest difference are beyond a float."""
    for rates in ([1e-320, 2e-320, 3e-320, 1e300], [-1e308, 1e308, -1e308, 1e308, 1.5e308]):
        console(tmp_path / "x.log", rates, 1, len(rates))
        (curve,) = read(tmp_path / "x.log")
        np.testing.assert_array_equal(curve.step, np.arange(1, len(rates) + 1))


def test_of_a_run_that_warmed_up_for_long_only_the_decay_tells_the_end(tmp_path):
    """Half of 200 steps are warm-up, and the log ends at step 150: 20 rows rise, 10 fall, one row per 5 steps."""
    step = 5 * np.arange(1, 31)
    console(tmp_path / "x.log", 1e-5 * np.where(step <= 100, step, 200 - step) / 100, 5, 200, shown=150)
    (curve,) = read(tmp_path / "x.log")
    np.testing.assert_array_equal(curve.step, step)
    assert "200 steps in all: one row per 5" in " ".join(curve.notes)


def test_a_damaged_row_counts_for_the_interval(tmp_path):
    """Ten rows in 100 steps, the fifth cut off: one row per 10 steps still."""
    console(tmp_path / "x.log", 1e-5 * (1 + np.cos(np.pi * np.arange(10) / 100)) / 2, 10, 100)
    (tmp_path / "x.log").write_text(re.sub(r"('reward': 0\.04).*", r"\1", (tmp_path / "x.log").read_text()))
    (curve,) = read(tmp_path / "x.log")
    np.testing.assert_array_equal(np.diff(curve.step), 10)
    assert curve.reward.size == 9


@pytest.mark.parametrize(("total", "shown", "interval"), [(1875, 1875, 20), (1000, 470, 10)])
def test_otherwise_rows_against_the_progress_bar(tmp_path, total, shown, interval):
    rates = 1e-5 * (1 + np.cos(np.pi * np.arange(shown // interval) / 100)) / 2
    console(tmp_path / "x.log", rates, interval, total, shown)
    (curve,) = read(tmp_path / "x.log")
    np.testing.assert_array_equal(curve.step, interval * np.arange(1, shown // interval + 1))


def test_without_any_clue_the_step_is_the_row_and_that_is_said(tmp_path):
    logs.trl_console(tmp_path / "x.log", bars=False)
    text = (tmp_path / "x.log").read_text().replace("learning_rate", "speed")
    (tmp_path / "x.log").write_text(text)
    (curve,) = read(tmp_path / "x.log")
    assert "give log_every" in " ".join(curve.notes)
    (curve,) = read(tmp_path / "x.log", log_every=10)
    np.testing.assert_array_equal(curve.step, 10 * logs.STEP)


def thinned(value):
    step = np.arange(float(value.size))
    return columns.series_of(step, value, np.ones(value.size, bool), "reward", thin=True)[0]


@pytest.mark.parametrize("tread", [2, 5, 10])
def test_a_forward_filled_series_is_thinned_to_what_was_logged(tread):
    """Also with two equal neighbours among the logged values and a first tread that is cut off."""
    logged = np.random.default_rng(0).normal(size=40)
    logged[7] = logged[8]
    np.testing.assert_array_equal(thinned(np.repeat(logged, tread)[1:]).value, logged)


def test_coarse_honest_rewards_are_no_staircase():
    """2,000 runs of 60 rewards from G = 8, 2 and 1 answers, some saturated: not one may be thinned (seed 1)."""
    rng = np.random.default_rng(1)
    for answers in (8, 2, 1):
        for probability in (0.5, 0.9, 0.98):
            for _ in range(220):
                assert thinned(rng.binomial(answers, probability, 60) / answers).value.size == 60
    assert thinned(np.zeros(50)).value.size == 50


def test_a_staircase_log_is_thinned_and_says_so(tmp_path):
    values = np.repeat(np.random.default_rng(2).random(30), 10)
    (tmp_path / "x.csv").write_text("step,reward\n" + "\n".join(f"{i},{v}" for i, v in enumerate(values)))
    (curve,) = read(tmp_path / "x.csv")
    assert curve.step.size == 30
    assert "forward-filled" in " ".join(curve.notes)
    (curve,) = read(tmp_path / "x.csv", thin=False)
    assert curve.step.size == 300
