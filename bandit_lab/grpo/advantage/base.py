"""The interface of an advantage, and what every one of them shares."""

from collections.abc import Callable
from typing import Protocol, cast

import jax
import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array
from bandit_lab.grpo import probes


class Advantage(Protocol):
    """How rewards of one group become advantages.

    For developers. A new advantage is one file in this folder (or a module of yours) with a frozen (hashable)
    dataclass under `@register_advantage("its_name")`, whose fields are its options, checked by itself. It
    has the class attributes

    - `smallest_group`: the least group size for which it means something;
    - `linear`: whether it is a linear function of the group's rewards (then the mean gradient is that of J);
    - `centred`: whether the advantages of every group add up to 0;
    - `drops_silent`: whether silent groups (all rewards equal) are thrown away and drawn anew;

    and

    - `__call__(rewards)`: [G] rewards of one group -> [G] advantages;
    - `population(values, probabilities)`: the limit of an infinite group with reward law `probabilities` [U] on
      `values` [U] -> advantage [U] of an action that got each value; also for many laws, [U, 1] and [U, L] -> [U, L].

    and, so that sampled runs take the fast path, one of (with neither, the reference path runs)

    - `scale(variance, silent, size)`: where an action's advantage is (r - mean of the group) times a number that all of
      the group share: that number for many groups at once, from the population variances [L] of their rewards, whether
      all rewards are equal [L], and G (None: an infinite group);
    - `of_counts(values, counts)`: any other rule, for many groups at once: the reward values [U, 1], distinct and
      rising, and how many rewards of a group have each of them [U, L] (whole numbers as floats, G in all; some may be
      0) -> advantage of each [U, L]. It is `population` for a finite group;

    and, where it depends on the other groups of the batch (then `__call__` is a batch of that group alone):

    - `batch(rewards)`: [P, G] rewards of all groups of one step -> [P, G] advantages;
    - `population_batch(values, laws)`: the limit of infinitely many infinite groups, as many of every context:
      [U] and [X, U] -> [X, U].
    """

    @property
    def smallest_group(self) -> int:
        """Least group size."""
        ...

    @property
    def linear(self) -> bool:
        """Whether it is linear in the rewards."""
        ...

    @property
    def centred(self) -> bool:
        """Whether the advantages of a group add up to 0."""
        ...

    @property
    def drops_silent(self) -> bool:
        """Whether groups are drawn conditional on not being silent."""
        ...

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G] of one group with rewards [G]."""
        ...

    def population(self, values: Array, probabilities: Array) -> Array:
        """Advantages [U] of each reward value [U] in an infinite group with that law [U]."""
        ...


ADVANTAGES: Registry[Advantage] = Registry(
    "advantage",
    ("smallest_group", "linear", "centred", "drops_silent", "__call__", "population"),
    probe=probes.advantage,
)
register_advantage = ADVANTAGES.register


class Scaled(Advantage, Protocol):
    """An advantage that is (r - mean of the group) times a number that all of the group share."""

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """That number [L] for groups with these variances [L], all rewards equal or not [L], of G rewards."""
        ...


def scale_of(advantage: Advantage) -> Callable[[Array, Array, int | None], Array]:
    """`scale` of an advantage that has one."""
    return cast(Scaled, advantage).scale


def sees_batch(advantage: Advantage) -> bool:
    """Whether an advantage depends on the other groups of the batch."""
    return hasattr(advantage, "batch")


def batch_advantages(advantage: Advantage, rewards: Array) -> Array:
    """Advantages [P, G] of all groups of one step."""
    return advantage.batch(rewards) if hasattr(advantage, "batch") else jax.vmap(advantage)(rewards)


def population_advantages(advantage: Advantage, values: Array, laws: Array) -> Array:
    """Advantages [X, U] of each reward value [U] in infinite groups whose laws are [X, U]."""
    if hasattr(advantage, "population_batch"):
        return advantage.population_batch(values, laws)
    return jax.vmap(advantage.population, (None, 0))(values, laws)


def inverse_std(variance: Array, silent: Array, eps: float) -> Array:
    """1 / (sqrt(variance) + eps), and exactly 0 for silent groups; smooth elsewhere."""
    std = jnp.sqrt(jnp.where(silent, 1, variance))
    return jnp.where(silent, 0, 1 / (std + eps))
