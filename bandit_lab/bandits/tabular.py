"""K arms, one logit per arm: the softmax bandit in which the mean-field assumption of arXiv 2606.30789 is exact."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw, register_bandit


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TabularBandit(Bandit):
    """Softmax policy over K arms with all K logits trained: pi_k = exp(theta_k) / sum_j exp(theta_j).

    Adding a constant to every logit changes nothing, so the update lives on the K - 1 other directions. With two arms
    the logit gap theta_1 - theta_2 moves twice as fast as the single logit of p = sigma(x).
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    tabular = True

    def log_policy(self, theta: Array) -> Array:
        """log softmax of the logits: [K] -> [1, K]."""
        return jax.nn.log_softmax(theta)[None]


@register_bandit("k_arm")
def k_arm(
    rewards: Sequence[float] = (0.9, 0.7, 0.5, 0.3, 0.1),
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
    kind: str = "bernoulli",
) -> TabularBandit:
    """K arms with rewards in {0, 1} of given success probability, or with fixed rewards.

    Args:
      rewards: [K] success probabilities in [0, 1] (0 and 1 are deterministic arms); with kind="fixed" the rewards.
      reference_logits: [K] logits of the reference policy; default zeros (uniform).
      initial_logits: [K] logits at step 0; default zeros.
      kind: "bernoulli" or "fixed".

    Raises:
      ValueError: fewer than two arms, a length that differs, a probability outside [0, 1], NaN or infinity, a
        reference probability that is 0 in double precision.
    """
    means = _checks.rewards("bandit.rewards", rewards)
    _checks.require(len(means) >= 2, "bandit.rewards", "at least 2 arms", list(means))
    _checks.choice("bandit.kind", kind, ("bernoulli", "fixed"))
    zeros = (0.0,) * len(means)
    reference = _checks.numbers(
        "bandit.reference_logits", zeros if reference_logits is None else reference_logits, len(means)
    )
    initial = _checks.numbers("bandit.initial_logits", zeros if initial_logits is None else initial_logits, len(means))
    log_reference = np.array(reference) - np.logaddexp.reduce(reference)
    _checks.require(
        bool(np.all(np.exp(log_reference) > 0)), "bandit.reference_logits", "reference probabilities > 0", reference
    )
    if kind == "bernoulli":
        for i, p in enumerate(means):
            _checks.require(0 <= p <= 1, f"bandit.rewards[{i}]", "a success probability in [0, 1]", p)
        values, probabilities = np.array([0.0, 1.0]), np.stack([1 - np.array(means), np.array(means)], axis=-1)
    else:
        values, inverse = np.unique(means, return_inverse=True)
        probabilities = np.eye(len(values))[inverse]
    return TabularBandit(  # by device_put: jnp.asarray would compile a copy for every shape
        RewardLaw(jax.device_put(values), jax.device_put(probabilities[None]), certain=kind == "fixed"),
        jax.device_put(np.array(initial)),
        jax.device_put(log_reference[None]),
    )


@register_bandit("two_arm")
def two_arm(
    rewards: Sequence[float] = (0.9, 0.1),
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
    kind: str = "bernoulli",
) -> TabularBandit:
    """Two arms: `k_arm` with K = 2.

    Raises ValueError as `k_arm` does, and for another number of arms.
    """
    _checks.require(len(rewards) == 2, "bandit.rewards", "2 arms", list(rewards))
    return k_arm(rewards, reference_logits, initial_logits, kind)
