"""Which series moved first when the reward fell."""

from dataclasses import dataclass

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import SIGMA_OF_MAD, Curve, Series

_FEWEST, _TIMES, _RUNNING = 8, 6.0, 2
"""Rows of the usual level; its spreads from which a row is beyond it; rows running that count."""
_LEFT_OUT = ("lr", "reward_min", "reward_max", "reward_std")
ENGINE = ("engine_kl", "engine_k1", "engine_abs", "importance_ratio", "ess")


@dataclass(frozen=True)
class Move:
    """A series that left its usual range at `step`, as `times` its usual spread."""

    role: str
    key: str
    step: float
    times: float


def moves(curve: Curve, onset: float) -> list[Move]:
    """The series that left their range from shortly before `onset` on, the first one first.

    The usual level is the median of the rows before half of the time to the onset, its spread their median deviation.
    """
    begin = float(curve.leading.step[0])
    half = begin + 0.5 * (onset - begin)
    moved = [
        move
        for role, series in curve.series.items()
        if role not in _LEFT_OUT and (move := _move(role, series, half)) is not None
    ]
    return sorted(moved, key=lambda one: one.step)


def _move(role: str, series: Series, half: float) -> Move | None:
    before = series.value[series.step <= half]
    if before.size < _FEWEST:
        return None
    level = median(before)
    spread = max(SIGMA_OF_MAD * median(np.abs(before - level)), 0.01 * abs(level), 1e-12)
    far = np.abs(series.value - level) / spread
    beyond = (far > _TIMES) & (series.step > half)
    both = np.flatnonzero(beyond[:-1] & beyond[1:]) if _RUNNING > 1 else np.flatnonzero(beyond)
    return None if not both.size else Move(role, series.key, float(series.step[both[0]]), float(far[both[0]]))
