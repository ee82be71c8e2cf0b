"""Reward hacking in its plainest form: the reward that is trained on is not the one that is reported."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw, register_bandit
from bandit_lab.bandits.tabular import k_arm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ProxyBandit(Bandit):
    """Softmax policy over K arms, one logit each, whose groups see a proxy of the true reward.

    Training, fixed point and stiffness belong to `law`, the proxy; the reported expected reward is
    sum_k pi_k `reported_means`[k]. Where the two rank arms differently, the reported reward falls as the trained one
    rises.

    reported_means: [1, K] true mean reward of every arm.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    reported_means: Array
    tabular = True

    def log_policy(self, theta: Array) -> Array:
        """log softmax of the logits: [K] -> [1, K]."""
        return jax.nn.log_softmax(theta)[None]

    @property
    def true_means(self) -> Array:
        """Mean of the true reward of every arm [1, K]."""
        return self.reported_means


@register_bandit("proxy")
def proxy(
    rewards: Sequence[float] = (0.9, 0.6, 0.1),
    true_rewards: Sequence[float] = (0.2, 0.8, 0.1),
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
    kind: str = "bernoulli",
) -> ProxyBandit:
    """K arms that are trained on `rewards` and reported by `true_rewards`.

    Args:
      rewards, reference_logits, initial_logits, kind: of the proxy, as in `k_arm`.
      true_rewards: [K] true mean reward of every arm, reward units.

    Raises:
      ValueError: what `k_arm` raises; another number of true rewards.
    """
    trained = k_arm(rewards, reference_logits, initial_logits, kind)
    means = _checks.rewards("bandit.true_rewards", true_rewards, trained.law.probabilities.shape[1])
    return ProxyBandit(
        trained.law, trained.initial_parameters, trained.reference_log_policy, jax.device_put(np.array(means)[None])
    )
