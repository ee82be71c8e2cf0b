"""The interface of an advantage, and what every one of them shares."""

from collections.abc import Callable
from typing import Protocol

import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array


class Advantage(Protocol):
    """Turns the rewards of one group into advantages.

    For developers. A new advantage is one file in this folder, or a module of yours: a frozen dataclass under
    `@register_advantage("its_name")`. Its fields are its options, which it checks. It has the class attributes

    - `smallest_group`: the least group size for which it means something;
    - `linear`: whether it is a linear function of the group's rewards (then the mean gradient is that of J);
    - `centred`: whether the advantages of every group add up to 0;
    - `drops_silent`: whether silent groups (all rewards equal) are thrown away and drawn anew;

    and one method

    - `advantages(values, shares, size)` -> the advantage of an action that got each value [U, ...]. values [U, ...]: of
      the reward. shares [U, ...]: of the group's actions that got each. size: G, None for an infinite group. Groups
      stand side by side in the trailing axes and do not see each other: values [U, 1] and shares [U, L] -> [U, L].
      What does not look at the shares may keep the shape of the values.

    and, only where rewards may be normal (bandit `gaussian`) and it jumps, or is none of the two classes below,

    - `in_normal_group(share, means, stds)`: in an infinite group whose arms have these shares [K] and normal rewards
      (means, standard deviations [K]): (the reward at which the advantage jumps or changes its sign, the advantage as a
      function of rewards of any shape). Without it a step is refused there in the mean field: nodes cannot integrate
      it.

    Everything else follows from `advantages`. In a drawn group each reward is a value of its own with the share 1/G. In
    exact finite groups and on the fast path the shares are counts over G. In an infinite group they are probabilities,
    and derivatives are taken in them. So some of the values may be equal, and some shares may be 0: neither may change
    the advantages of the others. Rounded shares need not add up to 1: `is_silent` tells a silent group exactly.

    Two classes to inherit from write that method:

    - `Scaled`, where it is (r - mean of the group) times one number per group: write that number, `scale`. The fast
      path is fastest with these.
    - `BatchWide`, where it depends on the other groups of the step: write `batch_advantages`.
    """

    smallest_group: int
    linear: bool
    centred: bool
    drops_silent: bool

    def advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """Advantage [U, ...] of each reward value [U, ...] with these shares [U, ...] of a group of G rewards."""
        ...


ADVANTAGES: Registry[Advantage] = Registry(
    "advantage", ("smallest_group", "linear", "centred", "drops_silent", "advantages")
)
register_advantage = ADVANTAGES.register


class Scaled:
    """An advantage that is (r - mean of the group) times a number that all of the group share."""

    smallest_group = 2
    linear = False
    centred = True
    drops_silent = False

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """The factor [...] for groups of G rewards with these population variances [...], all equal or not [...]."""
        raise NotImplementedError

    def in_normal_group(self, share: Array, means: Array, stds: Array) -> tuple[Array, Callable[[Array], Array]]:
        """(The mean reward, (r - mean) times `scale`)."""
        mean = share @ means
        factor = self.scale(share @ (stds**2 + (means - mean) ** 2), jnp.asarray(False), None)
        return mean, lambda rewards: (rewards - mean) * factor

    def advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """(r - mean) times `scale`."""
        return (values - mean_of(values, shares)) * self.scale(*spread_of(values, shares), size)


class BatchWide:
    """An advantage that depends on the other groups of the step."""

    def batch_advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """`advantages` in a batch: its P groups stand along the second axis, [U, P, ...], values may be [U, 1, ...].

        In the limit of infinitely many infinite groups these are the contexts, each as often as the others.
        """
        raise NotImplementedError

    def advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """Those of a group that is alone in its batch."""
        return self.batch_advantages(values[:, None], shares[:, None], size)[:, 0]


def sees_batch(advantage: Advantage) -> bool:
    """True if an advantage depends on the other groups of the batch."""
    return isinstance(advantage, BatchWide)


def advantages(advantage: Advantage, values: Array, shares: Array, size: int | None) -> Array:
    """Advantages [U, ...] in groups side by side, of the shape of their shares: see `Advantage`."""
    return jnp.broadcast_to(advantage.advantages(values, shares, size), shares.shape)


def batch_advantages(advantage: Advantage, values: Array, shares: Array, size: int | None) -> Array:
    """Advantages [U, P, ...] in the P groups of one batch: see `BatchWide.batch_advantages`."""
    if not isinstance(advantage, BatchWide):
        return advantages(advantage, values, shares, size)
    return jnp.broadcast_to(advantage.batch_advantages(values, shares, size), shares.shape)


def drawn_advantages(advantage: Advantage, rewards: Array) -> Array:
    """Advantages [P, G] of all actions of one step, from the rewards [P, G] of its groups."""
    values, size = rewards.T, rewards.shape[1]
    return batch_advantages(advantage, values, jnp.full_like(values, 1 / size), size).T


def mean_of(values: Array, shares: Array) -> Array:
    """Mean reward [...] of groups; exact where all rewards are equal, also with shares that are rounded."""
    return values[0] + jnp.sum((values - values[0]) * shares, axis=0)


def spread_of(values: Array, shares: Array) -> tuple[Array, Array]:
    """(population variance of the rewards [...], whether they are all equal [...], or their variance underflows)."""
    variance = jnp.sum((values - mean_of(values, shares)) ** 2 * shares, axis=0)
    return variance, is_silent(values, shares) | (variance <= 0)


def is_silent(values: Array, shares: Array) -> Array:
    """True where all rewards of a group are equal [...], exactly: one distinct value [U, ...] alone has a share > 0."""
    highest = jnp.max(jnp.where(shares > 0, values, -jnp.inf), axis=0)
    return highest <= jnp.min(jnp.where(shares > 0, values, jnp.inf), axis=0)
