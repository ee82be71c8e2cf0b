"""A guard at the trainer: the learning rate is held below a share of the edge that the probe has found."""

import math
from collections.abc import Callable
from typing import Any

from grpo_clinic._checks import require

from grpo_probe.probe_margin import Margin


def hold_at(share: float = 0.8) -> Callable[[Any, Margin], str | None]:
    """For `TrlProbe(..., on_margin=hold_at(0.8))`: at most this share of the largest stable learning rate.

    After a measurement the whole schedule is scaled: down to `share` of the edge where it is above, and up again, never
    beyond what was asked for, where the edge has moved away. The edge is that of K itself, without its error. A
    checkpoint keeps the scale, for it is in the optimiser's and the scheduler's state.

    Raises ValueError for a share that is not above 0 and at most 1, and inside a step for a scheduler without
    `base_lrs` (ReduceLROnPlateau).
    """
    require(0 < share <= 1, "share", "a number above 0, at most 1", share)

    def hold(trainer: Any, margin: Margin) -> str | None:
        if margin.verdict == "no signal":
            return None
        groups, scheduler = trainer.optimizer.param_groups, trainer.lr_scheduler
        plain = getattr(scheduler, "scheduler", scheduler)  # accelerate's wrapper
        has_base_lrs = hasattr(plain, "base_lrs")
        require(has_base_lrs, "lr_scheduler_type", "one with base_lrs", type(plain).__name__)
        before = plain.base_lrs[0] / groups[0]["initial_lr"]
        after = min(1.0, share * before / margin.used) if margin.used > 0 else 1.0
        for place, group in enumerate(groups):
            group["lr"] *= after / before
            plain.base_lrs[place] = after * group["initial_lr"]
        if math.isclose(after, before):  # the edge is found to rounding
            return None
        return f"learning rate cut to {groups[0]['lr']:.3g}, {after:.0%} of the schedule's, for {share:.0%} of the edge"

    return hold
