"""The planted runs simulated with the lab's own update: what the log sees, and the hidden state behind it.

Runs of one batch shape go through one program, as lanes, as many updates as the longest of them needs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit, RewardLaw
from bandit_lab.grpo import Hyper, Learner, batch_key, init
from bandit_lab.simulation import drift_of, sampled
from bandit_lab.simulation.rollout import Stride, rollout
from bandit_lab.simulation.sampled import draw_batch
from experiments.shared.sick_runs.plant import Injected


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SharedLogitBandit(Bandit):
    """X prompts that share K logits: pi(k | x) ~ exp(theta_k + offsets[x, k]).

    A prompt's offsets are how hard it is. Training sees the rewards of `law`, evaluation `reported_means` [X, K]. A
    `ContextualBandit` with unit features has the same law but other last bits: it adds its parameters to normalised
    log-probabilities. Published scores rest on these.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    offsets: Array
    reported_means: Array

    def log_policy(self, theta: Array) -> Array:
        """[K] -> [X, K]."""
        return jax.nn.log_softmax(theta + self.offsets)

    @property
    def true_means(self) -> Array:
        """Mean of the true reward [X, K]."""
        return self.reported_means


def prompts(offsets: Array, trained: Array, true: Array) -> SharedLogitBandit:
    """Prompts with offsets [X, K], the chance of a reward of each arm in training [K] and in truth [K].

    The reference policy is the initial one, all shared logits zero.
    """
    shape = jnp.shape(offsets)
    chance = jnp.broadcast_to(trained, shape)
    law = RewardLaw(jnp.array([0.0, 1.0], chance.dtype), jnp.stack([1 - chance, chance], axis=-1))
    reference, reported = jax.nn.log_softmax(offsets), jnp.broadcast_to(true, shape)
    return SharedLogitBandit(law, jnp.zeros_like(offsets[0]), reference, offsets, reported)


LANES, ROOM = 32, 512
_SETTLING = 4000


@dataclass(frozen=True)
class Simulated:
    """One run [T]: `reward` (mean of the step's groups) and `silent` (share of them) as drawn; the rest is hidden:
    `trained` and `true` expected reward, policy `entropy` [nats], expected share `silent_mean` of silent groups."""

    planted: Injected
    reward: np.ndarray
    silent: np.ndarray
    trained: np.ndarray
    true: np.ndarray
    entropy: np.ndarray
    silent_mean: np.ndarray


_LOGGED = ("reward", "silent", "trained", "true", "entropy", "silent_mean")


def simulate_all(
    planted: list[Injected], advance: Callable[[int, int], None] = lambda done, total: None
) -> list[Simulated]:
    """Every run, in the order given."""
    ready = with_rates(planted)
    order = sorted(range(len(ready)), key=lambda i: (ready[i].prompts, ready[i].group_size, ready[i].points))
    simulated: dict[int, Simulated] = {}
    while order:
        first = ready[order[0]]
        same = [
            i for i in order[:LANES] if (ready[i].prompts, ready[i].group_size) == (first.prompts, first.group_size)
        ]
        for i, run in zip(same, _together([ready[i] for i in same]), strict=True):
            simulated[i] = run
        order = order[len(same) :]
        advance(len(simulated), len(ready))
    return [simulated[i] for i in range(len(ready))]


def with_rates(planted: list[Injected]) -> list[Injected]:
    """The same runs, those above a threshold with the learning rate that puts them there."""
    above = [i for i, one in enumerate(planted) if one.over_threshold is not None]
    done = list(planted)
    for first in range(0, len(above), 256):
        part = above[first : first + 256]
        padded = part + [part[-1]] * (256 - len(part))
        slopes = np.asarray(_slopes(*_world([planted[i] for i in padded]), _column(planted, padded, "kl_weight")))
        for i, slope in zip(part, slopes, strict=False):
            stiffness = float(np.linalg.eigvals(-slope).real.max())
            edge = edge_of_block(int(planted[i].refresh_interval), float(planted[i].momentum))
            rate = (planted[i].over_threshold or 1.0) * edge / max(stiffness, 1e-3)
            done[i] = replace(planted[i], learning_rate=rate)
    return done


@cache
def edge_of_block(interval: int, momentum: float) -> float:
    """Learning rate times stiffness from which a block grows whose updates all have the gradient of its start.

    The first from below, by the spectral radius of the block's map on (position, velocity).
    """

    def excess(kappa: float) -> float:
        x, v = np.array([1.0, 0.0]), np.array([0.0, 1.0])  # as functions of both at the start
        force = np.array([-kappa, 0.0])
        for _ in range(interval):
            v = momentum * v + force
            x = x + v
        return float(np.abs(np.linalg.eigvals(np.stack([x, v]))).max()) - 1

    grid = np.geomspace(1e-3 * (1 - momentum) / interval, 4 * (1 + momentum), 4000)
    first = next(place for place, kappa in enumerate(grid) if excess(kappa) >= 0)
    return float(brentq(excess, grid[first - 1], grid[first], xtol=1e-15))


def _world(planted: list[Injected]) -> tuple[Any, ...]:
    return tuple(
        jnp.asarray(np.stack([getattr(one, name) for one in planted]), jnp.float32)
        for name in ("offsets", "trained", "true")
    )


def _column(planted: list[Injected], rows: list[int], name: str) -> Any:
    return jnp.asarray(np.array([getattr(planted[i], name) for i in rows]), jnp.float32)


@jax.jit
def _slopes(offsets: Any, trained: Any, true: Any, kl_weight: Any) -> Any:
    """Jacobian [C, K, K] of the mean update at the fixed point that the slow mean dynamics runs into."""

    def one(offsets: Any, trained: Any, true: Any, weight: Any) -> Any:
        drift = drift_of(Learner(prompts(offsets, trained, true)), "mean_field")
        on_policy = lambda theta: drift(theta, theta, weight)  # noqa: E731
        settled = jax.lax.fori_loop(
            0, _SETTLING, lambda _, theta: theta + 0.2 * on_policy(theta), jnp.zeros_like(offsets[0])
        )
        return jax.jacfwd(on_policy)(settled)

    return jax.vmap(one)(offsets, trained, true, kl_weight)


def _together(planted: list[Injected]) -> list[Simulated]:
    rows = list(range(len(planted))) + [len(planted) - 1] * (LANES - len(planted))
    lanes = [planted[i] for i in rows]
    hyper = Hyper(
        _column(planted, rows, "learning_rate"),
        _column(planted, rows, "momentum"),
        jnp.asarray([one.refresh_interval for one in lanes]),
        _column(planted, rows, "kl_weight"),
    )
    longest = max(one.points for one in planted)
    seeds = jnp.asarray([one.seed for one in lanes], jnp.uint32)
    logged = _run(planted[0].prompts, planted[0].group_size, longest, *_world(lanes), hyper, seeds)
    columns = [np.asarray(values, float) for values in logged]
    return [
        Simulated(one, **{name: values[lane, : one.points] for name, values in zip(_LOGGED, columns, strict=True)})
        for lane, one in enumerate(planted)
    ]


@partial(jax.jit, static_argnums=(0, 1))
def _run(
    groups: int, size: int, steps: Any, offsets: Any, trained: Any, true: Any, hyper: Hyper, seeds: Any
) -> tuple[Any, ...]:
    """The columns of `_LOGGED` [LANES, ROOM], filled up to `steps`."""

    def one(offsets: Any, trained: Any, true: Any, hyper: Hyper, seed: Any) -> tuple[Any, ...]:
        bandit = prompts(offsets, trained, true)
        learner = Learner(bandit, group_size=size, prompts=groups)
        gradient, key = sampled(learner), jax.random.key(seed)

        def log(columns: tuple[Any, ...], seen: Stride) -> tuple[Any, ...]:
            t, info = seen.before.step, seen.info
            draw = batch_key(learner, hyper.refresh_interval, key, t)
            acting = jnp.exp(bandit.log_policy(info.behaviour))
            reward = jnp.mean(draw_batch(learner, draw, acting).rewards)  # the update's own groups: the same key
            log_policy = bandit.log_policy(info.theta)
            policy = jnp.exp(log_policy)
            success = jnp.sum(acting * bandit.law.means, axis=-1)
            values = (
                reward,
                info.silent,
                jnp.mean(jnp.sum(policy * bandit.law.means, axis=-1)),
                jnp.mean(jnp.sum(policy * bandit.true_means, axis=-1)),
                -jnp.mean(jnp.sum(policy * log_policy, axis=-1)),
                jnp.mean(success**size + (1 - success) ** size),
            )
            return tuple(column.at[t].set(value) for column, value in zip(columns, values, strict=True))

        empty = tuple(jnp.zeros(ROOM, offsets.dtype) for _ in _LOGGED)
        start = init(learner, hyper, bandit.initial_parameters)
        return rollout(learner, gradient, hyper, key, start, steps, fold=log, total=empty).total

    return jax.vmap(one)(offsets, trained, true, hyper, seeds)
