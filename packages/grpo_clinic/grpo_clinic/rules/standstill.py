"""A reward that stands where there is room left."""

import numpy as np

from grpo_clinic.rules.base import Case, Fact, Missing, Rule, register_rule, where

_YOUNG = 100
"""Rewards of a standstill: cut off at fewer, healthy runs are called stalled."""
_SLOW, _NEAR_TOP = 0.05, 0.85
"""Of the room above the first rewards: a gain that is too slow. Of the scale: where little is left to learn."""


@register_rule(
    "standstill",
    verdict="stalled",
    needs=("reward",),
    rows=10,
    limit=2.0,
    unit="errors of the gain",
    formula="gain from the beginning to the last fifth <= 2 errors, and gain + error < .2 of the room",
    source=f"below {_YOUNG} rewards healthy runs of more than one public repository in twenty would be called stalled",
    proves="the reward gained nothing that shows where there was room",
)
def _standstill(case: Case, rule: Rule) -> Fact | Missing:
    """Or all but a twentieth of the room is left. A larger gain must not hide in the error."""
    reward, gain, part = case.reward, case.gain, case.reward.size // 5
    start, height = float(reward[: gain.start].mean()), case.height(reward[-part:])
    room, flat = max(case.curve.scale.high - start, 1e-12), not np.ptp(reward) > 1e-9 * np.abs(reward).max()
    reach = room if (case.curve.scale.low, case.curve.scale.high) == (0, 1) or case.curve.scale.given else 0.0
    excused = not flat and (gain.falls or height > _NEAR_TOP)
    if not flat and not excused and not gain.shows and gain.change + gain.error > case.least_gain * room:
        return Missing(f"reward: a gain of {case.least_gain:.0%} of the room would be lost in its noise", True)
    slow = _SLOW * reach / (gain.change + gain.error) if gain.shows else 0.0
    score = 2.0 if flat else min(max(rule.limit * gain.error / max(gain.change, 1e-300), slow), 2.0)
    text = f"{gain.change:+.2g} above the first {gain.start} rewards, error {gain.error:.2g}; {room:.2g} was left"
    text = f"the reward is {reward[0]:g} throughout" if flat else text
    few = reward.size < _YOUNG and not flat
    note = f"no gain in {reward.size} rewards, which healthy runs may need as well" if few else ""
    then = "The learning rate is logged as 0: with it nothing is learned." if case.at_rate_zero else ""
    errors = gain.change / max(gain.error, 1e-9 * case.span)
    return Fact(score, errors, where(case.curve.reward_series)[0], part, text, then, note).unless(excused)
