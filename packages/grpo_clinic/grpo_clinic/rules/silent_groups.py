"""Silent groups: answers that all got the same reward carry no signal.

Observed where it is logged. Else, for 0/1 rewards, p^G + (1-p)^G at the mean p is a lower bound by convexity, and 1
where a batch had no spread. Silence of a run that solved its task is success.
"""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Floats, Series
from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, since, tail, where

_SOLVED, _SATURATED = 0.85, 0.6
"""Share of the scale that is solved; where silence may be that of success."""


@register_rule(
    "silent_groups",
    verdict="advantage_degeneracy",
    needs=(),
    limit=0.7,
    unit="share of groups",
    formula="mean of the last fifth, or the bound p^G + (1-p)^G",
    source="arXiv 2606.30789 (four diagnostics)",
    proves="most groups carry no signal, and the task is not solved",
)
def _silent_groups(case: Case, rule: Rule) -> Fact | Missing:
    curve, reward = case.curve, case.reward
    if case.no_group:
        return Fact(1 / rule.limit, 1.0, *where(curve.leading), case.no_group, note="mend the recipe, if it is GRPO")
    size = case.group_size or int(curve.settings.get("group_size", 0))
    binary = size > 1 and reward.size > 0 and (curve.scale.low, curve.scale.high) == (0, 1)
    by_success = np.where(binary, np.clip(reward, 0, 1) ** size + (1 - np.clip(reward, 0, 1)) ** size, 0.0)
    logged = curve.series.get("zero_std_frac")
    bound = np.maximum(by_success, _without_spread(case))
    if logged is None and not (binary or bound.any()):
        return Missing("zero std frac; a bound needs 0/1 rewards and the group size")
    silent = logged or Series(curve.step, bound, "lower bound, by the rewards")
    last = tail(silent.value, 5, 1)
    share = float(last.mean())
    high = np.concatenate((noise.running_means(silent.value, last.size) >= rule.limit, np.ones(last.size - 1, bool)))
    text = f"'{silent.key}': {share:.0%} of the groups of the last fifth"
    fact = Fact(share / rule.limit, share, since(silent, high), last.size, text)
    if not reward.size:
        return fact
    start, height = case.height(reward[: max(reward.size // 10, 3)]), case.height(tail(reward, 5, 1))
    if height > _SOLVED and case.sure_of_its_scale(start, height):
        return fact.unless(True, "; the reward is near its top, so silence is success")
    success = float(tail(by_success, 5, 1).mean())
    beyond = binary and share - success >= rule.limit * (1 - success)
    sure = binary or case.sure_of_its_scale(start, height)
    return fact._replace(note="saturated, little left to learn" if height > _SATURATED and sure and not beyond else "")


def _without_spread(case: Case) -> Floats:
    """1 at every reward [n] whose batch had no spread of rewards, or where the reward never moves; else 0."""
    spread, low, high = (case.curve.column(name) for name in ("reward_std", "reward_min", "reward_max"))
    if spread is None and low is not None and high is not None:
        spread = high - low
    still = case.reward.size >= 3 and not np.ptp(case.reward)
    return np.ones(case.reward.size) * (still if spread is None else np.abs(spread) <= 1e-9 * case.span)
