"""An optimiser whose second moments and counters stand still, so that its mean update has a fixed point.

The mean gradient vanishes at a fixed point, so a second moment fed with it decays to zero and the step grows without
bound: a noise-free fixed point of Adam does not exist. There is a state of fluctuating gradients whose second moment
has a stationary mean. To leading order in the learning rate the mean dynamics are those of the optimiser with the
second moment frozen there. Which leaf of a state is which is found from a symmetry that all optimisers share: reversing
every gradient and every parameter reverses first moments (`moves`) and leaves second moments (`second_moment`) as they
are. Leaves that do not change, and integers (counters, flags), are `fixed`; counters stand at a count so large that
bias corrections are off and schedules have arrived, or at the count that is asked for. Derived here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bandit_lab._types import Array

FAR = 2**30  # updates; every bias correction is then off
_WARM = 3  # updates that show which leaves change, and how
_EQUAL = 1e-9
_FAR_OFF = 1e4  # how far from one square a second moment is tried, to see whether its update is linear
SPAN = 8192  # updates
CHAINS = 8
_ROLES = ("moves", "second_moment", "fixed")


class FrozenMomentState(NamedTuple):
    """Leaves of an optimiser's state by role: first moments, second moments (as used in an update), all others."""

    moving: tuple[Array, ...]
    second_moment: tuple[Array, ...]
    fixed: tuple[Any, ...]


@dataclass(frozen=True)
class FrozenMomentOptimizer:
    """The optimiser `inner` with its `second_moment` leaves at the values in the state, before and after every update.

    An update first changes its second moment and then divides by it. So the value put in is the one that the update
    turns into the value wanted. It is found from the slope of that change: one Newton step, exact for averages.

    inner: an `Optimizer`, or anything with `build(learning_rate, momentum)`. roles, structure: of the leaves.
    """

    inner: Any
    roles: tuple[str, ...]
    structure: Any

    @property
    def convention(self) -> str:
        """The convention of momentum."""
        return self.inner.convention

    def split(self, leaves: list[Any]) -> FrozenMomentState:
        """Leaves of the inner state by role."""
        picked = {role: tuple(x for x, r in zip(leaves, self.roles, strict=True) if r == role) for role in _ROLES}
        return FrozenMomentState(picked["moves"], picked["second_moment"], picked["fixed"])

    def join(self, state: FrozenMomentState) -> Any:
        """The inner state."""
        parts = {"moves": iter(state.moving), "second_moment": iter(state.second_moment), "fixed": iter(state.fixed)}
        return jax.tree.unflatten(self.structure, [next(parts[role]) for role in self.roles])

    def build(self, learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
        """The transformation; its state is a FrozenMomentState."""
        inner = self.inner.build(learning_rate, momentum)

        def init(theta: Array) -> FrozenMomentState:
            return self.split(jax.tree.leaves(inner.init(theta)))

        def step(gradient: Array, state: FrozenMomentState, theta: Array | None) -> tuple[Array, FrozenMomentState]:
            change, new = inner.update(gradient, self.join(state), theta)
            return change, self.split(jax.tree.leaves(new))

        def update(
            gradient: Array, state: FrozenMomentState, theta: Array | None = None
        ) -> tuple[Array, FrozenMomentState]:
            before = state
            if state.second_moment:
                ones = tuple(jnp.ones_like(x) for x in state.second_moment)

                def decayed(moments: tuple, state: FrozenMomentState = state) -> tuple:
                    return step(gradient, state._replace(second_moment=moments), theta)[1].second_moment

                after, slope = jax.jvp(decayed, (state.second_moment,), (ones,))
                moved = [h + (h - a) / s for h, a, s in zip(state.second_moment, after, slope, strict=True)]
                before = state._replace(second_moment=tuple(moved))
            change, new = step(gradient, before, theta)
            return change, FrozenMomentState(new.moving, state.second_moment, state.fixed)

        return optax.GradientTransformation(init, update)


def freeze_second_moment(optimizer: Any, learning_rate: float, momentum: float, size: int, count: int = FAR) -> Any:
    """(FrozenMomentOptimizer, fixed leaves): roles found by running mirrored gradients on mirrored parameters [size].

    optimizer: an `Optimizer`. count: at which counters stand.
    """
    inner = optimizer.build(jnp.asarray(learning_rate), jnp.asarray(momentum))
    gradients = np.random.default_rng(0).standard_normal((_WARM, size))
    theta = jnp.asarray(np.linspace(0.3, 0.7, size))

    def run(sign: float) -> list[list[Any]]:
        state = inner.init(sign * theta)
        history = [jax.tree.leaves(state)]
        for gradient in gradients:
            _, state = inner.update(sign * jnp.asarray(gradient), state, sign * theta)
            history.append(jax.tree.leaves(state))
        return history

    ahead, behind = run(1.0), run(-1.0)
    roles = []
    for first, last, mirrored in zip(ahead[0], ahead[-1], behind[-1], strict=True):
        if not jnp.issubdtype(last.dtype, jnp.floating):
            roles.append("fixed")
        elif not np.allclose(last, mirrored, rtol=_EQUAL, atol=0):
            roles.append("moves")
        else:
            roles.append("fixed" if np.array_equal(first, last) else "second_moment")
    second_moment = FrozenMomentOptimizer(optimizer, tuple(roles), jax.tree.structure(inner.init(theta)))
    fixed = []
    for role, before, last in zip(roles, ahead[-2], ahead[-1], strict=True):
        if role == "fixed":
            counts = jnp.issubdtype(last.dtype, jnp.integer) and last.ndim == 0 and int(last) == int(before) + 1
            fixed.append(jnp.asarray(count, last.dtype) if counts else last)
    return second_moment, tuple(fixed)


class SecondMoment(NamedTuple):
    """Stationary second moments: one array per leaf, how they were found, their largest relative standard error.

    values is None where there is no stationary value; reason then says why.
    """

    values: tuple[Array, ...] | None
    source: str
    relative_error: float
    reason: str | None = None


Step = Callable[[Array, FrozenMomentState], FrozenMomentState]
"""(loss gradient [D], state) -> state, at frozen parameters."""


def _is_average(step: Step, state: FrozenMomentState, gradient: Array) -> bool:
    """Whether the second moments after an update are affine in themselves, quadratic in g, and nothing else."""

    def after(scale: float, factor: float, moving: float) -> np.ndarray:
        moved, scaled = (tuple(x + moving for x in state.moving), tuple(x * factor for x in state.second_moment))
        changed = FrozenMomentState(moved, scaled, state.fixed)
        return np.concatenate([np.ravel(x) for x in step(scale * gradient, changed).second_moment])

    zero, one, two = (after(s, 1.0, 0.0) for s in (0.0, 1.0, 2.0))
    pairs = [
        (two - zero, 4 * (one - zero)),
        (after(1.0, 0.0, 0.0) + after(1.0, 2 * _FAR_OFF, 0.0), 2 * after(1.0, _FAR_OFF, 0.0)),
        (after(1.0, 1.0, 0.7), one),
    ]
    return all(np.allclose(a, b, rtol=_EQUAL, atol=_EQUAL * np.max(np.abs(one))) for a, b in pairs)


def average_moment(step: Step, state: FrozenMomentState, mean: Array, covariance: Array) -> SecondMoment | None:
    """Stationary second moments of an optimiser that averages squares of g exactly, or None if it does not.

    2 D sigma points with the exact mean and covariance of g stand for its law, which is all that a square can see.
    """
    size = len(mean)
    values, vectors = np.linalg.eigh(np.asarray(covariance))
    root = vectors * np.sqrt(np.maximum(values, 0) * size)
    points = jnp.asarray(np.concatenate([np.asarray(mean) + root.T, np.asarray(mean) - root.T]))
    generic = jnp.asarray(np.sqrt(np.trace(covariance)) * np.linspace(0.5, 1.5, size))
    started = step(generic, state)
    if not _is_average(step, FrozenMomentState(state.moving, started.second_moment, state.fixed), generic):
        return None

    def mapped(second_moment: tuple[Array, ...]) -> tuple[Array, ...]:
        after = jax.vmap(lambda g: step(g, state._replace(second_moment=second_moment)).second_moment)(points)
        return tuple(jnp.mean(x, axis=0) for x in after)

    ones = tuple(jnp.ones_like(x) for x in started.second_moment)
    after, slope = jax.jvp(mapped, (started.second_moment,), (ones,))
    if any(np.any(np.abs(1 - np.asarray(s)) < 1e-12) for s in slope):
        return SecondMoment(None, "exact", 0.0, "the second moment grows for ever: it is a sum, not an average")
    solved = [h + (a - h) / (1 - s) for h, a, s in zip(started.second_moment, after, slope, strict=True)]
    return SecondMoment(tuple(solved), "exact", 0.0)


def sampled_moment(
    step: Step, state: FrozenMomentState, gradients: Callable[[Array], Array], key: Array
) -> SecondMoment:
    """Stationary second moments by running the optimiser on sampled gradients at frozen parameters. `key` is consumed.

    gradients: key -> [D] one loss gradient. CHAINS chains of 3 SPAN updates; the first third is left out. The standard
    error is that of the mean over chains.
    """

    def chain(key: Array) -> tuple[Any, Any, Array]:
        def one(carry: FrozenMomentState, index: Array) -> tuple[FrozenMomentState, tuple[Array, ...]]:
            new = step(gradients(jax.random.fold_in(key, index)), carry)
            return FrozenMomentState(new.moving, new.second_moment, state.fixed), new.second_moment

        _, path = jax.lax.scan(one, state, jnp.arange(3 * SPAN))
        flat = jnp.concatenate([x.reshape(3 * SPAN, -1) for x in path], axis=1)
        thirds = jnp.mean(flat.reshape(3, SPAN, -1), axis=1)
        return thirds[1], thirds[2], jnp.all(jnp.diff(flat, axis=0) >= 0, axis=0)

    middle, late, rises = (np.asarray(x) for x in jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS)))
    mean = 0.5 * (middle + late)
    error = mean.std(axis=0, ddof=1) / np.sqrt(CHAINS)
    value = mean.mean(axis=0)
    if np.any(rises):
        return SecondMoment(None, "sampled", np.nan, "the second moment never decreases: it has no stationary value")
    drift = np.abs(late.mean(axis=0) - middle.mean(axis=0))
    if np.any(drift > 6 * error + 0.02 * np.abs(value)):
        return SecondMoment(None, "sampled", np.nan, f"the second moment is not stationary after {3 * SPAN} updates")
    leaves, start = [], 0
    for leaf in state.second_moment:
        leaves.append(jnp.asarray(value[start : start + leaf.size].reshape(leaf.shape)))
        start += leaf.size
    return SecondMoment(tuple(leaves), "sampled", float(np.max(error / np.abs(value))))
