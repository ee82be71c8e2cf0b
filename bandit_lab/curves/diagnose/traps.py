"""Traps of configuration and of metric names, told from the log and the settings that are known; idle runs."""

import numpy as np

from bandit_lab.curves.diagnose.swings import noise_level
from bandit_lab.curves.record import Curve

_HIGH = 0.85
"""Share of the reward's scale above which there is little left to learn."""


def traps(curve: Curve, group_size: int | None = None, refresh_interval: float | None = None) -> tuple[str, ...]:
    """One sentence per trap found; empty if none."""
    found = []
    size = group_size or int(curve.settings.get("group_size", 0))
    if size == 1:
        found.append(
            "group size 1: there is no group baseline; verl with adv_estimator=grpo takes the raw reward as advantage"
        )
    clip = curve.series.get("clip_frac")
    interval = refresh_interval or curve.settings.get("refresh_interval")
    if clip is not None and not np.any(clip.value):
        if interval == 1:
            found.append(
                "the clipped fraction is zero by construction: the refresh interval is 1, so the ratio is always 1"
            )
        elif interval is None:
            found.append(
                "the clipped fraction is always zero, as it must be if the refresh interval is 1 (no fault then)"
            )
    spread = curve.series.get("reward_std")
    if spread is not None and spread.framework == "TRL":
        found.append(
            "TRL's reward_std is the mean within-group std up to v0.24 and the std of the whole batch from v1.0"
        )
    if curve.step_unit == "unknown":
        found.append("the log does not tell whether a step is an optimiser step or a rollout cycle")
    return tuple(found)


def idle(curve: Curve) -> str:
    """That the reward shows nothing learned, or nothing.

    The reward of the last fifth is set against that of the first. The error is that of white noise, the smaller of
    its level from point to point and within the fifths, doubled, since rewards are more alike than that.
    """
    part = curve.reward.size // 5
    if part < 4:
        return ""
    first, last = curve.reward[:part], curve.reward[-part:]
    noise = min(noise_level(curve.reward), float(np.sqrt(0.5 * (first.var(ddof=1) + last.var(ddof=1)))))
    change, error = float(last.mean() - first.mean()), 2 * noise * float(np.sqrt(2 / part))
    height = (last.mean() - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    if abs(change) > 2 * error or height > _HIGH:
        return ""
    return f"nothing was learned that shows in the reward: {change:+.2g} from first to last fifth, error {error:.2g}"
