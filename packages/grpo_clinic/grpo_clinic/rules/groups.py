"""Silent groups: answers that all got the same reward carry no signal.

Observed where it is logged. Else, for 0/1 rewards, p^G + (1-p)^G at the mean p is a lower bound by convexity.
Silence of a run that solved its task is success.
"""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since

_SOLVED, _CLIMB, _SATURATED = 0.85, 0.25, 0.6
"""Share of the scale that is solved; a climb; where silence may be that of success."""
_READ = "Read ten answers and their rewards: all got the same. Look at the reward function and at the engine."


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
def _silent_groups(case: Case, rule: Rule) -> Fact | Missing:
    curve, reward, first = case.curve, case.reward, case.late
    size = case.group_size or int(curve.settings.get("group_size", 0))
    binary = (curve.scale.low, curve.scale.high) == (0, 1)
    bound = np.asarray(np.clip(reward, 0, 1) ** size + (1 - np.clip(reward, 0, 1)) ** size)
    logged, then, error = curve.series.get("zero_std_frac"), "", 0.0
    observed = logged or _without_spread(case)
    last = np.zeros(0) if observed is None else observed.value[observed.step >= first]
    if reward.size >= 3 and not np.ptp(reward):
        value, series, then = 1.0, curve.reward_series, _READ
        high, text = np.ones(reward.size, bool), f"the reward is {reward[0]:g} at every step: all answers got the same"
    elif observed is not None and last.size and (logged or last.mean() >= rule.limit):
        value, series = float(last.mean()), observed
        means = noise.running_means(observed.value, last.size)
        high = np.concatenate((means >= rule.limit, np.ones(last.size - 1, bool)))
        text = f"'{observed.key}': {value:.0%} over the last fifth"
        error = rule.errors * noise.error_of_mean(last) if logged else 0.0
    elif size >= 2 and binary and reward.size:
        value, series, high = float(bound[curve.step >= first].mean()), curve.reward_series, bound >= rule.limit
        text = f"at least {value:.0%} at this reward and G = {size}"
    elif logged is not None:
        return Missing("zero std frac: not at the end of the run", True)
    else:
        return Missing("zero std frac; a bound needs 0/1 rewards and the group size")
    fact = Fact(value / rule.limit, value, since(series, high), int(np.sum(series.step >= first)), text, then)
    fact = fact.unless(value - error < rule.limit)
    if not reward.size:
        return fact
    late = curve.step >= first
    start, height = case.height(reward[: max(reward.size // 10, 3)]), case.height(reward[late])
    climbed = height - start > _CLIMB
    if height > _SOLVED and case.sure_of_its_scale(start, height):
        if start > _SOLVED:
            fact = fact._replace(then="Take harder prompts: nearly every answer is right from the start.")
        else:
            fact = fact.unless(True, "; the reward is near its top, so silence is success")
    excess = np.nan
    if size > 1 and binary:
        by_success = float(bound[late].mean())
        excess = (value - by_success) / max(1 - by_success, 1e-12)
    if np.isfinite(excess) and logged is not None:
        fact = fact._replace(text=f"{fact.text}; beyond what success alone gives: {max(excess, 0):.0%}")
    if height > _SATURATED and not excess >= rule.limit and (curve.scale.given or binary or climbed):
        fact = fact._replace(note="saturated, little left to learn")
    return fact


def _without_spread(case: Case) -> Series | None:
    """1 at every step whose batch had no spread of rewards, else 0: a lower bound on the share of silent groups."""
    spread, low, high = (case.curve.series.get(name) for name in ("reward_std", "reward_min", "reward_max"))
    if spread is None and low is not None and high is not None and np.array_equal(low.step, high.step):
        spread = Series(low.step, high.value - low.value, f"{high.key}' - '{low.key}")
    if spread is None:
        return None
    return Series(spread.step, (np.abs(spread.value) <= 1e-9 * case.span).astype(float), spread.key)
