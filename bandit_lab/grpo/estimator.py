"""How an action that was drawn from an old policy counts in the gradient at the current one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp

from bandit_lab._types import Array


class Estimator(Protocol):
    """The gradient of one action a with advantage A is  weight(ratio, A) * A * grad log pi(a).

    ratio = pi(a) / pi_old(a), current over behaviour policy.

    For developers. A new estimator is a frozen (hashable) dataclass with

    - `at_snapshot`: whether grad log pi and the KL term are taken at the behaviour policy (True) or at the current
      policy (False);
    - `weight(ratio, advantage)`: scalars -> scalar factor; it is a value, never differentiated.
    """

    @property
    def at_snapshot(self) -> bool:
        """Whether the gradient is taken at the behaviour policy."""
        ...

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """Factor of one action's advantage."""
        ...


@dataclass(frozen=True)
class Frozen:
    """Reward and KL gradient both evaluated at the snapshot: the whole drift is stale (model A of the refresh law)."""

    at_snapshot: bool = True

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """1."""
        return jnp.ones_like(ratio)


@dataclass(frozen=True)
class Uncorrected:
    """Actions of the snapshot, no importance ratio; score and exact KL at the current policy.

    With group-centred advantages (1/G) sum_i A_i (e_{a_i} - pi) does not depend on pi, group by group, so that the
    reward part is the frozen one; only the KL term is fresh.
    """

    at_snapshot: bool = False

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """1."""
        return jnp.ones_like(ratio)


@dataclass(frozen=True)
class Ratio:
    """Importance-weighted, not clipped: A pi(a)/pi_old(a) grad log pi(a). Fresh in the mean but for the group std."""

    at_snapshot: bool = False

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio."""
        return ratio


ESTIMATORS: dict[str, Callable[..., Estimator]] = {"frozen": Frozen, "uncorrected": Uncorrected, "ratio": Ratio}
