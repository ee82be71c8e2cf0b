"""Causes with a mechanism: each is found in a run made with it, and not in the same run without it."""

import json

import numpy as np
import pytest
from told import rows as rows_of

STEP = np.arange(110)
RISING = 0.2 + 0.5 * (1 - np.exp(-STEP / 10))
YOUNG = 60
FLAT = 0.3 + 0.02 * np.random.default_rng(0).normal(size=STEP.size)


def diagnosed(tmp_path, *held_out, points=STEP.size, **columns):
    """One log of the columns [90] and, every five rows, of the held-out ones, cut off after `points`: (failures but
    notes, the whole row)."""
    every = {key: np.asarray(value, float).tolist() for key, value in columns.items()}
    rows = [{"step": step, **{key: value[step] for key, value in every.items()}} for step in STEP.tolist()]
    for key, values in held_out:
        for step in range(0, STEP.size, 5):
            rows[step][key] = float(values[step])
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(row) for row in rows[:points]))
    (row,) = rows_of(str(log), reward_key="reward")
    return {name for name in row["verdict"] if name not in row["notes"]}, row


@pytest.mark.parametrize("key", ["true_reward", "gold", "gold_score", "rewards/correctness/mean"])
def test_a_proxy_that_leaves_what_it_stands_for(key, tmp_path):
    """The trained reward rises throughout; what it stands for follows, or falls from the middle on."""
    noise = 0.01 * np.random.default_rng(2).normal(size=(2, STEP.size))
    proxy, turned = 0.2 + 0.006 * STEP + noise[0], 0.2 + 0.006 * np.minimum(STEP, 90 - STEP) + noise[1]
    assert diagnosed(tmp_path, reward=proxy, **{key: turned})[0] == {"reward_hacking"}
    assert diagnosed(tmp_path, reward=proxy, **{key: proxy / 2 + noise[1]})[0] == set()


@pytest.mark.parametrize(("gain", "stalls"), [(0.02, True), (0.1, False)])
def test_a_gain_that_leaves_nearly_all_of_the_room_is_a_standstill(gain, stalls, tmp_path):
    """Both rises are beyond doubt, over noise of .002; the limit is a twentieth of the room of .97. The part that is
    the reward over again says that it ends at one: where nobody knows, it may well have been all."""
    reward = 0.03 + np.linspace(0, gain, STEP.size) + 0.002 * np.random.default_rng(1).normal(size=STEP.size)
    assert ("stalled" in diagnosed(tmp_path, reward=reward, accuracy=reward)[0]) is stalls
    assert "stalled" not in diagnosed(tmp_path, reward=reward, accuracy=reward / 2)[0]


def test_a_standstill_of_a_short_log_is_a_note(tmp_path):
    """A reward that is one and the same from the start is a failure at any length."""
    assert "stalled" in diagnosed(tmp_path, reward=FLAT)[0]
    named, row = diagnosed(tmp_path, points=YOUNG, reward=FLAT)
    assert (named, row["verdict"], [*row["notes"]]) == (set(), ["stalled"], ["stalled"])
    assert "stalled" in diagnosed(tmp_path, points=YOUNG, reward=0 * FLAT)[0]


def test_a_held_out_result_that_is_lost_with_the_reward_is_a_collapse(tmp_path):
    fall = np.where(STEP < 60, 0.7, 0.2)
    level = 0.5 - 0.1 * (STEP >= 65)  # too small a fall to be one by itself
    named, _ = diagnosed(tmp_path, ("eval_reward", fall), reward=level + 0.01 * np.sin(STEP))
    assert "collapsed" in named
    assert "collapsed" not in diagnosed(tmp_path, ("eval_reward", fall), reward=RISING + 0.001 * STEP)[0]


def test_nothing_may_fall_at_learning_rate_zero(tmp_path):
    """A control run that stays level is no standstill, and is told that its plumbing is in order, at the top of its
    scale, too. A rise gives no all-clear; a long log rounds its rate."""
    rate = np.zeros(STEP.size)
    for points, level in ((20, FLAT), (40, FLAT), (20, 0.65 + FLAT)):
        _, row = diagnosed(tmp_path, points=points, reward=level, learning_rate=rate)
        assert row["verdict"] == []
        assert row["next"].startswith("No all-clear from this control run: not logged on every row")
    assert diagnosed(tmp_path, reward=FLAT, learning_rate=rate)[0] == {"stalled"}
    named, row = diagnosed(tmp_path, points=20, reward=RISING, learning_rate=rate)
    assert named == set()
    assert row["next"].startswith("No all-clear from this control run: 'reward' lies at")
    _, row = diagnosed(tmp_path, reward=np.where(STEP < 5, 0.6, 0.02), learning_rate=rate)
    assert "nothing is unlearned: look at the engine" in row["next"]
