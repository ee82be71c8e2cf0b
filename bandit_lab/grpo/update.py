"""One update of GRPO for one seed and one setting. Everything is vectorised outside."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo.advantage import GRPO, Advantage
from bandit_lab.grpo.correction import Correction, NoCorrection
from bandit_lab.grpo.estimator import Estimator, Frozen
from bandit_lab.grpo.hyper import Hyper, check_hyper
from bandit_lab.grpo.kl import KL, KL_ESTIMATORS, Exact
from bandit_lab.grpo.optimizer import Optimizer
from bandit_lab.grpo.sampler import OwnLaw, Sampler
from bandit_lab.grpo.schedule import Schedule
from bandit_lab.grpo.staleness import Mixture, Refresh, Staleness

_AGES = 2**32 - 1  # a step number that no run reaches: names the stream that ages are drawn from


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Learner:
    """Everything but the traced scalars: the bandit (its numbers are traced) and the static choices.

    group_size: G. prompts: groups averaged per step. kl_estimator: the penalty's form, or its name: "exact" (reverse
    KL), the sampled "k3" loss, ... batch_reuse: one batch serves a whole refresh block. horizon: steps that the
    staleness model remembers (see its `horizon_for`): the largest lag of model B, the oldest age kept apart by random
    staleness. entropy_weight: of the exact entropy of the policy, which is added to the objective, reward units per
    nat. sampler: the law that draws. correction: how an answer is weighed that another law drew.
    schedule: what the learning rate and the KL weight are multiplied by at every step, or None.

    Raises:
      ValueError: group smaller than the advantage allows, prompts < 1, unknown KL estimator, batch reuse without
        blocks, entropy weight < 0, importance weights of answers that a sampler never draws, a sampler of sequences in
        an order that is not known.
    """

    bandit: Bandit
    advantage: Advantage = field(default=GRPO(), metadata={"static": True})
    estimator: Estimator = field(default=Frozen(), metadata={"static": True})
    staleness: Staleness = field(default=Refresh(), metadata={"static": True})
    optimizer: Optimizer = field(default=Optimizer(), metadata={"static": True})
    group_size: int = field(default=64, metadata={"static": True})
    prompts: int = field(default=1, metadata={"static": True})
    kl_estimator: KL = field(default=Exact(), metadata={"static": True})
    batch_reuse: bool = field(default=False, metadata={"static": True})
    horizon: int = field(default=64, metadata={"static": True})
    entropy_weight: float = field(default=0.0, metadata={"static": True})
    sampler: Sampler = field(default=OwnLaw(), metadata={"static": True})
    correction: Correction = field(default=NoCorrection(), metadata={"static": True})
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        _checks.integer("group_size", self.group_size, self.advantage.smallest_group)
        _checks.integer("prompts", self.prompts, 1)
        if isinstance(self.kl_estimator, str):
            object.__setattr__(self, "kl_estimator", KL_ESTIMATORS.build(self.kl_estimator, {}))
        _checks.integer("horizon", self.horizon, 0)
        _checks.non_negative("entropy_weight", self.entropy_weight)
        reuse_fits = self.staleness.block_synchronous or not self.batch_reuse
        _checks.require(reuse_fits, "batch_reuse", "false with a staleness model without blocks (lag)", True)
        weights: list[Any] = [] if self.estimator.ignores_ratio else [self.estimator]
        weights += [] if isinstance(self.correction, NoCorrection) else [self.correction]
        expected = f"one that can draw every answer, as the weights {', '.join(map(repr, weights))} need"
        _checks.require(self.sampler.draws_all or not weights, "sampler", expected, self.sampler)
        own = isinstance(self.sampler, OwnLaw)
        ordered = own or self.bandit.lexicographic or self.bandit.log_token_policy is None
        expected = "exact where sequences are not said to be in lexicographic order"
        _checks.require(ordered, "sampler", expected, self.sampler)


class State(NamedTuple):
    """What the next step needs. step: updates done. theta: [D]. optimizer, staleness: their own pytrees."""

    step: Array
    theta: Array
    optimizer: Any
    staleness: Any


class Info(NamedTuple):
    """What one step shows, all taken before the update.

    theta, behaviour: current and acting parameters [D] (the mean of a mixture). gradient: ascent direction
    [D]. silent: share of silent groups in this step's batch, the chance of one where they are dropped (0 where the
    gradient is an exact mean of infinite groups).
    """

    theta: Array
    behaviour: Any
    gradient: Array
    silent: Array


class Gradient(NamedTuple):
    """An ascent direction [D] and the share of silent groups in the batch that it came from."""

    value: Array
    silent: Array


GradientFn = Callable[..., Gradient]
"""(key, kl_weight, theta, behaviour theta) -> Gradient: sampled, or exact (then the key is ignored)."""


def init(learner: Learner, hyper: Hyper, theta: Array) -> State:
    """State before step 0 at parameters theta [D], everything that remembers filled with theta.

    Raises:
      ValueError: settings out of range (traced ones cannot be looked at).
    """
    check_hyper(learner.staleness, hyper)
    optimizer = learner.optimizer.build(hyper.learning_rate, hyper.momentum)
    return State(jnp.int32(0), theta, optimizer.init(theta), learner.staleness.init(theta, learner.horizon))


def batch_step(learner: Learner, interval: Array, step: Array) -> Array:
    """The step whose batch step `step` is trained on: with `batch_reuse` the block's first, else itself."""
    return step - step % jnp.maximum(interval, 1) if learner.batch_reuse else step


def batch_key(learner: Learner, interval: Array, key: Array, step: Array) -> Array:
    """The key of the batch that step `step` is trained on, from the `key` of the whole run.

    With `batch_reuse` the number of the block's first step is folded in. So the same groups are drawn from the same
    snapshot at every step of the block.
    """
    return jax.random.fold_in(key, batch_step(learner, interval, step))


def update(learner: Learner, gradient: GradientFn, hyper: Hyper, key: Array, state: State) -> tuple[State, Info]:
    """One optimiser step. `key` belongs to the whole run: the step number is folded in here (see `batch_key`)."""
    hyper = hyper if learner.schedule is None else learner.schedule.at(hyper, state.step)
    interval = hyper.refresh_interval
    age_key = jax.random.fold_in(jax.random.fold_in(key, _AGES), state.step)
    behaviour, staleness = learner.staleness.behaviour(state.staleness, state.theta, state.step, interval, age_key)
    draw = batch_key(learner, interval, key, state.step)
    if isinstance(behaviour, Mixture):
        keys = jax.random.split(draw, behaviour.share.shape[0])
        each = jax.vmap(gradient, (0, None, None, 0))(keys, hyper.kl_weight, state.theta, behaviour.theta)
        ascent = Gradient(behaviour.share @ each.value, behaviour.share @ each.silent)
        behaviour = behaviour.share @ behaviour.theta
    else:
        ascent = gradient(draw, hyper.kl_weight, state.theta, behaviour)
    optimizer = learner.optimizer.build(hyper.learning_rate, hyper.momentum)
    change, optimizer_state = optimizer.update(-ascent.value, state.optimizer, state.theta)
    info = Info(state.theta, behaviour, ascent.value, ascent.silent)
    return State(state.step + 1, state.theta + change, optimizer_state, staleness), info


def policy_gradient(
    learner: Learner,
    kl_weight: Array,
    theta: Array,
    behaviour: Any,
    signal: Array,
    frequency: Array,
    log_frequency: Array | None = None,
) -> Array:
    """Ascent direction [D] = sum_{x,k} signal[x,k] grad log pi(k|x) - kl_weight * grad KL + entropy_weight * grad H.

    All gradients are taken at the behaviour policy if the estimator is `at_snapshot`, else at theta.

    signal: [X, K] advantage per action, weighted by the estimator and summed over the actions of each arm; or
      [L, X, K] of each of their tokens.
    frequency: [X, K] share of the actions that fell on each arm, for sampled KL estimators (see `KL`). The KL term is
      never divided by the std.
    log_frequency: [X, K] its logarithm, where it is a probability and not a count.
    """
    bandit, kl = learner.bandit, learner.kl_estimator
    at, tokens = behaviour if learner.estimator.at_snapshot else theta, signal.ndim == 3
    log_probabilities = bandit.log_token_policy if tokens else bandit.log_policy
    log_parts, pull_back = jax.vjp(log_probabilities, at)
    log_policy = jnp.sum(log_parts, axis=0) if tokens else log_parts
    share, log_share = (frequency, log_frequency) if kl.sampled else (jnp.exp(log_policy), log_policy)
    if log_share is not None and kl.expected is not None:
        penalty = kl.expected(share, log_share, log_policy, bandit.reference_log_policy)
    else:
        penalty = share * kl.slope(log_policy, bandit.reference_log_policy)
    penalty = penalty if kl.sampled else penalty / log_policy.shape[0]
    ascent = signal - kl_weight * penalty
    if learner.entropy_weight:  # grad H = -sum_k pi_k log pi_k grad log pi_k
        ascent = ascent - learner.entropy_weight * jnp.exp(log_policy) * log_policy / log_policy.shape[0]
    return pull_back(ascent)[0]
