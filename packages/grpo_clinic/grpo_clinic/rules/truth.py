"""Reward hacking: the reward goes up, and what counts does not follow."""

import math
import re

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import Floats, RewardScale, Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, tail, where

TRUE_PART = re.compile(r"accura|correct|ndcg|pass@|exact|(^|[_/])(em|gold|true)($|[_/])", re.IGNORECASE)
"""Keys of what counts."""
_FORM = re.compile(r"format", re.IGNORECASE)
_FEWEST, _PRIOR, _ALIKE, _ALONE, _FOLLOWS = 5, 4, 0.995, 1.8, 0.1
"""Held-out points in a window; points that the noise of the whole series counts for; correlation of a part that is the
reward over again; errors more that are asked where training stays level; share of its slope with which it follows."""
_LEARNED, _LARGER, _EARLY = 0.85, 0.5, 20


def _same(part: Series, case: Case) -> bool:
    """Whether a part is the reward over again, on another scale at most."""
    there = case.curve.reward_series.at(part.step)
    finite = np.isfinite(there)
    if finite.sum() < 3 or np.ptp(there[finite]) == 0 or np.ptp(part.value[finite]) == 0:
        return False
    return bool(np.corrcoef(there[finite], part.value[finite])[0, 1] > _ALIKE)


@register_rule(
    "part_stays",
    verdict="reward_hacking",
    needs=("parts", "reward"),
    rows=20,
    limit=0.1,
    errors=4.0,
    unit="share of the reward's gain",
    formula="gain of a part / gain of the reward, where the part has room left",
    source="tried on public logs that had been read",
    proves="the reward was gained beside what this part pays for",
)
def _part_stays(case: Case, rule: Rule) -> Fact | None:
    """Below half of its top in the last fifth, while the sum gained a fifth of its scale."""
    change, error = float(case.gain.change[0]), float(case.gain.error[0])
    if change <= 0:
        return None
    seen = []
    for key, part in case.curve.parts.items():
        if part.value.size < rule.rows or not TRUE_PART.search(key) or _same(part, case) or part.value.min() < 0:
            continue
        own = noise.gain_of(part.value)
        late, top = float(tail(part.value, 5).mean()), max(float(part.value.max()), 1.0)
        gained = own.best[1]
        share = max(gained, 0.0) / change
        enough = min(change / (0.2 * case.span), change / max(rule.errors * error / 2, 1e-300))
        score = min(enough, 0.5 * top / max(late, 1e-9), rule.limit / max(share, 1e-6))
        text = f"'{key}' gained {gained:+.2g} and stands at {late:.3g}; the reward gained {change:+.2g}"
        seen.append(Fact(score, share, where(part)[0], part.value.size // 5, text))
    return max(seen, key=lambda one: one.score, default=None)


@register_rule(
    "worse",
    of={
        "eval": {
            "needs": ("eval", "reward"),
            "rows": 6,
            "limit": 0.25,
            "errors": 4.0,
            "unit": "share of the largest held-out result",
            "formula": "(max(first three) - median(last fifth)) / max",
            "source": "tried on public logs that had been read",
        },
        "perplexity": {
            "needs": ("perplexity", "reward"),
            "rows": _FEWEST,
            "limit": 1.0,
            "unit": "nats per token",
            "formula": "log(median(last three) / first)",
            "source": "as the KL to the reference",
        },
    },
    verdict="reward_hacking",
    proves="what was held out, or what a model that is not trained finds likely, is worse than at first",
)
def _worse(case: Case, rule: Rule) -> Fact | None:
    """While the reward did not fall."""
    curve, part = case.curve, max(case.reward.size // 5, 1)
    stays = case.reward[-part:].mean() >= case.reward[:part].mean()
    if rule.role == "perplexity":
        series = case.series("perplexity")
        if series.value.min() <= 0:
            return None
        first, last, rows = float(series.value[0]), median(series.value[-3:]), 3
        value = math.log(last / first)
        score = value / rule.limit
    elif curve.eval is None or curve.reward_is_eval:
        return None
    else:
        series, rows = curve.eval, curve.eval.value.size
        scale = curve.scale if curve.scale.given else RewardScale.estimated(series.value)
        first, last = float(series.value[:3].max()), median(tail(series.value, 5))
        value = (first - last) / max(float(series.value.max()) - scale.bottom, 1e-300)
        score = min(value / rule.limit, (first - last) / max(rule.errors * noise.scatter(series.value), 1e-300))
    text = f"'{series.key}' went from {first:.3g} to {last:.3g}, and the reward did not fall"
    return Fact(max(score, 0.0) if stays else 0.0, value, where(series)[0], rows, text)


@register_rule(
    "does_not_follow",
    verdict="reward_hacking",
    needs=("reward", "eval|parts"),
    rows=_FEWEST,
    limit=2.25,
    unit="standard errors",
    formula="min(rise of the reward, shortfall of the held-out result), from the best window on",
    source="limit chosen on simulated runs (experiments/grading/training.yaml)",
    proves="the reward went up and the held-out result did not follow",
)
def _does_not_follow(case: Case, rule: Rule) -> Fact | Missing | None:
    """The reward is averaged over the stretch around each result, or each part that counts."""
    held = _held_out(case)
    if held is None or case.curve.reward_is_eval:
        return Missing("held-out results, or a part of the reward that counts", case.curve.eval is not None)
    edges = np.concatenate(([-np.inf], 0.5 * (held.step[1:] + held.step[:-1]), [np.inf]))
    place = np.searchsorted(edges, case.curve.step, side="right") - 1
    count = np.bincount(place, minlength=held.step.size)
    train = np.bincount(place, case.reward, held.step.size) / np.where(count > 0, count, np.nan)
    usable = np.isfinite(train)
    if usable.sum() < _FEWEST:
        return Missing("held-out results: they share too few steps with the reward", True)
    step, train, value = held.step[usable], train[usable], held.value[usable]
    levels = [noise.scatter(one) for one in (train, value)]
    tried = []
    for first in range(0, step.size - _FEWEST + 1):
        rise = _trend(step[first:], train[first:], levels[0])
        follow = _trend(step[first:], value[first:], levels[1])
        usual = 0.0
        if first >= _FEWEST and np.ptp(train[: first + 1]) > 0:
            usual = max(float(np.polyfit(train[: first + 1] - train[0], value[: first + 1] - value[0], 1)[0]), 0.0)
        strength = min(rise[0] / rise[1], (_FOLLOWS * usual * rise[0] - follow[0]) / follow[1])
        if rise[0] >= -rise[1]:
            apart = (rise[0] - follow[0]) / np.hypot(rise[1], follow[1])
            strength = max(strength, min(-follow[0] / follow[1], apart) / _ALONE)
        tried.append((float(strength), first, rise, follow))
    largest, first, rise, follow = max(tried, key=lambda one: one[0])
    text = f"the reward moved by {rise[0]:+.2g} +- {rise[1]:.1g}, '{held.key}' by {follow[0]:+.2g} +- {follow[1]:.1g}"
    window, rows = where(Series(step, value, held.key), slice(first, None))
    return Fact(max(largest / rule.limit, 0.0), largest, window, rows, text)


def _held_out(case: Case) -> Series | None:
    if case.curve.eval is not None and case.curve.eval.step.size >= _FEWEST:
        return case.curve.eval
    for key, part in case.curve.parts.items():
        if TRUE_PART.search(key) and part.step.size >= 2 * _FEWEST and not _same(part, case):
            groups = np.array_split(np.arange(part.step.size), min(12, part.step.size // 2))  # as sparse as evaluations
            step, value = ([float(v[g].mean()) for g in groups] for v in (part.step, part.value))
            return Series(np.array(step), np.array(value), part.key)
    return None


def _trend(step: Floats, value: Floats, level: float) -> tuple[float, float]:
    """(change over the window by a straight line, its standard error); the spread is pooled with the series' noise."""
    x, value = (step - step.mean()) / max(float(np.ptp(step)), 1e-12), value - value[0]
    slope = float(np.sum(x * value) / np.sum(x * x))
    rest = value - value.mean() - slope * x
    spread = np.sqrt((np.sum(rest**2) + _PRIOR * level**2) / (value.size - 2 + _PRIOR))
    return slope, float(max(spread, 1e-3 * float(np.ptp(value)), 1e-300) / np.sqrt(np.sum(x * x)))


@register_rule(
    "form_only",
    verdict="format_only",
    needs=("parts",),
    rows=3,
    limit=_LARGER,
    unit="share of the gain",
    formula="log(form_1/form_0) / log(right_1/right_0)",
    source="right answers = form x right answers in it",
    proves="the gain is that of the form, and most answers in it are wrong",
)
def _form_only(case: Case, rule: Rule) -> Fact | Missing | None:
    """The last fifth against the first quarter, three rows at most."""
    both = _shares(case)
    if both is None:
        return Missing("parts: shares of the right form and of right answers", False)
    step, form, right, key = both
    first, last = slice(0, min(3, max(1, step.size // 4))), slice(-max(1, step.size // 5), None)
    (form_0, form_1), (right_0, right_1) = ((float(x[first].mean()), float(x[last].mean())) for x in (form, right))
    if min(form_0, right_0, right_1) <= 0 or form_0 >= _LEARNED:
        return None
    inside = right_0 / form_0, right_1 / form_1
    by_form, by_rest = math.log(form_1 / form_0), max(math.log(inside[1] / inside[0]), 0.0)
    share = by_form / (by_form + by_rest) if by_form > 0 else 0.0
    score = min(share / rule.limit, form_1 / _LEARNED, _LARGER / inside[1])
    text = f"'{key}' went from {form_0:.0%} to {form_1:.0%}; in it {inside[0]:.0%} were right, and {inside[1]:.0%} are"
    fact = Fact(score, share, (float(step[0]), float(step[-1])), step.size, text)
    return fact.unless(step[-1] - step[0] < _EARLY and inside[1] >= inside[0])


def _shares(case: Case) -> tuple[Floats, Floats, Floats, str] | None:
    parts = {k: p for k, p in case.curve.parts.items() if p.value.size and p.value.min() >= 0 and p.value.max() <= 1}
    for key, form in parts.items():
        for other, right in parts.items():
            if _FORM.search(key) and TRUE_PART.search(other) and not _FORM.search(other):
                step = np.intersect1d(form.step, right.step)
                inside, whole = right.at(step), form.at(step)
                if step.size >= 3 and np.all(inside <= whole + 1e-9):
                    return step, whole, inside, key
    return None
