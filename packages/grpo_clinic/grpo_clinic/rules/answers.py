"""The answers: cut off at the limit, clipped in the update, too old."""

import numpy as np

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
def _truncated(case: Case, rule: Rule) -> Fact:
    """A note where the reward was gained all the same."""
    cut = case.series("truncation")
    last = tail(cut.value, 5)
    share = float(last.mean())
    gained = case.reward.size >= 10 and case.gain.best[1] > case.least_gain * case.room
    text = f"'{cut.key}': {share:.0%} of the answers of the last fifth were cut off"
    note = "the reward was gained all the same" if gained else ""
    fact = Fact(share / rule.limit, share, since(cut, cut.value >= rule.limit, last.size), last.size, text, note=note)
    return fact.unless(last.size < 3 and bool(last.min() < 1))


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
