"""K arms in every lane: the ascent direction, sampled or at G = infinity.

The formulas are those of `grpo.policy_gradient`; a sum over the actions of a group is written as a sum over cells. For
the softmax policy grad log pi(k) = e_k - pi, and log pi may be replaced by the logits: a constant changes no term.
"""

from typing import NamedTuple

import jax.numpy as jnp

from bandit_lab._barrier import computed_once
from bandit_lab._numerics import add_up, leading_sum
from bandit_lab._types import Array
from bandit_lab.simulate.fast.lanes import as_float, softmax_parts
from bandit_lab.simulate.fast.multinomial import counts, thresholds, words_for_counting
from bandit_lab.simulate.fast.program import Job, Program
from bandit_lab.simulate.fast.words import GENERATORS


class Policy(NamedTuple):
    """A softmax policy of every lane, weights / total. logits, weights: [K, L]. total: [L]."""

    logits: Array
    weights: Array
    total: Array


class Signal(NamedTuple):
    """value: [K, L], (1/G) sum_i 1[a_i = k] A_i w_i. frequency: [K, L] share of the actions. silent: [L] share of
    silent groups."""

    value: Array
    frequency: Array
    silent: Array


def policy_of(job: Job, logits: Array) -> Policy:
    """The policy with these logits [K, L]."""
    return Policy(logits, *softmax_parts(logits))


def expected_reward(job: Job, policy: Policy) -> Array:
    """Expected reported reward [L]; NaN where the logits are not finite (our exp does not pass that on)."""
    return leading_sum(policy.weights * job.setting.means) / policy.total + 0 * policy.logits[0]


def largest_probability(policy: Policy) -> Array:
    """[L] of the most likely arm, whose weight is 1."""
    return 1 / policy.total


def ascent(job: Job, acting: Policy, current: Policy, step: Array) -> tuple[Array, Array]:
    """(ascent direction [K, L], share of silent groups [L]) at one step.

    acting: the policy that draws. current: the policy that is trained. step: names the random words of the batch.
    """
    estimator = job.learner.estimator
    ratio = None if getattr(estimator, "ignores_ratio", False) else _ratio(acting, current)
    signal = (
        mean_signal(job, acting, ratio) if job.program.dynamics == "mean_field" else _batch(job, acting, step, ratio)
    )
    at = acting if estimator.at_snapshot else current
    value, kl_weight = signal.value, job.lanes.kl_weight
    if job.learner.kl_estimator == "exact":
        distance = at.logits - job.setting.reference
        mean = leading_sum(at.weights * distance) / at.total
        penalty = computed_once(kl_weight / at.total) * at.weights * (distance - mean)
        if ratio is None and getattr(job.learner.advantage, "centred", False):
            return value - penalty, signal.silent
        return value - _share(at) * leading_sum(value) - penalty, signal.silent
    log_ratio = job.setting.reference - (at.logits - jnp.max(at.logits, axis=0) - jnp.log(at.total))
    value = computed_once(value - kl_weight * signal.frequency * -jnp.expm1(log_ratio))
    return value - _share(at) * leading_sum(value), signal.silent


def _share(policy: Policy) -> Array:
    return policy.weights * computed_once(1 / policy.total)


def _ratio(acting: Policy, current: Policy) -> Array:
    """pi / pi_old [K, L]. Weights never vanish (see `lanes.exp`), so that nothing is divided by zero."""
    scale = computed_once(acting.total / current.total)
    return computed_once(current.weights * scale / acting.weights)


def mean_signal(job: Job, acting: Policy, ratio: Array | None) -> Signal:
    """The signal of infinite groups: pi_k sum_u P(u | k) A_u w(ratio_k, A_u)."""
    share = computed_once(_share(acting))
    law = (
        share
        if job.program.columns == 1
        else jnp.stack([leading_sum(share * job.setting.chances[:, c : c + 1]) for c in range(job.program.columns)])
    )
    advantage = job.learner.advantage.population(job.setting.values, law)
    if job.program.columns == 1:
        value = share * _weighted(job, advantage, ratio)
    else:
        chances = job.setting.chances
        terms = (chances[:, c : c + 1] * _weighted(job, advantage[c], ratio) for c in range(job.program.columns))
        value = share * add_up(*terms)
    return Signal(value, share, jnp.zeros_like(acting.total))


def _batch(job: Job, acting: Policy, step: Array, ratio: Array | None) -> Signal:
    """The mean over the `prompts` groups of one batch."""
    prompts = job.learner.prompts
    if prompts == 1:
        return sampled_signal(job, group_counts(job, acting, step), ratio)
    total = None
    for prompt in range(prompts):
        part = sampled_signal(job, group_counts(job, acting, step * prompts + prompt), ratio)
        part = Signal(*(computed_once(x) for x in part))
        total = part if total is None else Signal(*(a + b for a, b in zip(total, part, strict=True)))
    assert total is not None
    return Signal(*(x * (1 / prompts) for x in total))


def group_counts(job: Job, acting: Policy, step: Array) -> Array:
    """Counts [K, columns, L] of one group of every lane, as floats."""
    size, (arms, lanes) = job.learner.group_size, acting.weights.shape
    words = computed_once(GENERATORS[job.program.generator].words(job.lanes.keys, step, words_for_counting(size)))
    table = thresholds(acting.weights, acting.total, job.setting.reached, words[-1])
    drawn = counts(table, words[:-1], size)
    return computed_once(as_float(drawn, acting.weights.dtype)).reshape(arms, job.program.columns, lanes)


def silent_groups(program: Program, by_arm: Array, size: int) -> Array:
    """[L] whether all rewards of a group are equal: then, and only then, the squares of the values' counts add to G^2.

    by_arm: [K, columns, L] counts.
    """
    if program.columns > 1:
        squares = add_up(*(leading_sum(by_arm[:, column]) ** 2 for column in range(program.columns)))
    elif len(program.classes) == by_arm.shape[0]:
        squares = leading_sum(by_arm[:, 0] * by_arm[:, 0])
    else:
        squares = add_up(*(computed_once(add_up(*(by_arm[arm, 0] for arm in arms))) ** 2 for arms in program.classes))
    return squares >= size * size


def sampled_signal(job: Job, by_arm: Array, ratio: Array | None) -> Signal:
    """The signal of one group from its counts [K, columns, L]."""
    size, columns = job.learner.group_size, job.program.columns
    silent = silent_groups(job.program, by_arm, size)
    per_value = by_arm[:, 0] if columns == 1 else jnp.stack([leading_sum(by_arm[:, c]) for c in range(columns)])
    advantage = job.learner.advantage.of_counts(job.setting.values, per_value, size, silent)  # type: ignore[attr-defined]
    if columns == 1:
        value = by_arm[:, 0] * _weighted(job, advantage, ratio)
    else:
        value = add_up(*(by_arm[:, c] * _weighted(job, advantage[c], ratio) for c in range(columns)))
    frequency = add_up(*(by_arm[:, c] for c in range(columns))) * (1 / size)
    return Signal(value * (1 / size), frequency, silent.astype(by_arm.dtype))


def _weighted(job: Job, advantage: Array, ratio: Array | None) -> Array:
    return advantage if ratio is None else advantage * job.learner.estimator.weight(ratio, advantage)
