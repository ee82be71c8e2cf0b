"""A policy with a float64 literal: both paths run it in single precision."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest
from settings import cells

from bandit_lab.bandits import Bandit, RewardLaw, two_arm
from bandit_lab.grpo import ESTIMATORS, K3, Exact, Lag, Learner, Refresh
from bandit_lab.simulation import run


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lifted(Bandit):
    """Softmax of the logits times a NumPy number, which is float64 and no weak type."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array

    def log_policy(self, theta):
        return jax.nn.log_softmax(theta * np.full(2, 1.5))[None]


def lifted():
    plain = two_arm()
    return Lifted(plain.law, plain.initial_parameters, plain.reference_log_policy)


@pytest.mark.parametrize(
    ("estimator", "kl", "staleness"),
    [("frozen", Exact(), Refresh()), ("ratio", K3(), Lag()), ("tpo", Exact(), Refresh()), ("clipped", K3(), Refresh())],
)
def test_both_paths_run_and_agree(estimator, kl, staleness):
    """n = 2,048 runs on each path, seed 0, |z| <= 5 at four steps: false alarm 2e-6. Fast alone it was a TypeError."""
    learner = Learner(lifted(), estimator=ESTIMATORS[estimator](), kl_estimator=kl, staleness=staleness, group_size=4)
    options = {"steps": 4, "seeds": 2048, "seed": 0, "dtype": np.float32}
    fast, slow = (run(learner, "sampled", cells(0.5, 0.5, 2), path=path, **options) for path in ("fast", "reference"))
    error = np.sqrt((fast.reward_variance + slow.reward_variance)[0, 1:] / 2048)
    assert np.max(np.abs(fast.reward_mean - slow.reward_mean)[0, 1:] / error) <= 5
    assert np.ptp(slow.reward_mean) > 0.05
    mean = run(learner, "mean_field", cells(0.5, 0.5, 2), steps=4, dtype=np.float32, path="reference")
    assert np.all(np.isfinite(mean.reward_mean))
