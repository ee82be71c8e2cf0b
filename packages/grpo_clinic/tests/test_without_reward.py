"""A log without a reward is diagnosed from what else it holds, and is never called healthy."""

import json

import numpy as np
import pytest
from grpo_clinic import fit
from grpo_clinic.readers import read
from told import rows as rows_of

STEP = np.arange(60)
LEVEL = 0.3 + 0.02 * np.random.default_rng(0).normal(size=STEP.size)
BREAKS = np.where(STEP < 45, 1.0, 40.0)
"""Forty times its usual level over the last quarter: the limit is ten."""
FAILURES = {
    "diverging": {"kl": 0.1 * BREAKS},
    "truncated_answers": {"completions/clipped_ratio": np.ones(STEP.size)},
    "sampler_mismatch": {"sampling/sampling_logp_difference/mean": np.full(STEP.size, 0.8)},
    "plumbing": {"grad_norm": np.zeros(STEP.size), "frac_reward_zero_std": np.full(STEP.size, 0.2)},
}
NOTES = {
    "policy_concentration": {"entropy": np.where(STEP < 30, 1.0, 0.01)},
    "advantage_degeneracy": {"frac_reward_zero_std": np.full(STEP.size, 0.95)},
    "answer_length": {"entropy": np.ones(STEP.size), "completions/mean_length": np.where(STEP < 30, 300.0, 10.0)},
}
QUIET = {"kl": 0.01 * LEVEL, "entropy": LEVEL, "grad_norm": LEVEL, "frac_reward_zero_std": LEVEL}


def written(folder, name="log.jsonl", **columns):
    path = folder / name
    rows = [{"step": int(n), **{key: float(value[n]) for key, value in columns.items()}} for n in STEP]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def judged(*paths, **settings):
    return rows_of(*paths, **settings)


@pytest.mark.parametrize("name", FAILURES)
def test_what_another_column_proves_is_a_failure(name, tmp_path):
    (found,) = judged(written(tmp_path, **FAILURES[name]))
    assert found["verdict"] == [name]
    assert found["notes"] == {}


@pytest.mark.parametrize("name", NOTES)
def test_what_only_the_reward_tells_from_success_is_a_note(name, tmp_path):
    (found,) = judged(written(tmp_path, **NOTES[name]))
    assert "without a reward nobody can tell" in found["notes"][name]
    assert found["next"].startswith("Log the reward")


def test_nothing_found_is_not_healthy(tmp_path):
    (found,) = judged(written(tmp_path, **QUIET))
    assert found["verdict"] == []
    assert found["outcome"]["what"] == "not logged"
    assert found["next"].startswith("Log the reward")
    assert "reward" in found["not_logged"]


@pytest.mark.parametrize("name", [*FAILURES, *NOTES])
def test_the_scores_are_those_of_the_same_run_with_a_level_reward(name, tmp_path):
    columns = (FAILURES | NOTES)[name]
    (bare,), (whole,) = judged(written(tmp_path, **columns)), judged(written(tmp_path, reward=LEVEL, **columns))
    assert bare["reward_key"] is None
    values = [{one["rule"]: one["value"] for one in row["evidence"] if one["verdict"] == name} for row in (bare, whole)]
    assert values[0] == values[1] != {}


def test_fits_want_a_reward(tmp_path):
    log = written(tmp_path, **QUIET)
    for command in (fit, read):
        with pytest.raises(ValueError, match=r"expected a log with a reward column, got none; the log has"):
            command(log)


def test_a_log_that_holds_nothing_telling_says_what_would(tmp_path):
    with pytest.raises(ValueError, match=r"reward column, got none; .*an entropy would tell a part of it"):
        judged(written(tmp_path, loss=LEVEL, lr=LEVEL))
    with pytest.raises(ValueError, match=r"reward_key: expected a column of the log, got 'score'"):
        judged(written(tmp_path, **QUIET), reward_key="score")


def test_a_reward_that_is_never_a_number_is_said(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"step": n, "reward": None, "kl": 0.01}) for n in range(20)))
    (found,) = judged(str(path))
    assert "'reward' holds no number" in found["remarks"]
