"""Anything that can be read off the parameters, along runs of several bandits of one shape at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.rollout import rollout
from experiments.shared.programs import bounded_jit

Observable = Callable[[Any, Array], Any]
"""(what is evaluated, parameters [D]) -> a pytree of arrays."""


@bounded_jit("dynamics", "watch", "times", "every")
def _runs(
    learners: Learner, judged: Any, hyper: Hyper, keys: Array, dynamics: str, watch: Observable, times: int, every: int
) -> Any:
    def one(learner: Learner, judged: Any, hyper: Hyper, key: Array) -> Any:
        gradient = DYNAMICS[dynamics](learner)
        start = init(learner, hyper, learner.bandit.initial_parameters)
        seen = lambda stride: watch(judged, stride.before.theta)  # noqa: E731
        return rollout(learner, gradient, hyper, key, start, times, every, observe=seen).seen

    over_seeds = jax.vmap(one, (None, None, None, 0))
    return jax.vmap(over_seeds, (0, 0, 0, None))(learners, judged, hyper, keys)


def observe(
    learners: Learner,
    dynamics: str,
    hyper: Hyper,
    watch: Observable,
    judged: Any,
    *,
    times: int,
    every: int = 1,
    seeds: int = 1,
    seed: int = 0,
) -> Any:
    """`watch(judged, theta)` at steps 0, every, 2 every, ...: a pytree of numpy arrays [B, S, times, ...].

    Args:
      learners: one learner whose bandit has a leading axis [B] on every array (`displaced.stack_bandits`).
      hyper: settings of each [B]. judged: what is evaluated, e.g. the same bandits or others with the same parameters,
        [B] likewise. seeds: S runs of each; all bandits have the same random streams.
    """
    count = len(np.asarray(hyper.learning_rate))
    whole = learners.staleness.whole_interval
    interval = np.asarray(hyper.refresh_interval, np.int32 if whole else float)
    columns = Hyper(*(jnp.asarray(np.broadcast_to(x, (count,)), float) for x in hyper))
    hyper = columns._replace(refresh_interval=jnp.asarray(np.broadcast_to(interval, (count,))))
    keys = jax.random.split(jax.random.key(seed), seeds)
    return jax.tree.map(np.asarray, _runs(learners, judged, hyper, keys, dynamics, watch, times, every))


def success_of_prompts(bandit: Any, theta: Array) -> Array:
    """Expected reported reward of every prompt [X]."""
    return jnp.sum(jnp.exp(bandit.log_policy(theta)) * bandit.true_means, axis=-1)


def prompt_gradients(bandit: Any, theta: Array) -> tuple[Array, Array]:
    """(`success_of_prompts` [X], its gradient [X, D]) of every prompt."""
    value = partial(success_of_prompts, bandit)
    return value(theta), jax.jacrev(value)(theta)


def mean_cosine(gradients: Array) -> Array:
    """Mean absolute cosine of pairs of rows of gradients [X, D]: 0 for orthogonal ones; a row of length 0 counts 0."""
    length = jnp.linalg.norm(gradients, axis=-1, keepdims=True)
    unit = gradients / jnp.where(length > 0, length, 1)
    count = unit.shape[0]
    pairs = jnp.abs(unit @ unit.T) * (1 - jnp.eye(count))
    return jnp.sum(pairs) / (count * (count - 1))


def success_and_cosine(bandit: Any, theta: Array) -> tuple[Array, Array]:
    """(`success_of_prompts` [X], `mean_cosine` of the prompts' gradients): an `Observable`."""
    value, gradients = prompt_gradients(bandit, theta)
    return value, mean_cosine(gradients)
