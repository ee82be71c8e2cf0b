"""A log without a reward is diagnosed from what else it holds, and is never called healthy."""

import json

import numpy as np
import pytest
from told import rows as rows_of

STEP = np.arange(60)
LEVEL = 0.3 + 0.02 * np.random.default_rng(0).normal(size=STEP.size)
FAILURES = {
    "diverging": {"kl": np.where(STEP == 45, 80.0, 0.1)},
    "sampler_mismatch": {"sampling/sampling_logp_difference/mean": np.full(STEP.size, 0.8)},
}
NOTES = {
    "truncated_answers": {"completions/clipped_ratio": np.ones(STEP.size)},
    "policy_concentration": {"entropy": np.where(STEP < 30, 1.0, 0.01)},
    "advantage_degeneracy": {"frac_reward_zero_std": np.full(STEP.size, 0.95)},
    "clipped": {"entropy": np.ones(STEP.size), "clip_ratio": np.full(STEP.size, 0.6)},
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
    (row,) = judged(written(tmp_path, **FAILURES[name]))
    assert row["verdict"] == [name]
    assert row["notes"] == {}


def test_nothing_found_is_not_healthy(tmp_path):
    (row,) = judged(written(tmp_path, **QUIET))
    assert row["verdict"] == []
    assert row["outcome"]["what"] == "not logged"
    assert row["next"].startswith("Log the reward")
    assert "reward" in row["not_logged"]


@pytest.mark.parametrize("name", [*FAILURES, *NOTES])
def test_the_scores_are_those_of_the_same_run_with_a_level_reward(name, tmp_path):
    columns = (FAILURES | NOTES)[name]
    (bare,), (whole,) = judged(written(tmp_path, **columns)), judged(written(tmp_path, reward=LEVEL, **columns))
    assert bare["reward_key"] is None
    values = [{one["rule"]: one["value"] for one in row["evidence"] if one["verdict"] == name} for row in (bare, whole)]
    assert values[0] == values[1] != {}
