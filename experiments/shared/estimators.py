"""Two rules of asynchronous training which the package does not have, as plug-ins: decoupled PPO and M2PO."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import Estimator, TokenMean, clipped_weight, register_estimator


@register_estimator("decoupled")
@dataclass(frozen=True)
class Decoupled(TokenMean):
    """Decoupled PPO: w min(u A, clip(u, 1 - epsilon, 1 + epsilon) A), u = pi/pi_prox and w = pi_prox/pi_old held fixed.

    arXiv 2110.00641; asynchronous: arXiv 2505.24298. The proximal policy lies between the two others: log pi_prox =
    (1 - alpha) log pi_old + alpha log pi, AReaL's approximation by versions; alpha = 1 - 1/age where it is one step old
    (inclusionai.github.io/AReaL/algorithms/prox_approx.html). So an action counts by pi/pi_old as long as its power
    1 - alpha is not clipped. alpha = 0 is `clipped`. weighted: False leaves w out, as where a trainer works out old
    probabilities anew and takes the answers for that policy's. Raises ValueError unless 0 < epsilon < 1 and 0 <= alpha
    < 1.
    """

    epsilon: float = 0.2
    alpha: float = 0.5
    weighted: bool = True
    at_snapshot = False

    def __post_init__(self) -> None:
        epsilon, alpha = (_checks.finite_number(f"estimator.{one}", getattr(self, one)) for one in ("epsilon", "alpha"))
        _checks.require(0 < epsilon < 1, "estimator.epsilon", "a number in (0, 1)", self.epsilon)
        _checks.require(0 <= alpha < 1, "estimator.alpha", "a number in [0, 1)", self.alpha)

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio, or 0 beyond the clip."""
        clipped = clipped_weight(ratio ** (1 - self.alpha), advantage, self.epsilon, self.epsilon)
        return clipped * ratio**self.alpha if self.weighted else clipped


@register_estimator("m2po")
@dataclass(frozen=True)
class M2PO(Estimator):
    """A pi/pi_old grad log pi of the actions that are kept: the largest |log pi/pi_old| are left out until the mean of
    its square over the others is at most `threshold`.

    arXiv 2510.01161. There the mean is over the tokens of a batch; here over the actions of a group, and
    equal ones go together. In an infinite group the mean is that of the law that drew. Nothing is left out on policy.
    Raises ValueError for threshold <= 0.
    """

    threshold: float = 0.04
    at_snapshot = False

    def __post_init__(self) -> None:
        _checks.positive("estimator.threshold", self.threshold)

    def of_group(self, log_policy: Array, log_old: Array, advantage: Array, share: Array) -> Array:
        """A pi/pi_old, or 0 for what is left out."""
        change = log_policy - log_old
        square = change**2
        upto = jnp.where(square[None] <= square[:, None], share[None], 0)  # [M, M, ...]: the second moved no farther
        within = jnp.sum(upto * square[None], axis=1) <= self.threshold * jnp.sum(upto, axis=1)
        return jnp.where(within, advantage * jnp.exp(jnp.where(within, change, 0)), 0)
