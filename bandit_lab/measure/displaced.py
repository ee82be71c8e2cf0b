"""Runs of the full nonlinear update that start a small displacement away from a fixed point.

Two readings of such runs serve two detectors that share nothing else: the growth of the displacement
(`measure.growth`) and the displacement itself as a time series (`measure.onset`). Cells run in padded blocks of one
fixed width and in step counts that depend on the cell alone, so that a cell's result does not depend on its neighbours.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, init, update
from bandit_lab.simulate import DYNAMICS
from bandit_lab.simulate.engine import typed_cells

WIDTH = {"mean_field": 256, "finite_group": 32}  # cells of a block: a group law costs about G times a mean field
START = 1e-7  # displacement of growth runs, in units of the direction given
TOO_LARGE, TOO_SMALL = 1e-3, 3e-11  # beyond: nonlinear; below: rounding errors
LEAST_CYCLE = 1e-3  # least size of the part of a displacement that cycles, as a share of its whole
SAME_RATE = 5.0  # two readings of one growth differ by a bounded factor, not by more than e^5
SERIES_START = 2e-5  # displacement of time-series runs; even orders cancel between the two signs
_BURN_IN = 1 / 3


def _bump(u: Array) -> tuple[Array, Array]:
    """A smooth window exp(-1/(u(1-u))) on (0, 1) and its derivative; 0 outside.

    Averages with it of anything that oscillates vanish faster than any power of the number of periods.
    """
    inside = (u > 0) & (u < 1)
    w = jnp.where(inside, u * (1 - u), 0.25)
    value = jnp.where(inside, jnp.exp(-1 / w), 0)
    return value, value * (1 - 2 * u) / w**2


@partial(jax.jit, static_argnames=("dynamics", "steps"))
def _growth_block(
    learner: Learner, dynamics: str, steps: int, cells: Hyper, theta_star: Array, direction: Array
) -> Array:
    """Growth rate [W] per step of a displacement; see `measure.growth.growth_rate`."""
    gradient, key = DYNAMICS[dynamics](learner), jax.random.key(0)
    window = steps * (1 - _BURN_IN)

    def lane(hyper: Hyper, fixed: Array, direction: Array) -> Array:
        stride = jnp.maximum(hyper.refresh_interval, 1) if learner.staleness.whole_interval else jnp.int32(1)
        # A step is about 1/time scale of the displacement: weighted so, neither part of the size dips when it cycles.
        time_scale = stride + 1 / jnp.sqrt(1 - hyper.momentum)

        def step(carry, _):
            state, last, size_sum, cycle_sum, weight, contrast, done, crude = carry
            new, _ = update(learner, gradient, hyper, key, state)
            away = state.theta - fixed
            size = jnp.sum(away**2) + jnp.sum((time_scale * (new.theta - state.theta)) ** 2)
            log_size = 0.5 * jnp.log(size) - jnp.log(START)
            u = (state.step / steps - _BURN_IN) / (1 - _BURN_IN)
            bump, bump_slope = (jnp.where(state.step % stride == 0, b, 0) for b in _bump(u.astype(fixed.dtype)))
            now = direction @ away
            log_cycle = 0.5 * jnp.log(jnp.abs(last[0] ** 2 - last[1] * now)) - jnp.log(START)
            size_sum = size_sum - bump_slope * log_size
            cycle_sum = cycle_sum - jnp.where(bump_slope == 0, 0, bump_slope * log_cycle)
            contrast = contrast + jnp.where(bump == 0, 0, bump * (log_cycle - log_size))
            last = jnp.where(state.step % stride == 0, jnp.stack([now, last[0]]), last)
            leaves = ~((log_size < jnp.log(TOO_LARGE / START)) & (log_size > jnp.log(TOO_SMALL / START)))
            so_far = jnp.where(jnp.isnan(log_size), jnp.inf, log_size) / jnp.maximum(state.step, 1)
            crude = jnp.where(leaves & ~done, so_far, crude)
            return (new, last, size_sum, cycle_sum, weight + bump, contrast, done | leaves, crude), None

        zero = jnp.zeros((), fixed.dtype)
        state = init(learner, hyper, fixed + START * direction)
        start = (state, jnp.zeros(2, fixed.dtype), zero, zero, zero, zero, jnp.array(False), zero)
        (_, _, size_sum, cycle_sum, weight, contrast, done, crude), _ = jax.lax.scan(step, start, length=steps)
        by_size, by_cycle = size_sum / (weight * window), cycle_sum / (weight * window)
        cycles = (contrast / weight > jnp.log(LEAST_CYCLE)) & (jnp.abs(by_size - by_cycle) * window < SAME_RATE)
        return jnp.where(done, crude, jnp.where(cycles, by_cycle, by_size))

    return jax.vmap(lane)(cells, theta_star, direction)


@partial(jax.jit, static_argnames=("dynamics", "steps"))
def _series_block(
    learner: Learner, dynamics: str, steps: int, cells: Hyper, theta_star: Array, direction: Array, projector: Array
) -> Array:
    """Displacement [W, steps + 1] along the projector, odd part of two runs displaced both ways, 1 at step 0."""
    gradient, key = DYNAMICS[dynamics](learner), jax.random.key(0)

    def one(hyper: Hyper, fixed: Array, direction: Array, projector: Array, sign: float) -> Array:
        def step(state, _):
            new, _ = update(learner, gradient, hyper, key, state)
            return new, projector @ (new.theta - fixed)

        first = fixed + sign * SERIES_START * direction
        _, later = jax.lax.scan(step, init(learner, hyper, first), length=steps)
        return jnp.concatenate([(projector @ (first - fixed))[None], later])

    both = jax.vmap(one, (0, 0, 0, 0, None))
    ahead = both(cells, theta_star, direction, projector, 1.0)
    behind = both(cells, theta_star, direction, projector, -1.0)
    return (ahead - behind) / (2 * SERIES_START)


def in_blocks(
    function: Callable[..., Array],
    width: int,
    steps_needed: np.ndarray,
    cells: Hyper,
    *columns: np.ndarray,
    maximum: int = 2**22,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Apply `function(steps, cells, *columns)` to padded blocks of cells that need about the same number of steps.

    Step counts are rounded up to powers of two, each a compiled program. Returns [(cell indices, results)].
    """
    rounded = np.minimum(2 ** np.ceil(np.log2(steps_needed)).astype(int), maximum)
    results = []
    for steps in np.unique(rounded):
        members = np.flatnonzero(rounded == steps)
        for start in range(0, len(members), width):
            some = members[start : start + width]
            lanes = np.concatenate([some, np.full(width - len(some), some[-1])])
            args: list[Any] = jax.tree.map(lambda x, lanes=lanes: np.asarray(x)[lanes], [cells, *columns])
            results.append((some, np.asarray(function(int(steps), *args))[: len(some)]))
    return results


def growth_blocks(learner, dynamics, steps_needed, cells, theta_star, direction) -> np.ndarray:
    """Growth rate [C] per step from displaced runs of at least `steps_needed` [C] steps."""
    block, cells = partial(_growth_block, learner, dynamics), typed_cells(learner, cells, np.float64)
    rates = np.empty(len(theta_star))
    for some, values in in_blocks(block, WIDTH[dynamics], steps_needed, cells, theta_star, direction):
        rates[some] = values
    return rates


def series_blocks(learner, dynamics, steps_needed, cells, theta_star, direction, projector) -> list[np.ndarray]:
    """Displacement series, one array [>= steps_needed + 1] per cell."""
    block, cells = partial(_series_block, learner, dynamics), typed_cells(learner, cells, np.float64)
    series: list[np.ndarray] = [np.empty(0)] * len(theta_star)
    for some, values in in_blocks(block, WIDTH[dynamics], steps_needed, cells, theta_star, direction, projector):
        for index, row in zip(some, values, strict=True):
            series[index] = row
    return series
