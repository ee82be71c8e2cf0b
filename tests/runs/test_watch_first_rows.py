"""`watch` judges from the first row what one row proves, ends where the trainer says so, waits while the file grows."""

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from watch_logs import jsonl, prime_console, rewards, trl_console, verl_console

from bandit_lab.app.cli import ALARMED, OK, main
from bandit_lab.runs.diagnose import diagnose
from bandit_lab.runs.monitor import Monitor
from bandit_lab.runs.read import read

PROVEN = {
    "sampler_mismatch": {"reward": 0.1, "sampling/importance_sampling_ratio/mean": 3e-7},
    "diverging": {"reward": 0.1, "loss": 0.3, "grad_norm": float("nan")},
    "advantage_degeneracy": {"reward": 1.0, "frac_reward_zero_std": 1.0},
    "truncated_answers": {"reward": 0.0, "completions/clipped_ratio": 1.0},
}
"""Failure -> one row that proves it."""


def raised_by(rows):
    """The failures of all alarms, in their order."""
    monitor = Monitor()
    return [alarm.failure for step, row in enumerate(rows) for alarm in monitor.feed(step, row)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("failure", PROVEN)
def test_one_row_that_proves_a_failure_is_an_alarm_at_that_row(failure, capsys):
    Path("run.jsonl").write_text(json.dumps({"step": 1, **PROVEN[failure]}) + "\n")
    assert main(["watch", "run.jsonl", "for=0.2", "every=0.1"]) == ALARMED
    told = next(json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{"))
    assert (told["failure"], told["row"]) == (failure, 1)
    assert failure in diagnose(read("run.jsonl")[0]).verdict


@pytest.mark.parametrize("failure", PROVEN)
def test_the_alarm_is_raised_once_and_not_where_an_earlier_row_was_sound(failure):
    assert raised_by([PROVEN[failure]] * 10).count(failure) == 1
    sound = {"reward": 0.3, "grad_norm": 0.5, "frac_reward_zero_std": 0.2, "completions/clipped_ratio": 0.1,
             "sampling/importance_sampling_ratio/mean": 1.0}  # fmt: skip
    assert not raised_by([sound] * 6 + [PROVEN[failure]] + [sound] * 3)


def test_a_hard_start_is_no_proof():
    """No answer is right yet, so that all groups are silent: healthy runs begin like that."""
    assert not raised_by([{"reward": 0.0, "frac_reward_zero_std": 1.0}] * 4)


def first_rows(rng):
    """23 rows of a sound run with groups of 8 on 4 prompts: the reward in steps of 1/32, everything scattered."""
    for _ in range(23):
        right = rng.binomial(8, rng.beta(1, 3, 4))
        yield {
            "reward": float(right.sum() / 32),
            "frac_reward_zero_std": float(np.mean((right == 0) | (right == 8))),
            "completions/clipped_ratio": float(rng.binomial(32, rng.beta(2, 2)) / 32),
            "sampling/importance_sampling_ratio/mean": float(np.exp(0.1 * rng.normal())),
            "sampling/sampling_logp_difference/mean": float(0.03 * np.exp(0.5 * rng.normal())),
            "grad_norm": float(np.exp(rng.normal())) if rng.random() > 0.02 else float("inf"),
        }


def early_alarms(runs, seed):
    rng, found = np.random.default_rng(seed), 0
    for _ in range(runs):
        monitor = Monitor()
        found += any(monitor.feed(step, row) for step, row in enumerate(first_rows(rng)))
    return found


def test_the_first_rows_of_sound_runs_raise_no_alarm(monkeypatch):
    """400 runs, seed 7. A norm that overflows in the first row (one in 50) is the one thing that is believed at once:
    8 runs are expected, more than 20 would come once in 10^4 times. Planted: every early look alone, where all 23 rows
    are a chance of their own, is wrong in more than 60."""
    assert early_alarms(400, 7) <= 20

    class Forgetful(set):
        def __ior__(self, more):
            return self

    before = Monitor.__init__

    def forgetful(self, **options):
        before(self, **options)
        self._unproven = Forgetful()

    monkeypatch.setattr(Monitor, "__init__", forgetful)
    assert early_alarms(400, 7) > 60


def grow(path, parts, pause):
    """Write the first part now, and each further one after a pause, in a thread."""
    Path(path).write_text(parts[0])

    def write():
        for part in parts[1:]:
            time.sleep(pause)
            with open(path, "a") as file:
                file.write(part)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_an_end_behind_which_training_goes_on_is_none(capsys):
    """A curriculum: TRL prints `train_runtime` after each of two stages."""
    first, second = trl_console(rewards(150)[:60]), trl_console(rewards(150)[60:])
    thread = grow("run.log", [first, second[: len(second) // 2], second[len(second) // 2 :]], 0.4)
    start = time.monotonic()
    assert main(["watch", "run.log", "every=0.6", "for=30"]) == OK
    assert time.monotonic() - start < 20
    thread.join()
    assert "150 rewards" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("made", "last"),
    [
        (verl_console, "(TaskRunner pid=1) ('Final validation metrics: ' \"{'val-core/x/reward/mean@1': 0.6}\")"),
        (verl_console, "(TaskRunner pid=1) \"Final validation metrics: {'val-core/x/reward/mean@1': 0.6}\""),
        (prime_console, "12:00:01 SUCCESS RL training finished!"),
        (verl_console, "Max number of steps has been reached, stopping training early"),
        (verl_console, "20261126-01:02:03.004 StatsLogger INFO: Training completes! Total time elapsed 10.00."),
    ],
)
def test_the_end_that_a_trainer_prints_ends_it(made, last):
    Path("run.log").write_text(made(rewards(60)) + last + "\n")
    start = time.monotonic()
    assert main(["watch", "run.log", "every=0.1", "for=30"]) == OK
    assert time.monotonic() - start < 15
    Path("run.log").write_text(made(rewards(60)))
    start = time.monotonic()
    assert main(["watch", "run.log", "every=0.1", "for=3"]) == OK
    assert time.monotonic() - start >= 3


def test_a_file_that_grows_without_rows_is_waited_for(capsys):
    """Text between two steps, as of a server that generates: `idle` counts from the last of it."""
    parts = [verl_console(rewards(30)), *["generating ...\n"] * 6, verl_console(rewards(40))[-600:]]
    thread = grow("run.log", parts, 0.4)
    assert main(["watch", "run.log", "every=0.1", "idle=1"]) == OK
    thread.join()
    assert "40 rewards" in capsys.readouterr().out


def test_a_log_of_one_line_is_read(capsys):
    Path("run.jsonl").write_text(jsonl([0.25]))
    main(["watch", "run.jsonl", "for=0.2", "every=0.1"])
    assert "1 rewards" in capsys.readouterr().out
    Path("other.txt").write_text(jsonl([0.25]))
    main(["watch", "other.txt", "for=0.2", "every=0.1"])
    assert "judged as a whole" in capsys.readouterr().out
