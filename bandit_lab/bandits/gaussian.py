"""Arms with normally distributed rewards: a continuous law, so that no group is ever silent."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw, register_bandit
from bandit_lab.bandits.tabular import k_arm

NODES = 16


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianBandit(Bandit):
    """Softmax policy over K arms, one logit each; the reward of arm k is N(means[k], stds[k]^2).

    `law` holds Gauss-Hermite nodes of every arm: moments up to order 2 NODES - 1 are exact. The mean field integrates
    between the steps of an advantage instead, and refuses steps that it does not know of (`simulation.normal_law`).

    means, stds: [K], reward units.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    means: Array
    stds: Array
    exact_law = False
    tabular = True

    @property
    def normal_stds(self) -> Array:  # type: ignore[override]
        """Standard deviations [1, K]."""
        return self.stds[None]

    def log_policy(self, theta: Array) -> Array:
        """log softmax of the logits: [K] -> [1, K]."""
        return jax.nn.log_softmax(theta)[None]

    def sample_rewards(self, key: Array, context: Array, arms: Array) -> Array:
        """One normal reward [G] per action in `arms` [G]. `key` is consumed."""
        return self.means[arms] + self.stds[arms] * jax.random.normal(key, arms.shape, self.means.dtype)


@register_bandit("gaussian")
def gaussian(
    rewards: Sequence[float] = (1.0, 0.5, 0.0),
    stds: Sequence[float] = (0.5, 0.5, 0.5),
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
) -> GaussianBandit:
    """K arms with normal rewards.

    Args:
      rewards, stds: [K] means, any numbers, and standard deviations > 0, reward units.
      reference_logits, initial_logits: as in `k_arm`.

    Raises:
      ValueError: what `k_arm` raises; another number of stds, a std that is not positive.
    """
    noiseless = k_arm(rewards, reference_logits, initial_logits, "fixed")
    means = np.array(rewards, float)
    spread = np.array(_checks.rewards("bandit.stds", stds, len(means)))
    for i, std in enumerate(spread.tolist()):
        _checks.positive(f"bandit.stds[{i}]", std)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    values = means[:, None] + spread[:, None] * nodes
    law = RewardLaw(
        jax.device_put(values.ravel()), jax.device_put(np.kron(np.eye(len(means)), weights / weights.sum())[None])
    )
    start, reference = noiseless.initial_parameters, noiseless.reference_log_policy
    return GaussianBandit(law, start, reference, jax.device_put(means), jax.device_put(spread))
