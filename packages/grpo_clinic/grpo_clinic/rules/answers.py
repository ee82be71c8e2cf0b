"""The answers' length: cut off at the limit, or a small part or a multiple of what it was."""

import math

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.rules.base import Case, Fact, Rule, register_rule, since, tail


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
def truncated(case: Case, rule: Rule) -> Fact | None:
    """Share of truncated answers over the last fifth; a note where the reward was gained all the same."""
    cut = case.series("truncation")
    late = cut.step >= case.late
    if late.sum() < (1 if np.all(cut.value >= 1) else 3):
        return None
    share = float(cut.value[late].mean())
    still = [key for key, one in case.curve.parts.items() if one.value.size >= 8 and not np.ptp(one.value)]
    gained = case.reward.size >= 10 and case.gain.shows and not still
    text = f"'{cut.key}': {share:.0%} of the answers of the last fifth were cut off"
    note = "the reward was gained all the same" if gained else ""
    return Fact(
        share / rule.limit,
        share,
        since(cut, cut.value >= rule.limit, int(late.sum())),
        int(late.sum()),
        text,
        note=note,
    )


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
def other_length(case: Case, rule: Rule) -> Fact | None:
    """The length at the end beside that of the beginning."""
    length = case.series("length")
    if not np.all(length.value > 0):
        return None
    early, late = median(length.value[:3]), median(tail(length.value))
    far = np.abs(np.log(length.value / early)) >= math.log(rule.limit)
    score, count = abs(math.log(late / early)) / math.log(rule.limit), tail(length.value).size
    text = f"'{length.key}' went from {early:.4g} to {late:.4g} tokens"
    return Fact(score, late / early, since(length, far), count, text)
