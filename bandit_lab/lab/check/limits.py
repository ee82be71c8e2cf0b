"""Are the limits and the flags that a variant declares true?"""

from dataclasses import replace
from typing import Any
from unittest import SkipTest

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab.grpo import Mixture, Scaled, advantages, batch_advantages, drawn_advantages, sees_batch
from bandit_lab.lab.check.result import check, close, not_zero
from bandit_lab.lab.check.sampling import _sampled_z, judge
from bandit_lab.lab.check.subject import LAWS, Subject
from bandit_lab.simulation import check_drift, drift_of

SIZES = (32, 128)
LARGE, FEW = 512, 2000
REWARDS = (1.0, 0.0, 0.25, 1.0, 1.0, 0.0, 0.5, 1.0)


@check("shapes and normalisation", "bandit")
def _shapes(subject: Subject) -> str:
    """Every probability sums to 1, the reference is finite, and tokens multiply up to their sequence."""
    bandit = subject.learner.bandit
    contexts, arms = bandit.reference_log_policy.shape
    log_policy = bandit.log_policy(subject.places[0][0])
    ones = np.ones(contexts)
    lines = [close("policy", jnp.exp(log_policy).sum(-1), ones, 0, 1e-12)]
    lines.append(close("reference", jnp.exp(bandit.reference_log_policy).sum(-1), ones, 0, 1e-12))
    close("law", bandit.law.probabilities.sum(-1), np.ones((contexts, arms)), 0, 1e-12)
    close("true means", np.shape(bandit.true_means), (contexts, arms), 0, 0)
    if not np.all(np.isfinite(bandit.reference_log_policy)):
        raise AssertionError("reference_log_policy: expected finite numbers")
    if bandit.log_token_policy is not None:
        tokens = bandit.log_token_policy(subject.places[0][0])
        lines.append(close("tokens", tokens.sum(0), log_policy, 0, 1e-12))
    return "; ".join(lines)


@check("declared properties", "advantage")
def _flags(subject: Subject) -> str:
    """`centred` and `linear` are true in a group of eight; it is the same drawn, counted, by `scale` and in a batch."""
    advantage, rewards = subject.variant, jnp.array(REWARDS)

    def drawn(rewards: jax.Array) -> jax.Array:
        return drawn_advantages(advantage, rewards[None])[0]

    values, place, counts = jnp.unique(rewards, return_inverse=True, return_counts=True)
    absent, shares = jnp.append(values, 7.0)[:, None], jnp.append(counts, 0)[:, None] / len(REWARDS)
    in_group, size = drawn(rewards), len(REWARDS)
    lines = [close("counted", advantages(advantage, absent, shares, size)[place, 0], in_group, 1e-12, 1e-12)]
    if advantage.centred:
        lines.append(close("sum of a centred group", jnp.sum(in_group), 0.0, 0, 1e-12))
    if advantage.linear:
        lines.append(close("linear", drawn(3 * rewards + rewards[::-1]), 3 * in_group + in_group[::-1], 1e-12, 1e-12))
    if isinstance(advantage, Scaled):
        for name, of, many in (("scale", in_group, size), ("scale at G = infinity", None, None)):
            factor = advantage.scale(jnp.var(rewards), jnp.asarray(False), many)
            of = advantages(advantage, absent, shares, None)[place, 0] if of is None else of
            lines.append(close(name, factor * (rewards - jnp.mean(rewards)), of, 1e-12, 1e-12))
    if sees_batch(advantage):
        alone = batch_advantages(advantage, absent, shares, None)
        lines.append(close("batch of one", alone, advantages(advantage, absent, shares, None), 1e-12, 1e-12))
    return "; ".join(lines)


@check("infinite groups are the limit of large ones", "bandit", "advantage", "estimator", *LAWS)
def _population(subject: Subject) -> str:
    """The exact mean at G = 32 and 128 nears that at G = infinity; where it cannot be summed, sampling at G = 512."""
    if sees_batch(subject.learner.advantage) and len(subject.learner.bandit.reference_log_policy) > 1:
        raise SkipTest("the limit is one of many prompts, too: a step of one prompt never sees the other contexts")
    wide = [replace(subject.learner, group_size=size) for size in SIZES]
    try:
        check_drift(wide[-1], "finite_group")
    except ValueError:
        large = replace(subject, learner=replace(subject.learner, group_size=LARGE))
        return f"G = {LARGE}: " + judge(_sampled_z(large, "mean_field", FEW, 2 / LARGE), FEW, subject.seed)
    theta, behaviour = (part[0] for part in subject.places)
    limit = np.asarray(drift_of(wide[0], "mean_field")(theta, behaviour, subject.weight))
    not_zero("mean gradient", limit)
    distance = [
        float(np.max(np.abs(drift_of(one, "finite_group")(theta, behaviour, subject.weight) - limit))) for one in wide
    ]
    line = f"distance {distance[0]:.1e} at G = {SIZES[0]}, {distance[1]:.1e} at G = {SIZES[1]}, expected at most half"
    if not distance[1] <= 0.55 * distance[0] + 1e-10:
        raise AssertionError(line)
    return line


@check("weights", "estimator")
def _weights(subject: Subject) -> str:
    """Factors are finite far from 1, and 1 everywhere if `ignores_ratio` says so."""
    estimator = subject.variant
    if estimator.of_group is not None:
        log = jnp.log(jnp.array([0.5, 0.3, 0.1, 0.1]))
        factors = estimator.of_group(log, log[::-1], jnp.array([1.0, -1.0, 0.5, 0.0]), jnp.full(4, 0.25))
        return _finite(factors, (4,))
    ratio, advantage = jnp.geomspace(1e-3, 1e3, 31), jnp.where(jnp.arange(31) % 2 == 0, 1.0, -1.0)
    factors = estimator.weight(ratio, advantage)
    if estimator.ignores_ratio:
        return close("weight", factors, np.ones(31), 0, 0)
    if estimator.token_weights is not None:
        _finite(estimator.token_weights(ratio[:30].reshape(3, 10), advantage[:10]), (3, 10))
    return _finite(factors, (31,))


def _finite(factors: jax.Array, shape: tuple[int, ...]) -> str:
    if factors.shape != shape or not np.all(np.isfinite(factors)):
        raise AssertionError(f"expected finite factors of shape {shape}, got {np.asarray(factors)!r}")
    return "finite"


@check("declared law", "sampler")
def _draws(subject: Subject) -> str:
    """The law has sum 1 in every context, and is 0 nowhere if `draws_all` says so."""
    policy = jax.nn.log_softmax(jnp.array([[0.0, 0.5, -0.7], [2.0, -3.0, 0.2]]))
    law = np.exp(np.asarray(subject.variant.log_law(policy)))
    line = close("law", law.sum(-1), np.ones(2), 0, 1e-12)
    if subject.variant.draws_all and not np.all(law > 0):
        raise AssertionError("draws_all: expected a probability of every answer, got 0")
    return line


@check("weights of the mismatch", "correction")
def _weighs(subject: Subject) -> str:
    """Factors are finite and >= 0 far from 1, and 1 where sampler and policy agree."""
    factors = subject.variant.weight(jnp.geomspace(1e-3, 1e3, 31))
    close("weight at 1", factors[15], 1.0, 0, 1e-12)
    if np.any(np.asarray(factors) < 0):
        raise AssertionError("expected factors >= 0")
    return _finite(factors, (31,))


@check("remembers parameters", "staleness")
def _remembers(subject: Subject) -> str:
    """The policy that acts is one of those that were, and at first the one at the start."""
    rule, interval = subject.variant, max(2, subject.variant.smallest_interval)
    age = jnp.asarray(interval if rule.whole_interval else float(interval))
    past = [jnp.full(2, float(t)) for t in range(8)]
    state, key, before = rule.init(past[0], rule.horizon_for(interval)), jax.random.key(subject.seed), None
    for step, theta in enumerate(past):
        now = rule.behaviour(state, theta, jnp.int32(step), age, jax.random.fold_in(key, step))
        if rule.block_synchronous and step % interval and not jax.tree.all(jax.tree.map(jnp.array_equal, now, before)):
            raise AssertionError(f"step {step}: block_synchronous, expected what the block began with, got others")
        acting, state = before = now
        if not isinstance(acting, Mixture) and not any(bool(jnp.all(acting == old)) for old in past[: step + 1]):
            raise AssertionError(f"step {step}: expected parameters of a step before, got {np.asarray(acting)}")
        if isinstance(acting, Mixture):
            close("shares", jnp.sum(acting.share), 1.0, 0, 1e-12)
    return f"{len(past)} steps at refresh interval {interval}"


@check("period and rewind", "staleness")
def _period(subject: Subject) -> str:
    """A period after a state, and from that state rewound, the same policies act: multipliers and onsets rest on it."""
    rule, interval = subject.variant, max(2, subject.variant.smallest_interval)
    age = jnp.asarray(interval if rule.whole_interval else float(interval))
    try:
        steps = int(rule.period(interval))
    except ValueError as error:
        raise SkipTest(str(error)) from error
    horizon = rule.horizon_for(interval)
    whole = -(-(2 * interval + horizon + 1) // steps) * steps  # a memory that is full, at the end of a period
    path = jnp.asarray(np.random.default_rng(subject.seed).normal(size=(whole + 2 * steps + horizon, 2)))

    def acting(state: Any, first: int, clock: int) -> list[Any]:
        seen = []
        for step in range(first, len(path)):
            behaviour, state = rule.behaviour(state, path[step], jnp.int32(step - clock), age)
            seen.append(behaviour.share @ behaviour.theta if isinstance(behaviour, Mixture) else behaviour)
        return seen

    state = rule.init(path[0], horizon)
    for step in range(whole):
        _, state = rule.behaviour(state, path[step], jnp.int32(step), age)
    later, again = acting(state, whole, 0), acting(rule.rewind(state, steps), whole, steps)
    line = f"period({interval}) = {steps}"
    return f"{line}; {close(f'{line}: policies that act', jnp.stack(again), jnp.stack(later), 0, 1e-12)}"
