"""How far off policy runs are: what a trainer logs as effective sample size, chi^2, KL and share of masked answers.

All but the cosine come from the laws themselves and not from the answers of a batch: b draws (the sampler's law of the
policy that acted), pi learns. So they have no noise of their own. With an answer's weight w, the factor that estimator
and correction put before its advantage, over all answers with an advantage that is not 0:

    effective sample size  E[w]^2 / E[w^2], a share of the samples: 1 where all weights are equal
    masked                 P(w = 0)
    chi^2                  E[(pi/b)^2] - 1
    KL                     E[log b/pi], nats per answer

The advantages are those of infinite groups: they decide, by their sign, which answers a clip leaves out. Of a sequence
each token has a weight where the estimator weighs tokens, else it has one. arXiv 2510.01161 (chi^2, effective sample
size before a collapse), 2603.01501 (the cosine of consecutive gradients).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, averages, batch_step, init, learner_at, shift_of
from bandit_lab.simulation.cells import cast, prepare
from bandit_lab.simulation.mean_field import weighed_answers
from bandit_lab.simulation.programs import bounded_jit
from bandit_lab.simulation.rollout import Stride, rollout
from bandit_lab.simulation.sampled import sampled

MOST_SEEDS = 128
"""Runs that are looked at."""
_AT_ONCE = 16
UNITS = {"effective_sample_size": "1", "masked": "1", "chi_square": "1", "sampler_kl": "nats", "gradient_cosine": "1"}


class Distance(NamedTuple):
    """Of updates, see the module; gradient_cosine: of its ascent direction with that of the update before."""

    effective_sample_size: Any
    masked: Any
    chi_square: Any
    sampler_kl: Any
    gradient_cosine: Any


def distance(learner: Learner, theta: Array, behaviour: Array) -> tuple[Array, Array, Array, Array]:
    """The first four of a `Distance`, scalars: policy at theta [D], answers drawn after the policy at behaviour [D]."""
    policy, shift = shift_of(learner, theta, behaviour)
    chances, advantage, weighted = weighed_answers(learner, policy, shift)
    counts = jnp.where(advantage == 0, 0, policy[..., None] * chances / policy.shape[0])
    weight = weighted / jnp.where(advantage == 0, 1, advantage)
    parts = weight.ndim - counts.ndim  # of tokens
    share = jnp.broadcast_to(counts / jnp.sum(counts), weight.shape) / (len(weight) if parts else 1)
    mean, square = jnp.sum(share * weight), jnp.sum(share * weight**2)
    masked = jnp.sum(jnp.where(weight == 0, share, 0))
    drawn = shift.log_old if shift.log_drawn is None else shift.log_drawn
    apart = jnp.where(policy > 0, shift.log_policy - drawn, 0)
    kl, chi_square = -jnp.mean(jnp.sum(policy * apart, axis=-1)), jnp.sum(policy * jnp.expm1(2 * apart), axis=-1)
    return mean**2 / square, masked, jnp.mean(chi_square), kl


@bounded_jit("steps")
def _runs(learner: Learner, hyper: Hyper, keys: Array, theta: Array, steps: int) -> Any:
    """`Distance` [seeds, steps]."""

    def one(key: Array) -> Any:
        def see(stride: Stride) -> tuple[tuple[Array, ...], Array]:
            info, drawn = stride.info, batch_step(learner, hyper.refresh_interval, stride.before.step)
            return distance(learner_at(learner, drawn), info.theta, info.behaviour), info.gradient

        start = init(learner, hyper, theta)
        seen, gradient = rollout(learner, sampled(learner), hyper, key, start, steps, observe=see).seen
        length = jnp.linalg.norm(gradient, axis=-1)
        along = jnp.sum(gradient[1:] * gradient[:-1], axis=-1) / (length[1:] * length[:-1])
        return Distance._make((*seen, jnp.concatenate([jnp.full(1, jnp.nan, along.dtype), along])))

    return jax.vmap(one)(keys)


def check(learner: Learner) -> None:
    """Raise ValueError for a staleness model by which several policies act at once."""
    _checks.require(not averages(learner.staleness), "off_policy", "false where several policies act at once", True)


def off_policy(
    learner: Learner,
    cell: Hyper,
    *,
    steps: int,
    seeds: int,
    seed: int = 0,
    dtype: Any = np.float32,
    initial: np.ndarray | None = None,
) -> Distance:
    """Means over the first runs of a cell at every update, arrays [T]: the runs of the reference path, made anew.

    Args:
      cell: scalars. steps: T. seeds: runs, of which at most MOST_SEEDS are looked at. seed, dtype, initial: as of
        `engine.run`.

    Returns:
      `Distance` of float64. A cosine with a gradient of length 0 does not count; it is NaN where there is no other,
      and at the first update.

    Raises:
      ValueError: what `check` raises.
    """
    check(learner)
    columns = Hyper(*(np.array([value]) for value in cell))
    ready = prepare(learner, columns, dtype, initial)
    hyper, theta = jax.tree.map(lambda x: x[0], ready.hyper), ready.theta[0]
    root = jax.random.fold_in(jax.random.key(seed), ready.name[0])
    keys = jax.vmap(lambda n: jax.random.fold_in(root, n))(np.arange(min(seeds, MOST_SEEDS)))
    learner = cast(learner, dtype)
    parts = [
        jax.tree.map(np.asarray, _runs(learner, hyper, keys[i : i + _AT_ONCE], theta, steps))
        for i in range(0, len(keys), _AT_ONCE)
    ]
    return Distance(*(_mean(np.concatenate(column)) for column in zip(*parts, strict=True)))


def _mean(runs: np.ndarray) -> np.ndarray:
    """Mean [T] of [seeds, T] over what is a number."""
    counts = np.isfinite(runs)
    with np.errstate(invalid="ignore"):
        return np.where(counts, runs, 0).sum(axis=0, dtype=float) / np.where(counts.any(0), counts.sum(0), np.nan)
