"""A third policy between the one that acts and the current one: a snapshot with a refresh interval of its own."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import Staleness, averages, draws


class Acted(NamedTuple):
    """Behaviour and proximal parameters, [D] each (or policies at these)."""

    behaviour: Any
    proximal: Any


@dataclass(frozen=True)
class WithProximal:
    """A staleness model beside a snapshot of the current policy that is taken at t mod M = 0, before the update.

    rule: says which policy acts. interval: M, steps; 1 is the current policy. State: (that of the rule, snapshot [D]).
    Raises ValueError for M < 1, and where several policies act at once or ages are drawn.
    """

    rule: Staleness
    interval: int
    block_synchronous = False

    def __post_init__(self) -> None:
        _checks.integer("proximal_interval", self.interval, 1)
        one = not averages(self.rule) and not draws(self.rule)
        _checks.require(one, "proximal_interval", f"null with staleness={self.rule.model}", self.interval)

    @property
    def model(self) -> str:
        """The rule's."""
        return self.rule.model

    @property
    def smallest_interval(self) -> int:
        """The rule's."""
        return self.rule.smallest_interval

    @property
    def whole_interval(self) -> bool:
        """The rule's."""
        return self.rule.whole_interval

    def horizon_for(self, interval: float) -> int:
        """The rule's."""
        return self.rule.horizon_for(interval)

    def init(self, theta: Array, horizon: int) -> tuple[Any, Array]:
        """The snapshot is theta_0."""
        return self.rule.init(theta, horizon), theta

    def behaviour(
        self, state: tuple[Any, Array], theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Acted, tuple[Any, Array]]:
        """Both policies."""
        old, memory = self.rule.behaviour(state[0], theta, step, interval, key)
        proximal = jnp.where(step % self.interval == 0, theta, state[1])
        return Acted(old, proximal), (memory, proximal)

    def period(self, interval: int) -> Any:
        """Steps after which both repeat themselves."""
        return jnp.lcm(self.rule.period(interval), self.interval)

    def rewind(self, state: tuple[Any, Array], steps: int) -> tuple[Any, Array]:
        """The rule's memory set back; the snapshot carries no clock."""
        return self.rule.rewind(state[0], steps), state[1]
