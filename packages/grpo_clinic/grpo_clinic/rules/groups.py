"""Silent groups: answers that all got the same reward carry no signal.

Observed where it is logged. Else, for 0/1 rewards, p^G + (1-p)^G at the mean p is a lower bound by convexity.
Silence of
a run that solved its task is success.
"""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Floats, Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since, window_of

_SOLVED, _TOP, _CLIMB, _SATURATED = 0.85, 0.95, 0.25, 0.6
"""Share of the scale that is solved; near the top of 0/1 rewards; a climb; where silence may be that of success."""
_READ = "Read ten answers and their rewards: all got the same. Look at the reward function and at the engine."


def _bound_on_silence(success: Floats, group_size: int) -> Floats:
    """p^G + (1-p)^G, the least possible mean share of silent groups at mean success p [n]."""
    p = np.clip(success, 0.0, 1.0)
    return np.asarray(p**group_size + (1 - p) ** group_size)


@register_rule(
    "silent_groups",
    verdict="advantage_degeneracy",
    needs=(),
    limit=0.7,
    errors=2.0,
    unit="share of groups",
    formula="mean of the last fifth, or the bound p^G + (1-p)^G",
    source="arXiv 2606.30789 (four diagnostics)",
    proves="most groups carry no signal, and the task is not solved",
)
def silent_groups(case: Case, rule: Rule) -> Fact | Missing:
    """Share of silent groups over the last fifth of the run, observed or bounded."""
    curve, first = case.curve, case.late
    size = case.group_size or int(curve.settings.get("group_size", 0))
    late = case.reward[curve.step >= first] if case.reward.size else case.reward
    height = (float(late.mean()) - curve.scale.low) / case.span if late.size else -np.inf
    binary = (curve.scale.low, curve.scale.high) == (0, 1)
    start = (
        (float(case.reward[: max(case.reward.size // 10, 3)].mean()) - curve.scale.low) / case.span
        if late.size
        else 0.0
    )
    climbed = height - start > _CLIMB
    top = height > _SOLVED and (curve.scale.given or climbed or (curve.scale.high == 1 and height > _TOP))
    logged, then, note, error = curve.series.get("zero_std_frac"), "", "", 0.0
    observed = logged or _without_spread(case)
    if case.reward.size >= 3 and not np.ptp(case.reward):
        value, series, then = 1.0, curve.reward_series, _READ
        high = np.ones(series.step.size, bool)
        text = f"the reward is {case.reward[0]:g} at every step: all answers got the same"
    elif observed is not None and observed.step[-1] >= first and (logged or _mean(observed, first) >= rule.limit):
        series, value = observed, _mean(observed, first)
        last = observed.value[observed.step >= first]
        error = rule.errors * noise.error_of_mean(last) if logged else 0.0
        width = last.size
        means = np.convolve(observed.value, np.ones(width) / width, mode="same")
        high, text = means >= rule.limit, f"'{observed.key}': {value:.0%} over the last fifth"
    elif size >= 2 and binary and late.size:
        series, bound = curve.reward_series, _bound_on_silence(case.reward, size)
        value, high = float(bound[curve.step >= first].mean()), bound >= rule.limit
        text = f"at least {value:.0%} at this reward and G = {size}"
    elif logged is not None:
        return Missing("zero std frac: not at the end of the run", True)
    else:
        return Missing("zero std frac; a bound needs 0/1 rewards and the group size")
    score = value / rule.limit
    score = min(score, 0.99) if value - error < rule.limit else score
    if top and start > _SOLVED:
        then = "Take harder prompts: nearly every answer is right from the start."
    elif top:
        score, text = min(score, 0.99), f"{text}; the reward is near its top, so silence is success"
    by_success = float(_bound_on_silence(late, size).mean()) if size > 1 and binary and late.size else np.nan
    excess = (value - by_success) / max(1 - by_success, 1e-12)
    if np.isfinite(excess) and logged is not None:
        text += f"; beyond what success alone gives: {max(excess, 0):.0%}"
    if height > _SATURATED and not excess >= rule.limit and (curve.scale.given or binary or climbed):
        note = "saturated, little left to learn"
    return Fact(score, value, since(series, high), int(np.sum(series.step >= first)), text, then, note)


def _mean(series: Series, first: float) -> float:
    return float(series.value[series.step >= first].mean()) if series.step[-1] >= first else 0.0


def _without_spread(case: Case) -> Series | None:
    """1 at every step whose batch had no spread of rewards, else 0: a lower bound on the share of silent groups."""
    series = case.curve.series
    spread, low, high = (series.get(name) for name in ("reward_std", "reward_min", "reward_max"))
    if spread is None and low is not None and high is not None and np.array_equal(low.step, high.step):
        spread = Series(low.step, high.value - low.value, f"{high.key}' - '{low.key}")
    if spread is None:
        return None
    none = np.abs(spread.value) <= 1e-9 * case.span
    return Series(spread.step, none.astype(float), spread.key)


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
def clip_fraction(case: Case, rule: Rule) -> Fact:
    """The clipped share over the last fifth."""
    clip = case.series("clip_frac")
    count = max(clip.value.size // 5, 1)
    value = float(clip.value[-count:].mean())
    text = f"'{clip.key}': {value:.0%} of the ratios are clipped and have no gradient"
    return Fact(value / rule.limit, value, window_of(clip, slice(-count, None)), count, text)
