"""When noise carries a run out of the basin of its fixed point: first-exit times, survival and the escape rate.

A run is watched where its staleness model takes a new policy (every refresh interval; at every step without blocks), so
that a prediction for one whole block can be compared. It counts as lost at the first such step at which the log-odds of
the best arm lie outside a stated interval, and stays counted; the run itself goes on.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.simulation import sampled
from bandit_lab.simulation.cells import cast, cell_identity, typed_cells
from bandit_lab.simulation.rollout import Stride, rollout
from experiments.shared.programs import bounded_jit
from experiments.shared.readings import Estimate

_SEEDS = 256


class Escape(NamedTuple):
    """First exits of sampled runs. first: [C, S] step of the first exit, `steps` + 1 where there was none. steps: T.

    late_probability: [C, S] probability of the best arm, averaged over the watched steps of the last half. final_gap:
    [C, S] log-odds of the best arm at step T.
    """

    first: np.ndarray
    late_probability: np.ndarray
    final_gap: np.ndarray
    steps: int

    def survival(self) -> Estimate:
        """Share of runs [C, T + 1] that have not been lost by step t, with its binomial error."""
        exits = np.stack([np.bincount(row, minlength=self.steps + 2)[: self.steps + 1] for row in self.first])
        share = 1 - np.cumsum(exits, axis=1) / self.first.shape[1]
        return Estimate(share, np.sqrt(share * (1 - share) / self.first.shape[1]))

    def rate(self, after: int) -> Estimate:
        """Escape rate [C] per step of runs that are still in at step `after`: exits over time at risk.

        The maximum-likelihood estimate of a constant rate; relative error 1/sqrt(exits). `after` has to outlast the
        memory of the start.
        """
        late = self.first > after
        lost = np.sum(late & (self.first <= self.steps), axis=1)
        at_risk = np.sum(np.where(late, np.minimum(self.first, self.steps) - after, 0), axis=1)
        return Estimate(lost / at_risk, np.sqrt(lost) / at_risk)


@bounded_jit("steps")
def _watch(
    learner: Learner,
    steps: int,
    cells: Hyper,
    names: Array,
    seeds: Array,
    start: Array,
    low: Array,
    high: Array,
    key: Array,
) -> tuple[Array, ...]:
    """(first exit, late probability, final log-odds), each [c, s]."""
    gradient, bandit = sampled(learner), learner.bandit
    best = jnp.argmax(bandit.true_means[0])

    def lane(hyper: Hyper, name: Array, theta: Array, low: Array, high: Array, seed: Array) -> tuple[Array, ...]:
        run_key = jax.random.fold_in(jax.random.fold_in(key, name), seed)
        stride = jnp.maximum(hyper.refresh_interval, 1) if learner.staleness.block_synchronous else jnp.int32(1)

        def log_odds(theta: Array) -> Array:
            log_policy = bandit.log_policy(theta)[0]
            others = jnp.where(jnp.arange(len(log_policy)) == best, -jnp.inf, log_policy)
            return log_policy[best] - jax.nn.logsumexp(others)

        def watch(seen: tuple[Array, ...], new: Stride) -> tuple[Array, ...]:
            first, total, count = seen
            step, gap = new.after.step, log_odds(new.after.theta)
            watched = step % stride == 0
            outside = watched & ~((gap >= low) & (gap <= high))
            late = watched & (step > steps // 2)
            total = total + jnp.where(late, jax.nn.sigmoid(gap), 0)
            return jnp.minimum(first, jnp.where(outside, step, steps + 1)), total, count + late

        nothing = (jnp.int32(steps + 1), jnp.zeros((), theta.dtype), jnp.int32(0))
        start = init(learner, hyper, theta)
        state, _, (first, total, count) = rollout(
            learner, gradient, hyper, run_key, start, steps, fold=watch, total=nothing
        )
        return first, total / jnp.maximum(count, 1), log_odds(state.theta)

    over_seeds = jax.vmap(lane, (None, None, None, None, None, 0))
    return jax.vmap(over_seeds, (0, 0, 0, 0, 0, None))(cells, names, start, low, high, seeds)


def measure_escape(
    learner: Learner, cells: Hyper, start: np.ndarray, low: float, high: float, *, steps: int, seeds: int = 1024
) -> Escape:
    """Run every cell [C] with every seed from `start` [C, D] in float32 and note when it first leaves the interval of
    log-odds, nats; infinite ends are allowed."""
    hyper, theta = typed_cells(learner, cells, np.float32), np.asarray(start, np.float32)
    ends = [np.full(len(theta), end, np.float32) for end in (low, high)]
    learner, names, key = cast(learner, np.float32), cell_identity(cells), jax.random.key(0)

    def block(first: int) -> tuple[np.ndarray, ...]:
        index = np.arange(first, first + _SEEDS, dtype=np.int32)
        results = _watch(learner, steps, hyper, names, index, theta, *ends, key)
        return tuple(np.asarray(part)[:, : seeds - first] for part in results)

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(block, range(0, seeds, _SEEDS)))
    exits, late, final = (np.concatenate(column, axis=1) for column in zip(*parts, strict=True))
    return Escape(exits, late.astype(float), final.astype(float), steps)
