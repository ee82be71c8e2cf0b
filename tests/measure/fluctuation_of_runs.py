"""How sampled runs fluctuate around their fixed point: mean and variance, with standard errors.

Every run starts at the fixed point of its exact mean, is given time to forget that, and is then recorded at every step.
Moments are taken about one common mean (of all seeds and times), not about each run's own, which would lose the slow
part of the fluctuation. Seeds are independent: they are pooled in groups and every error is a jackknife over these
groups, whatever the correlation in time.

What is recorded is the log-odds of the best arm and the expected reward. The reference path carries the parameters and
looks both up. The fast path records one number per step, the reported reward sum_k pi_k m_k. The chance p of the best
arm is such a number too, and gives the log-odds ln p/(1 - p): each observable is a pass of its own over the same random
numbers; with two arms one pass gives both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.bandits import expected_reward
from bandit_lab.bandits.proxy import ProxyBandit
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.simulation import route, sampled, trajectories
from bandit_lab.simulation.cells import cast, cell_identity, typed_cells
from bandit_lab.simulation.devices import in_order
from bandit_lab.simulation.rollout import rollout
from experiments.shared.programs import bounded_jit
from experiments.shared.readings import Estimate, jackknife

_SEEDS = 256  # seeds in one block of the reference path


def recorded(
    learner: Learner,
    cells: Hyper,
    theta_star: np.ndarray,
    *,
    burn_in: int,
    steps: int,
    seeds: int,
    seed: int,
    dtype: Any,
    path: str,
    threads: int,
) -> Iterator[np.ndarray]:
    """Departures of (log-odds, expected reward) from their value at theta_star [C, D], seeds in order.

    Blocks [C, s, steps, 2] of `steps` states from the one after `burn_in` updates on. path: see `simulation.route`; the
    fast one serves a softmax over one logit per arm, whose log-odds follow from a reported reward.
    """
    theta = np.asarray(theta_star, dtype)
    if route(learner, "sampled", path).name == "fast" and getattr(learner.bandit, "tabular", False):
        yield _fast(learner, burn_in, steps, theta, cells=cells, seeds=seeds, seed=seed, dtype=dtype)
        return
    hyper, names = typed_cells(learner, cells, dtype), cell_identity(cells)
    learner, key = cast(learner, dtype), jax.random.key(seed)

    def block(first: int) -> np.ndarray:
        index = np.arange(first, first + _SEEDS, dtype=np.int32)
        series = _reference(learner, steps, np.int32(burn_in), hyper, names, index, theta, key)
        return np.asarray(series)[:, : seeds - first]

    yield from in_order(block, range(0, seeds, _SEEDS), threads)


@bounded_jit("steps")
def _reference(
    learner: Learner, steps: int, burn_in: int, cells: Hyper, names: Array, seeds: Array, theta_star: Array, key: Array
) -> Array:
    """Departures of both observables from their fixed-point value [c, s, steps, O]."""
    gradient, bandit = sampled(learner), learner.bandit
    best = jnp.argmax(bandit.true_means[0])

    def observe(theta: Array) -> Array:
        log_policy = bandit.log_policy(theta)[0]
        others = jnp.where(jnp.arange(len(log_policy)) == best, -jnp.inf, log_policy)
        return jnp.stack([log_policy[best] - jax.nn.logsumexp(others), expected_reward(bandit, theta)])

    def lane(hyper: Hyper, name: Array, theta: Array, seed: Array) -> Array:
        run_key = jax.random.fold_in(jax.random.fold_in(key, name), seed)
        middle = observe(theta)
        state = init(learner, hyper, theta)
        state = rollout(learner, gradient, hyper, run_key, state, burn_in).state
        depart = lambda stride: observe(stride.before.theta) - middle  # noqa: E731
        return rollout(learner, gradient, hyper, run_key, state, steps, observe=depart).seen

    over_seeds = jax.vmap(lane, (None, None, None, 0))
    return jax.vmap(over_seeds, (0, 0, 0, None))(cells, names, theta_star, seeds)


def _fast(learner: Learner, burn_in: int, steps: int, theta_star: np.ndarray, **options: Any) -> np.ndarray:
    """The same from the fast path. options: of `trajectories`."""
    means = np.asarray(learner.bandit.true_means, float)[0]
    best = np.arange(len(means)) == np.argmax(means)
    weight = np.exp(theta_star.astype(float) - theta_star.max(axis=-1, keepdims=True))
    policy = weight / weight.sum(axis=-1, keepdims=True)

    def reported(values: np.ndarray) -> np.ndarray:
        seen, updates = _reporting(learner, values), max(burn_in + steps - 1, 1)
        series = trajectories(seen, "sampled", initial=theta_star, steps=updates, path="fast", **options)
        return series[..., burn_in : burn_in + steps]

    chance, at_rest = reported(best.astype(float)), (policy @ best)[:, None, None]
    log_odds = np.log(chance / (1 - chance)) - np.log(at_rest / (1 - at_rest))
    if len(means) == 2:
        return np.stack([log_odds, (chance - at_rest) * (means[best] - means[~best])], axis=-1)
    centred = means - means.mean()  # small numbers keep more digits; and the compiled function is that of `chance`
    return np.stack([log_odds, reported(centred) - (policy @ centred)[:, None, None]], axis=-1)


def _reporting(learner: Learner, values: np.ndarray) -> Learner:
    """The same training, with sum_k pi_k values[k] as the reported reward."""
    bandit = learner.bandit
    seen = ProxyBandit(bandit.law, bandit.initial_parameters, bandit.reference_log_policy, jnp.asarray(values[None]))
    return replace(learner, bandit=seen)


GROUPS = 64  # groups of seeds that the jackknife leaves out in turn


class Fluctuation(NamedTuple):
    """Means over steps of stationary runs and of their squares, by groups of seeds [GROUPS, C, O]; O: log-odds of the
    best arm, expected reward, both as departures from the fixed point."""

    mean: np.ndarray
    square: np.ndarray

    def shift(self) -> Estimate:
        """Mean departure from the fixed point [C, O]: of order learning rate, noise times nonlinearity."""
        return jackknife(lambda mean, square: mean, self.mean, self.square)

    def variance(self) -> Estimate:
        """Stationary variance [C, O]."""
        return jackknife(lambda mean, square: square - mean**2, self.mean, self.square)


def pooled(blocks: Iterable[np.ndarray]) -> Fluctuation:
    """From series [C, s, steps, O], seeds in order, in all a multiple of GROUPS."""
    parts = [np.moveaxis(block.astype(float), 1, 0) for block in blocks]
    moments = [np.concatenate([(part**power).mean(axis=2) for part in parts]) for power in (1, 2)]
    return Fluctuation(*(each.reshape(GROUPS, -1, *each.shape[1:]).mean(axis=1) for each in moments))


def measure_fluctuation(
    learner: Learner,
    cells: Hyper,
    theta_star: np.ndarray,
    *,
    burn_in: int,
    steps: int,
    seeds: int = 4096,
    seed: int = 0,
    path: str = "auto",
) -> Fluctuation:
    """Run every cell [C] with every seed, a multiple of GROUPS, from its fixed point [C, D] in float32; moments of the
    steps after `burn_in`. Whole refresh intervals: a variance is then the mean over the block's phases."""
    told = {"burn_in": burn_in, "steps": steps, "seeds": seeds, "seed": seed, "path": path}
    return pooled(recorded(learner, cells, theta_star, dtype=np.float32, threads=2, **told))
