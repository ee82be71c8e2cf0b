"""Traps of configuration and of metric names, told from the log and the settings that are known."""

import numpy as np

from bandit_lab.curves.record import Curve


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
