"""The answers: cut off at the limit, a small part or a multiple of their length, clipped in the update, too old."""

import math

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since, tail, where


@register_rule(
    "truncated",
    verdict="truncated_answers",
    needs=("truncation",),
    limit=0.9,
    unit="share of answers",
    formula="mean of the last fifth, three rows or all of them at 1",
    source="limit chosen on simulated runs",
    proves="what the reward looks for is cut off",
)
def _truncated(case: Case, rule: Rule) -> Fact | None:
    """A note where the reward was gained all the same."""
    cut = case.series("truncation")
    late = cut.step >= case.late
    count = int(late.sum())
    if count < (1 if np.all(cut.value >= 1) else 3):
        return None
    share = float(cut.value[late].mean())
    still = any(one.value.size >= 8 and not np.ptp(one.value) for one in case.curve.parts.values())
    gained = case.reward.size >= 10 and case.gain.best[1] > case.least_gain * case.room and not still
    text = f"'{cut.key}': {share:.0%} of the answers of the last fifth were cut off"
    window = since(cut, cut.value >= rule.limit, count)
    note = "the reward was gained all the same" if gained else ""
    return Fact(share / rule.limit, share, window, count, text, note=note)


@register_rule(
    "other_length",
    verdict="answer_length",
    needs=("length",),
    rows=8,
    limit=4.0,
    unit="times as long, or as short",
    formula="median(last tenth) / median(first three)",
    source="healthy public runs end at .6 to 3 times their length",
    proves="the answers have another length",
)
def _other_length(case: Case, rule: Rule) -> Fact | None:
    length, limit = case.series("length"), math.log(rule.limit)
    if not np.all(length.value > 0):
        return None
    last = tail(length.value)
    early, late = median(length.value[:3]), median(last)
    window = since(length, np.abs(np.log(length.value / early)) >= limit)
    text = f"'{length.key}' went from {early:.4g} to {late:.4g} tokens"
    return Fact(abs(math.log(late / early)) / limit, late / early, window, last.size, text)


@register_rule(
    "clip_fraction",
    verdict="clipped",
    needs=("clip_frac",),
    rows=3,
    limit=0.4,
    unit="share of tokens or answers",
    formula="mean of the last fifth",
    source="what is clipped has no gradient",
    proves="two answers of five have no gradient",
)
def _clip_fraction(case: Case, rule: Rule) -> Fact:
    clip = case.series("clip_frac")
    last = tail(clip.value, 5, 1)
    share = float(last.mean())
    text = f"'{clip.key}': {share:.0%} of the ratios are clipped and have no gradient"
    return Fact(share / rule.limit, share, *where(clip, slice(-last.size, None)), text)


@register_rule(
    "beyond_bound",
    verdict="stale_answers",
    needs=("age|age_max",),
    limit=1.0,
    unit="times the recipe's largest age",
    formula="largest logged age / the recipe's bound",
    source="the recipe",
    proves="answers are older than the recipe allows",
)
def _beyond_bound(case: Case, rule: Rule) -> Fact | Missing:
    if case.age_bound is None:
        return Missing("the recipe's bound on ages (config)", True)
    age = case.series("age_max" if "age_max" in case.curve.series else "age")
    at, over = int(age.value.argmax()), int(np.sum(age.value > case.age_bound))
    largest, (window, _) = float(age.value[at]), where(age, slice(at, at + 1))
    allowed = f"{case.age_source} allows {case.age_bound:g}"
    text = f"'{age.key}' reached {largest:g} updates at step {age.step[at]:g}; {allowed}"
    times = largest / max(case.age_bound, 1e-9)
    fact = Fact(times, times, window, max(over, 1), text)
    return fact.unless(not over)


def stable_up_to(mean: float, largest: float) -> tuple[float, float]:
    """Largest learning rate times stiffness that is stable without momentum: at this mean age, at this largest age.

    By the mean age a: min(2, 1/a), where the damping 1/eta - K a of the oscillator changes its sign (`law`). By the
    largest age L, as if all were so old: 2 sin(pi/(4 L + 2)), exact for a constant lag.

    Example:
      >>> [round(one, 3) for one in stable_up_to(1.0, 2.0)]
      [1.0, 0.618]
    """
    return min(2.0, 1 / mean if mean > 0 else 2.0), 2 * float(np.sin(np.pi / (4 * largest + 2)))
