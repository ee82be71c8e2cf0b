"""K arms in every lane: the ascent direction, sampled or at G = infinity.

The formulas are those of `grpo.policy_gradient`; a sum over the actions of a group is written as a sum over cells. For
the softmax policy grad log pi(k) = e_k - pi, and log pi may be replaced by the logits: a constant changes no term.
"""

from typing import NamedTuple

import jax.numpy as jnp

from bandit_lab._barrier import computed_once
from bandit_lab._numerics import add_up, leading_sum
from bandit_lab._types import Array
from bandit_lab.grpo import Exact
from bandit_lab.simulate.fast.lanes import as_float, softmax_parts
from bandit_lab.simulate.fast.lively import chance_of_silence, lively_counts, value_law, words_for_lively
from bandit_lab.simulate.fast.multinomial import counts, draws_and_dither, thresholds, words_for_counting
from bandit_lab.simulate.fast.program import Job, Program
from bandit_lab.simulate.fast.words import GENERATORS


class Policy(NamedTuple):
    """A softmax policy of every lane, weights / total. logits, weights: [K, L]. total: [L]. reward: [L] expected
    reported reward; NaN where the logits are not finite (our exp does not pass that on)."""

    logits: Array
    weights: Array
    total: Array
    reward: Array


def policy_of(job: Job, logits: Array) -> Policy:
    """The policy with these logits [K, L]."""
    weights, total = softmax_parts(logits)
    reward = computed_once(leading_sum(weights * job.setting.means) / total + 0 * logits[0])
    return Policy(logits, weights, total, reward)


def largest_probability(policy: Policy) -> Array:
    """[L] of the most likely arm, whose weight is 1."""
    return 1 / policy.total


def ascent(job: Job, acting: Policy, current: Policy, step: Array) -> tuple[Array, Array]:
    """(ascent direction [K, L], share of silent groups [L]) at one step.

    acting: the policy that draws. current: the policy that is trained. step: names the random words of the batch.
    """
    estimator = job.learner.estimator
    ratio = None if getattr(estimator, "ignores_ratio", False) else _ratio(acting, current)
    at = acting if estimator.at_snapshot else current
    distance = at.logits - job.setting.reference
    pull = job.lanes.kl_weight / at.total  # of the exact KL: its gradient is weights * (pull * distance - recoil)
    recoil = pull * leading_sum(at.weights * distance) / at.total
    exact_kl = type(job.learner.kl_estimator) is Exact
    if job.program.dynamics == "mean_field" and ratio is None and at is acting and exact_kl:
        slope, offset = _affine(job, acting)
        slope, offset = slope / at.total, recoil - offset / at.total
        return at.weights * (job.setting.trained * slope + offset - pull * distance), jnp.zeros_like(at.total)
    if job.program.dynamics == "mean_field":
        signal, frequency, silent = _infinite(job, acting, ratio)
    else:
        signal, frequency, silent = _batch(job, acting, step, ratio)
    if exact_kl and ratio is None:
        return signal - at.weights * (pull * distance - recoil), silent
    if exact_kl:
        score = leading_sum(signal) / at.total
        return signal - at.weights * (pull * distance + (score - recoil)), silent
    log_ratio = job.setting.reference - (at.logits - jnp.max(at.logits, axis=0) - jnp.log(at.total))
    signal = computed_once(signal - job.lanes.kl_weight * frequency * -jnp.expm1(log_ratio))
    return signal - at.weights * (leading_sum(signal) / at.total), silent


def _ratio(acting: Policy, current: Policy) -> Array:
    """pi / pi_old [K, L]. Weights never vanish (see `lanes.exp`), so that nothing is divided by zero."""
    return current.weights * (acting.total / current.total) / acting.weights


def _affine(job: Job, acting: Policy) -> tuple[Array, Array]:
    """(a, b) [L] of the advantage a r - b in an infinite group."""
    setting, total = job.setting, acting.total
    reported = job.program.reported_is_trained
    mean = acting.reward if reported else leading_sum(acting.weights * setting.trained) / total
    spread = setting.trained - mean
    variance = leading_sum(acting.weights * (spread * spread + setting.variances)) / total
    scale = job.learner.advantage.scale(variance, variance <= 0, None)  # type: ignore[attr-defined]
    return scale, mean * scale


def _infinite(job: Job, acting: Policy, ratio: Array | None) -> tuple[Array, Array, Array]:
    """(signal, policy [K, L], silent [L]): pi_k sum_u P(u | k) A_u w(ratio_k, A_u)."""
    slope, offset = (computed_once(x) for x in _affine(job, acting))
    share = computed_once(acting.weights * (1 / acting.total))
    values, chances = job.setting.values, job.setting.chances
    if job.program.columns == 1:
        value = _weighted(job, values * slope - offset, ratio)
    else:
        advantage = [values[c] * slope - offset for c in range(job.program.columns)]
        value = add_up(*(chances[:, c : c + 1] * _weighted(job, a, ratio) for c, a in enumerate(advantage)))
    return share * value, share, jnp.zeros_like(acting.total)


def _batch(job: Job, acting: Policy, step: Array, ratio: Array | None) -> tuple[Array, Array, Array]:
    """(signal, frequency [K, L], silent [L]): the mean over the `prompts` groups of one batch."""
    prompts, groups = job.learner.prompts, []
    for prompt in range(prompts):
        group = group_signal(job, group_counts(job, acting, step * prompts + prompt), ratio)
        groups.append([computed_once(x) for x in group] if prompts > 1 else group)
    signal, frequency, silent = (add_up(*part) * (1 / prompts) for part in zip(*groups, strict=True))
    if job.learner.advantage.drops_silent:
        law = value_law(job.program, acting.weights, acting.total, job.setting.chances)
        silent = chance_of_silence(law, job.learner.group_size)
    return signal, frequency, silent


def group_counts(job: Job, acting: Policy, step: Array) -> Array:
    """Counts [K, columns, L] of one group of every lane, as floats."""
    size, (arms, lanes) = job.learner.group_size, acting.weights.shape
    generator, reached = GENERATORS[job.program.generator], job.setting.reached
    if job.learner.advantage.drops_silent:
        words = computed_once(generator.words(job.lanes.keys, step, words_for_lively(size)))
        drawn = lively_counts(job.program, acting.weights, acting.total, job.setting.chances, reached, words, size)
        return computed_once(as_float(drawn, acting.weights.dtype)).reshape(arms, job.program.columns, lanes)
    words = computed_once(generator.words(job.lanes.keys, step, words_for_counting(size, generator.dear)))
    draws, dither = draws_and_dither(words, size)
    drawn = counts(thresholds(acting.weights, acting.total, reached, dither), draws, size)
    return computed_once(as_float(drawn, acting.weights.dtype)).reshape(arms, job.program.columns, lanes)


def group_signal(job: Job, by_arm: Array, ratio: Array | None) -> tuple[Array, Array, Array]:
    """(signal, frequency [K, L], silent [L]) of one group from its counts [K, columns, L].

    signal: (1/G) sum_i 1[a_i = k] A_i w_i. frequency: share of the actions that fell on each arm. A group is silent if
    and only if the squares of its values' counts add up to G^2.
    """
    size, values = job.learner.group_size, job.setting.values
    cells = [by_arm[:, column] for column in range(job.program.columns)]
    if len(cells) == 1:
        mean = computed_once(leading_sum(cells[0] * values) * (1 / size))
        spread = [values - mean]
        variance = leading_sum(cells[0] * spread[0] * spread[0]) * (1 / size)
        squares = _squared_counts(job.program, cells[0])
    else:
        totals = [leading_sum(n) for n in cells]
        mean = computed_once(add_up(*(n * r for n, r in zip(totals, values, strict=True))) * (1 / size))
        spread = [r - mean for r in values]
        variance = add_up(*(n * d * d for n, d in zip(totals, spread, strict=True))) * (1 / size)
        squares = add_up(*(n * n for n in totals))
    silent = squares >= size * size
    scale = job.learner.advantage.scale(variance, silent, size)  # type: ignore[attr-defined]
    if ratio is None:
        signal = add_up(*(n * d for n, d in zip(cells, spread, strict=True))) * computed_once(scale * (1 / size))
    else:
        weighted = (n * _weighted(job, d * scale, ratio) for n, d in zip(cells, spread, strict=True))
        signal = add_up(*weighted) * (1 / size)
    return signal, add_up(*cells) * (1 / size), silent.astype(by_arm.dtype)


def _squared_counts(program: Program, counts: Array) -> Array:
    """[L] sum over reward values of their squared counts. counts: [K, L] of arms with fixed rewards."""
    if len(program.classes) == counts.shape[0]:
        return leading_sum(counts * counts)
    return add_up(*(computed_once(add_up(*(counts[arm] for arm in arms))) ** 2 for arms in program.classes))


def _weighted(job: Job, advantage: Array, ratio: Array | None) -> Array:
    return advantage if ratio is None else advantage * job.learner.estimator.weight(ratio, advantage)
