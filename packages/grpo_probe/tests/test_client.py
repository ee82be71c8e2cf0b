"""The client's enumerated truth is what TRL samples, rewards and learns from.

n and seeds are fixed; a goodness-of-fit test alarms falsely with probability 1e-3 per test.
"""

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs the extra trl")

import client
from scipy.stats import chi2

pytestmark = client.MARKS

LEVEL = 1e-3


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """Counts [prompt, word] of 20 steps of 256 answers at learning rate 0, with the trainer's own log."""
    counts = np.zeros(client.REWARDS.shape, int)

    def counted(completion_ids, row, **rest):
        np.add.at(counts, (row, [ids[0] for ids in completion_ids]), 1)
        return client.reward(completion_ids, row)

    trainer = client.trainer(
        tmp_path_factory.mktemp("standing"), learning_rate=0.0, group_size=64, max_steps=20, rewards=counted
    )
    before = client.policy(trainer.model)
    trainer.train()
    return trainer, before, counts


def misfit(counts: np.ndarray, policy: np.ndarray) -> float:
    """Pearson's statistic over all prompts, over its quantile of 1 - LEVEL; above 1 the policy is rejected."""
    expected = counts.sum(axis=1, keepdims=True) * policy
    freedom = counts.size - len(counts)
    return float(np.sum((counts - expected) ** 2 / expected) / chi2.ppf(1 - LEVEL, freedom))


def test_the_enumerated_policy_is_what_the_trainer_samples(standing):
    """Planted: temperature 0.8, and two prompts exchanged."""
    trainer, policy, counts = standing
    assert counts.sum() == 20 * 4 * 64
    np.testing.assert_array_equal(client.policy(trainer.model), policy)
    assert misfit(counts, policy) < 1
    sharper = policy**1.25 / np.sum(policy**1.25, axis=1, keepdims=True)
    assert misfit(counts, sharper) > 1
    assert misfit(counts, policy[[1, 0, 2, 3]]) > 1


def test_the_enumerated_reward_is_what_the_trainer_logs(standing):
    """The log is the mean of the table over the answers counted; the table with two words exchanged is not."""
    trainer, _, counts = standing
    logged = np.mean([entry["reward"] for entry in trainer.state.log_history if "reward" in entry])
    assert logged == pytest.approx(np.sum(counts * client.REWARDS) / counts.sum(), abs=1e-5)
    planted = client.REWARDS[:, [0, 1, 3, 2, 4, 5]]
    assert logged != pytest.approx(np.sum(counts * planted) / counts.sum(), abs=1e-3)
