"""The path about which runs swing, and the stiffness along it: for runs that stay at the edge of stability.

Single iterates of such a run lie to both sides of its path, where the stiffness is another. The mean of the parameters
over many blocks is on the path. The exact drift leaves an instability nothing to grow from, so that a little noise may
be added to it. Everything is done for several bandits of one shape at a time, one run each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Gradient, GradientFn, Hyper, Learner, Optimizer, State, check_hyper, init
from bandit_lab.measure.displaced import stack_bandits
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.rollout import Stride, rollout
from experiments.shared.measure.leading import leading_stiffness, stiffness_along
from experiments.shared.programs import bounded_jit


class AveragedPath(NamedTuple):
    """Runs seen as means over stretches of updates.

    mean: [S, T, D] parameters. spread: [S, T] root of the mean square of the distance from that mean, in parameters.
    end: [S, D] parameters after the last update. preconditioner: [S, T, D] mean of what Adam multiplies its first
    moment by, over the learning rate; None for another optimiser.
    """

    mean: np.ndarray
    spread: np.ndarray
    end: np.ndarray
    preconditioner: np.ndarray | None


def averaged_path(
    learner: Learner,
    dynamics: str,
    bandits: Sequence[Bandit],
    hyper: Hyper,
    times: int,
    every: int,
    *,
    start: np.ndarray | None = None,
    noise: float = 0.0,
) -> AveragedPath:
    """One run of each of S bandits, `times` (T) means over `every` updates one after another.

    Args:
      learner: its own bandit is not used. dynamics: a name of `simulation.DYNAMICS`.
      hyper: learning rates [S], the other settings scalars.
      start: [S, D] parameters; default: each bandit's own. noise: std of what is added to every number of the gradient.

    Raises:
      ValueError: an unknown dynamics, settings out of range, fewer than one mean or update.
    """
    _checks.choice("dynamics", dynamics, tuple(DYNAMICS))
    _checks.integer("times", times, 1)
    _checks.integer("every", every, 1)
    check_hyper(learner.staleness, hyper)
    rate, momentum, interval, weight = hyper
    whole = jnp.int32(interval) if learner.staleness.whole_interval else jnp.asarray(float(interval))
    typed = Hyper(jnp.asarray(rate), jnp.asarray(float(momentum)), whole, jnp.asarray(float(weight)))
    begin = jnp.stack([jnp.asarray(one.initial_parameters) for one in bandits]) if start is None else jnp.asarray(start)
    path = _run(learner, dynamics, stack_bandits(bandits), typed, begin, times, jnp.int32(every), noise or None)
    mean, spread, end, preconditioner = map(np.asarray, path)
    return AveragedPath(mean, spread, end, preconditioner if preconditioner.size else None)


@bounded_jit("dynamics", "times")
def _run(
    learner: Learner,
    dynamics: str,
    bandits: Any,
    hyper: Hyper,
    theta: Array,
    times: int,
    every: Array,
    noise: float | None,
) -> tuple[Array, ...]:
    def add(total: tuple[Array, ...], seen: Stride) -> tuple[Array, ...]:
        place, theta = seen.before.step // every, seen.after.theta
        parts = theta, theta @ theta, _preconditioner(learner.optimizer, seen.after)
        return tuple(old.at[place].add(new / every) for old, new in zip(total, parts, strict=True))

    def one(bandit: Any, key: Array, rate: Array, start: Array) -> tuple[Array, ...]:
        of, numbers = replace(learner, bandit=bandit), hyper._replace(learning_rate=rate)
        gradient, state = DYNAMICS[dynamics](of), init(of, numbers, start)
        gradient = gradient if noise is None else _stirred(gradient, noise)
        divided = _preconditioner(learner.optimizer, state)
        total = jnp.zeros((times, len(start))), jnp.zeros(times), jnp.zeros((times, len(divided)))
        run = rollout(of, gradient, numbers, key, state, times * every, fold=add, total=total)
        mean, square, divided = run.total
        return mean, jnp.sqrt(jnp.maximum(square - jnp.sum(mean**2, axis=1), 0)), run.state.theta, divided

    keys = jax.random.split(jax.random.key(0), len(theta))
    return jax.vmap(one)(bandits, keys, hyper.learning_rate, theta)


def _preconditioner(optimizer: Optimizer, state: State) -> Array:
    """[D] of Adam: 1/(root of the unbiased second moment + eps), after an update; [0] of another optimiser."""
    if optimizer.name != "adam":
        return jnp.zeros(0)
    options = {"b2": 0.999, "eps": 1e-8} | dict(optimizer.options)
    moment = optax.tree_utils.tree_get(state.optimizer, "nu") / (1 - options["b2"] ** state.step)
    return 1 / (jnp.sqrt(moment) + options["eps"])


def _stirred(gradient: GradientFn, size: float | Array) -> GradientFn:
    """The same gradient with normal noise of std `size` on every number."""

    def stirred(key: Array, kl_weight: Array, theta: Array, behaviour: Array, **clock: Array) -> Gradient:
        clean = gradient(key, kl_weight, theta, behaviour, **clock)
        return Gradient(clean.value + size * jax.random.normal(key, theta.shape), clean.silent)

    return stirred


def stiffness_of_paths(
    learner: Learner,
    dynamics: str,
    bandits: Sequence[Bandit],
    kl_weight: float,
    paths: np.ndarray,
    preconditioners: np.ndarray | None = None,
) -> np.ndarray:
    """Largest stiffness [S, T] along paths [S, T, D] of S bandits, reward units per squared parameter.

    As `leading.stiffness_along`, which says where it is NaN and what it raises, with preconditioners [S, T, D].
    ValueError besides for another number of paths.
    """
    divided = [None] * len(bandits) if preconditioners is None else preconditioners
    each = zip(bandits, paths, divided, strict=True)
    about = dynamics, kl_weight
    return np.array([stiffness_along(replace(learner, bandit=b), *about, p, preconditioners=d) for b, p, d in each])


def growth_per_block(
    learner: Learner,
    dynamics: str,
    bandits: Sequence[Bandit],
    hyper: Hyper,
    start: np.ndarray,
    blocks: int,
    displacement: float,
) -> np.ndarray:
    """Factor [S] by which two runs come apart per refresh interval, from starts that need not be at rest.

    One begins at `start` [S, D], the other a small `displacement` (parameters) along the stiffest direction from it.
    The factor is the geometric mean over the first `blocks` intervals. hyper: as of `averaged_path`; raises what that
    raises.
    """
    aside = _stiffest_aside(learner, dynamics, bandits, float(hyper.kl_weight), start, displacement)
    return _apart(learner, dynamics, bandits, hyper, start, aside, blocks)


def interval_threshold(
    learner: Learner,
    dynamics: str,
    bandits: Sequence[Bandit],
    hyper: Hyper,
    start: np.ndarray,
    intervals: Sequence[int],
    blocks: int,
    displacement: float,
) -> np.ndarray:
    """Refresh interval [S] beyond which two runs come apart that begin a small displacement from one another.

    The first of the rising `intervals` at which `growth_per_block` is above 1; linear in the growth between it and the
    one before (exact for model `refresh` without momentum, from half the threshold on). NaN where it is the first of
    all, or none. The interval in `hyper` is not used; raises what `averaged_path` raises.
    """
    aside = _stiffest_aside(learner, dynamics, bandits, float(hyper.kl_weight), start, displacement)
    thresholds, before = np.full(len(start), np.nan), np.full(len(start), np.inf)
    for place, interval in enumerate(intervals):
        growth = _apart(learner, dynamics, bandits, hyper._replace(refresh_interval=interval), start, aside, blocks)
        crosses = (before <= 1) & (growth > 1) & np.isnan(thresholds)
        if place:
            share = (1 - before[crosses]) / (growth[crosses] - before[crosses])
            thresholds[crosses] = intervals[place - 1] + share * (interval - intervals[place - 1])
        before = growth
        if not np.any(np.isnan(thresholds)):
            break
    return thresholds


def _stiffest_aside(
    learner: Learner, dynamics: str, bandits: Sequence[Bandit], kl_weight: float, start: np.ndarray, size: float
) -> np.ndarray:
    """Places [S, D] of a distance `size` from others along the stiffest direction there."""
    pairs = zip(bandits, start, strict=True)
    stiffest = [leading_stiffness(replace(learner, bandit=b), dynamics, kl_weight, x) for b, x in pairs]
    return np.asarray(start + size * np.stack([one.vectors[:, 0].real for one in stiffest]))


def _apart(
    learner: Learner,
    dynamics: str,
    bandits: Sequence[Bandit],
    hyper: Hyper,
    start: np.ndarray,
    aside: np.ndarray,
    blocks: int,
) -> np.ndarray:
    """Factor [S] per interval by which runs from two places [S, D] come apart over `blocks` intervals."""
    steps = int(hyper.refresh_interval) * blocks
    one, other = (averaged_path(learner, dynamics, bandits, hyper, 1, steps, start=x).end for x in (start, aside))
    ends, starts = (np.linalg.norm(a - b, axis=-1) for a, b in ((other, one), (aside, start)))
    return np.asarray((ends / starts) ** (1 / blocks))
