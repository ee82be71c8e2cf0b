"""Which series moved first when the reward fell."""

from typing import NamedTuple

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Curve

_FEWEST, _TIMES = 8, 6.0
"""Rows of the usual level; its spreads from which a row is beyond it: two rows running count."""
_LEFT_OUT = ("lr", "reward_min", "reward_max", "reward_std")
ENGINE = ("engine_kl", "engine_k1", "engine_abs", "importance_ratio", "ess")


class Move(NamedTuple):
    """A series that left its usual range at `step`, as `times` its usual spread."""

    role: str
    key: str
    step: float
    times: float


def known_to(curve: Curve, onset: float) -> float:
    """The step up to which the reward may have begun to fall: half of the running mean behind the onset."""
    behind = noise.smoothed_over(curve.step.size) // 2
    return float(curve.step[min(int(np.searchsorted(curve.step, onset)) + behind, curve.step.size - 1)])


def moves(curve: Curve, onset: float) -> list[Move]:
    """The series that left their range from half of the time to the `onset` on, the first one first.

    The usual level is the median of the rows before that half, its spread their median deviation.
    """
    begin, moved = float(curve.leading.step[0]), []
    half = begin + 0.5 * (onset - begin)
    for role, series in curve.series.items():
        before = series.value[series.step <= half]
        if role in _LEFT_OUT or before.size < _FEWEST:
            continue
        level, spread = noise.usual(before)
        far = np.abs(series.value - level) / spread
        beyond = (far > _TIMES) & (series.step > half)
        if (both := np.flatnonzero(beyond[:-1] & beyond[1:])).size:
            moved.append(Move(role, series.key, float(series.step[both[0]]), float(far[both[0]])))
    return sorted(moved, key=lambda one: one.step)
