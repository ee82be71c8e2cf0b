"""Many variants of the update in one program: which of them acts is a traced number.

To compile a program takes longer than to run it for a two-arm bandit. Here the gradients of all learners are branches
of one program, of which a call takes one. So a table of hundreds of variants compiles once per staleness model.
Two arms, seen through the logit gap x = theta_1 - theta_2.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Gradient, GradientFn, Hyper, Learner, init
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.cells import typed_cells
from bandit_lab.simulation.rollout import Stride, rollout
from experiments.shared.programs import bounded_jit

Learners = tuple[Learner, ...]

OUTCOMES = ("returns", "cycles", "vertex", "overflow")
"""What can become of a large displacement, see `outcome`."""

_POINTS = 401
_LARGEST_GAP = 12.0
_REFINEMENTS = 4  # each narrows the bracket by the number of points


def one_of(learners: Learners, dynamics: str, index: Array) -> GradientFn:
    """The gradient of `learners[index]`, index traced."""
    branches = [DYNAMICS[dynamics](learner) for learner in learners]

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        return jax.lax.switch(index, branches, key, kl_weight, theta, behaviour)

    return gradient


def _theta(gap: Array) -> Array:
    return jnp.stack([gap, -gap]) / 2


@partial(jax.jit, static_argnames="dynamics")
def _drift(learners: Learners, dynamics: str, index: Array, kl_weight: Array, gaps: Array, old: Array) -> Array:
    gradient, key = one_of(learners, dynamics, index), jax.random.key(0)

    def one(gap: Array, old_gap: Array) -> Array:
        value = gradient(key, kl_weight, _theta(gap), _theta(old_gap)).value
        return value[0] - value[1]

    return jax.vmap(one)(gaps, old)


def gap_drift(
    learners: Learners, dynamics: str, index: int, kl_weight: float, gaps: np.ndarray, old_gaps: np.ndarray
) -> np.ndarray:
    """Mean drift of the gap [P] at current and behaviour gaps [P]."""
    return np.asarray(
        _drift(learners, dynamics, jnp.int32(index), jnp.asarray(kl_weight), jnp.asarray(gaps), jnp.asarray(old_gaps))
    )


def rest_gap(learners: Learners, dynamics: str, index: int, kl_weight: float) -> float:
    """The gap at which the on-policy drift first vanishes on the way from gap 0, to 1e-10; NaN if it does not."""

    def drift(x: np.ndarray) -> np.ndarray:
        return gap_drift(learners, dynamics, index, kl_weight, x, x)

    side = 1.0 if drift(np.zeros(_POINTS))[0] > 0 else -1.0
    low, high = 0.0, side * _LARGEST_GAP
    for _ in range(_REFINEMENTS):
        grid = np.linspace(low, high, _POINTS)
        turned = side * drift(grid) <= 0
        if not turned.any():
            return float("nan")
        first = max(int(np.argmax(turned)), 1)
        low, high = grid[first - 1], grid[first]
    return float((low + high) / 2)


def fresh_and_stale_rate(
    learners: Learners, dynamics: str, index: int, kl_weight: float, gap: float, step: float = 1e-5
) -> tuple[float, float]:
    """(-d drift/d gap, -d drift/d behaviour gap) of the gap's drift, by central differences."""
    gaps, old = np.full((2, _POINTS), gap)
    gaps[:2] += (step, -step)
    old[2:4] += (step, -step)
    drift = gap_drift(learners, dynamics, index, kl_weight, gaps, old)
    return float(drift[1] - drift[0]) / (2 * step), float(drift[3] - drift[2]) / (2 * step)


@bounded_jit("dynamics", "steps")
def _run(learners: Learners, dynamics: str, index: Array, hyper: Hyper, start: Array, steps: int) -> Array:
    gradient, key = one_of(learners, dynamics, index), jax.random.key(0)

    def one(hyper: Hyper, start: Array) -> Array:
        def gap(stride: Stride) -> Array:
            return stride.before.theta[0] - stride.before.theta[1]

        begun = init(learners[0], hyper, _theta(start))
        return rollout(learners[0], gradient, hyper, key, begun, steps + 1, observe=gap).seen

    return jax.vmap(one)(hyper, start)


def run_gaps(learners: Learners, dynamics: str, index: int, cells: Hyper, start: np.ndarray, steps: int) -> np.ndarray:
    """Gaps [C, T + 1] of runs of the mean update at settings `cells` [C] from gaps `start` [C].

    All learners have the staleness, optimiser and horizon of the first. Drawn ages are those of key 0.
    """
    cells = Hyper(*(jnp.asarray(column) for column in typed_cells(learners[0], cells, np.float64)))
    return np.asarray(_run(learners, dynamics, jnp.int32(index), cells, jnp.asarray(start), steps))


@bounded_jit("count")
def _noise(learners: Learners, index: Array, kl_weight: Array, gap: Array, count: int) -> Array:
    gradient = one_of(learners, "sampled", index)

    def one(key: Array) -> Array:
        value = gradient(key, kl_weight, _theta(gap), _theta(gap)).value
        return value[0] - value[1]

    return jax.vmap(one)(jax.random.split(jax.random.key(1), count))


def gap_noise(learners: Learners, index: int, kl_weight: float, gap: float, count: int) -> float:
    """Variance of the gap's sampled gradient on policy, over `count` batches."""
    draws = _noise(learners, jnp.int32(index), jnp.asarray(kl_weight), jnp.asarray(gap), count)
    return float(np.var(np.asarray(draws)))


def with_bandit(learners: Learners, bandit: Bandit) -> Learners:
    """The same variants on another bandit."""
    return tuple(replace(learner, bandit=bandit) for learner in learners)


def grows(displacement: np.ndarray, start: float) -> np.ndarray:
    """Whether displacements [C, T + 1] that began at `start` grow: by their largest value in the last third of the run
    against the third before, or a hundredfold at any time. A transient of momentum stays below that.

    What is no number shows no growth: a run that overflows has grown a hundredfold long before."""
    size = np.abs(np.nan_to_num(displacement, nan=0.0))
    third = size.shape[1] // 3
    late, before = size[:, 2 * third :].max(axis=1), size[:, third : 2 * third].max(axis=1)
    return (late > before) | (size.max(axis=1) > 100 * start)


def outcome(displacement: np.ndarray) -> int:
    """Index in OUTCOMES of a displacement of the gap [T + 1], nats, that began at a few tenths: by its last third.

    A vertex is more than 3 nats away all that time. A cycle spans more than 0.1.
    """
    late = displacement[2 * len(displacement) // 3 :]
    if not np.all(np.isfinite(displacement)):
        return 3
    if np.abs(late).min() > 3:
        return 2
    return 1 if np.ptp(late) > 0.1 else 0
