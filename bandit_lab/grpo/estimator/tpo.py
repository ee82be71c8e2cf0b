"""Fitting the policy to a target distribution over the actions of a group."""

from dataclasses import dataclass

import jax

from bandit_lab import _checks
from bandit_lab._numerics import exp, leading_max, leading_sum, materialize
from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import Estimator, register_estimator


@register_estimator("tpo")
@dataclass(frozen=True)
class TPO(Estimator):
    """Descends the cross-entropy -sum_i q_i log p_i: its gradient is sum_i (q_i - p_i) grad log pi(a_i).

    p_i ~ pi(a_i) and q_i ~ pi_old(a_i) exp(A_i / temperature), each normalised over the actions of the group; an action
    that was drawn twice stands there twice. arXiv 2604.06159, section 2, with advantage=grpo (scores over their std,
    0 in a silent group). It vanishes where the policy has reached the target. In an infinite group the sums become
    expectations under pi_old (derived here): q_i G -> pi_old exp(A/T) / E_old[pi_old exp(A/T)] and
    p_i G -> pi / E_old[pi]: likely actions count twice, once drawn and once weighed. At finite G
    q and p depend on every action of the group: the mean is a sum over groups (`simulation.enumerated_group`)
    without a closed form. The temperature is in units of the advantage. Raises ValueError unless it is > 0.
    """

    temperature: float = 1.0
    at_snapshot = False

    def __post_init__(self) -> None:
        _checks.positive("estimator.temperature", self.temperature)

    def of_group(self, log_policy: Array, log_old: Array, advantage: Array, share: Array) -> Array:
        """(q_i - p_i) / share_i."""
        return self.of_weights(_over_largest(log_policy), log_old, advantage, share)

    def of_weights(self, weights: Array, log_old: Array, advantage: Array, share: Array) -> Array:
        """The same from the current policy up to a factor."""
        target = _over_largest(log_old + advantage / self.temperature)
        return target * (1 / leading_sum(share * target)) - weights * (1 / leading_sum(share * weights))


def _over_largest(logarithm: Array) -> Array:
    """exp(logarithm) over the largest along the first axis."""
    # Held: it cancels, and the derivative of a maximum is 0/0 where its value is computed twice and unequally.
    return materialize(exp(logarithm - jax.lax.stop_gradient(leading_max(logarithm))))
