"""The time loop of one chunk of lanes: update, record, watch.

The optimiser and the staleness model are the ones of `grpo`, applied to all lanes at once. An optimiser that mixes
components is mapped over the last axis. Only the gradient is written anew. All lanes of a chunk share the
refresh interval, so that block starts are one branch.

Adam and AdamW are written anew, as optax has them. Their corrections for the start, 1 / (1 - b^t), are one factor
per lane and moment: optax works the power out, and divides by it, for every arm. Powers are carried as products.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from bandit_lab._numerics import materialize
from bandit_lab._types import Array
from bandit_lab.grpo import Mixture, Optimizer, Refresh
from bandit_lab.simulation.fast import any_policy, many_arms, two_arms
from bandit_lab.simulation.fast.penalty import with_entropy
from bandit_lab.simulation.fast.program import Job, Program
from bandit_lab.simulation.fast.random_bits import age_uniform
from bandit_lab.simulation.fast.record import Tail, Track, start_tail, start_track, track, watch, watch_silence

_DECAY = {"adam": 0.0, "adamw": 1e-4}
_KNOWN = {"b1", "b2", "eps", "weight_decay"}


class _Carry(NamedTuple):
    """Between two steps: the current policy, the optimiser's and the staleness model's memory, what is recorded."""

    policy: Any
    optimizer: Any
    staleness: Any
    track: Track
    tail: Tail | None


def _optimizer(job: Job, part: str) -> Callable:
    """`init` or `update` of the optimiser for all lanes: as it is if it works component by component, else mapped."""
    lanes, build = job.lanes, job.learner.optimizer.build
    if _is_adam(job.learner.optimizer):
        return getattr(_adam(job.learner.optimizer, lanes.learning_rate, lanes.momentum), part)
    if job.learner.optimizer.elementwise:
        return getattr(build(lanes.learning_rate, lanes.momentum), part)
    shared = None if lanes.momentum.ndim == 0 else -1

    def of_all(*trees: Any) -> Any:
        def one(eta: Array, mu: Array, *rest: Any) -> Any:
            return getattr(build(eta, mu), part)(*rest)

        side_by_side = jax.vmap(one, (shared, shared, *[-1] * len(trees)), -1)
        return side_by_side(lanes.learning_rate, lanes.momentum, *trees)

    return of_all


def _arms_of(program: Program) -> ModuleType:
    """The module that knows this kind of policy."""
    return any_policy if program.contexts else two_arms if program.two_arms else many_arms


def run_lanes(job: Job) -> tuple[Track, Tail | None, Any]:
    """Run one chunk. Gives (what was recorded of J, tail of every lane, final policy)."""
    program, lanes, arms = job.program, job.lanes, _arms_of(job.program)
    if job.learner.schedule is None:
        job = _with_bonus(job, arms)
    carry = _start(job, arms)
    if program.blocks:
        count = (lanes.steps + lanes.interval - 1) // lanes.interval
        carry = lax.fori_loop(0, count, lambda block, c: _block(job, arms, block, c), carry)
    else:
        carry = lax.fori_loop(0, lanes.steps, lambda step, c: _single(job, arms, step, c), carry)
    return carry.track, carry.tail, carry.policy


def _with_bonus(job: Job, arms: ModuleType) -> Job:
    return job if arms is any_policy else with_entropy(job)


def _at(job: Job, arms: ModuleType, step: Array) -> Job:
    """The job with its lanes' settings as they are at that step."""
    schedule = job.learner.schedule
    return job if schedule is None else _with_bonus(job._replace(lanes=schedule.at(job.lanes, step)), arms)


def _start(job: Job, arms: ModuleType) -> _Carry:
    lanes, learner = job.lanes, job.learner
    logits = (lanes.theta[:1] - lanes.theta[1:]) * 0.5 if job.program.two_arms else lanes.theta
    policy = arms.policy_of(job, logits)
    reward = policy.reward
    rule: Any = learner.staleness
    staleness = None
    if type(rule) is not Refresh:
        staleness = rule.init(logits, learner.horizon)
    tail = None if lanes.fixed_point is None else start_tail(reward, lanes.fixed_point)
    recorded = track(job, start_track(job, reward), 0, reward)
    return _Carry(policy, _optimizer(job, "init")(logits), staleness, recorded, tail)


def _acting(job: Job, arms: ModuleType, step: Array, carry: _Carry) -> tuple[Any, Any]:
    """(policy that acts from this step on, the staleness model's memory). Model A at a block's start: the current."""
    if carry.staleness is None:
        return carry.policy, None
    rule, now = job.learner.staleness, (carry.staleness, carry.policy.logits, step, job.lanes.interval)
    if rule.recall is not None:
        uniform = age_uniform(job.program.generator, job.lanes.keys, step, now[1].dtype)
        logits, memory = rule.recall(*now, uniform)
        logits = materialize(logits)
    else:
        logits, memory = rule.behaviour(*now)
    return arms.policy_of(job, logits), memory


def _block(job: Job, arms: ModuleType, block: Array, carry: _Carry) -> _Carry:
    """All steps of one refresh interval: the policy that acts is worked out once."""
    first = block * job.lanes.interval
    last = jnp.minimum(first + job.lanes.interval, job.program.steps)
    acting, memory = _acting(job, arms, first, carry)
    carry = carry._replace(staleness=memory)

    def step(t: Array, carry: _Carry) -> _Carry:
        return _update(job, arms, acting, t, first if job.learner.batch_reuse else t, carry)

    return lax.fori_loop(first, last, step, carry)


def _single(job: Job, arms: ModuleType, step: Array, carry: _Carry) -> _Carry:
    if job.learner.staleness.averages:
        return _averaged(job, arms, step, carry)
    acting, memory = _acting(job, arms, step, carry)
    return _update(job, arms, acting, step, step, carry._replace(staleness=memory))


def _averaged(job: Job, arms: ModuleType, step: Array, carry: _Carry) -> _Carry:
    """One step with several policies acting: the mean of their gradients, each from a batch of its own."""
    job = _at(job, arms, step)
    rule: Any = job.learner.staleness
    policy, now = carry.policy, (step, job.lanes.interval)
    mixture, memory = rule.behaviour(carry.staleness, policy.logits, *now)
    assert isinstance(mixture, Mixture)
    count, then = mixture.share.shape[0], job

    def one(place: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        logits = materialize(lax.dynamic_index_in_dim(mixture.theta, place, 0, keepdims=False))
        parts = arms.ascent(then, arms.policy_of(then, logits), policy, step * count + place)
        return tuple(total + mixture.share[place] * part for total, part in zip(so_far, parts, strict=True))

    nothing = jnp.zeros_like(policy.logits), jnp.zeros_like(policy.reward)
    ascent, silent = lax.fori_loop(0, count, one, nothing)
    return _moved(job, arms, ascent, silent, step, carry._replace(staleness=memory))


def _update(job: Job, arms: ModuleType, acting: Any, step: Array, batch: Array, carry: _Carry) -> _Carry:
    """One step. batch: the step whose random words draw it."""
    job = _at(job, arms, step)
    ascent, silent = arms.ascent(job, acting, carry.policy, batch)
    return _moved(job, arms, ascent, silent, step, carry)


def _moved(job: Job, arms: ModuleType, ascent: Array, silent: Array, step: Array, carry: _Carry) -> _Carry:
    """After the optimiser's step along the ascent direction."""
    policy = carry.policy
    difference, memory = _optimizer(job, "update")(-ascent, carry.optimizer, policy.logits)
    policy = arms.policy_of(job, policy.logits + difference)
    tail, reward = carry.tail, policy.reward
    if tail is not None:
        tail = watch(watch_silence(tail, job.program.steps, step, silent), job.program.steps, step + 1, reward)
    return _Carry(policy, memory, carry.staleness, track(job, carry.track, step + 1, reward), tail)


class _State(NamedTuple):
    """Means of gradient and squared gradient, as the parameters; and b1^t, b2^t."""

    first: Array
    second: Array
    left_of_first: Array
    left_of_second: Array


def _is_adam(optimizer: Optimizer) -> bool:
    """Whether it is Adam or AdamW with options that are known here."""
    return optimizer.name in _DECAY and {name for name, _ in optimizer.options} <= _KNOWN


def _adam(optimizer: Optimizer, learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """What `optimizer.build` gives, up to rounding, for parameters [..., L] and settings [L] or scalars."""
    options: dict[str, Any] = {"b1": momentum, "b2": 0.999, "eps": 1e-8, "weight_decay": _DECAY[optimizer.name]}
    b1, b2, eps, weight_decay = (options | dict(optimizer.options)).values()

    def init(theta: Any) -> _State:
        nothing, one = jnp.zeros_like(theta), jnp.ones((), theta.dtype)
        return _State(nothing, nothing, jnp.broadcast_to(one, jnp.shape(b1)), one)

    def update(gradient: Any, state: Any, theta: Any = None) -> tuple[Any, _State]:
        first = b1 * state.first + (1 - b1) * gradient
        second = b2 * state.second + (1 - b2) * gradient * gradient
        left = [materialize(state.left_of_first * b1), materialize(state.left_of_second * b2)]
        scale, scale_of_square = (materialize(1 / (1 - power)) for power in left)
        step = first * (scale * learning_rate) / (jnp.sqrt(second * scale_of_square) + eps)
        if weight_decay:
            step = step + learning_rate * weight_decay * theta
        return -step, _State(first, second, *left)

    return optax.GradientTransformation(init, update)
