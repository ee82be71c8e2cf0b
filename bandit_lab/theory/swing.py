"""How long a cycle of the dominant mode takes: its phase followed through the steps of a block.

The multiplier of a block of N steps tells the phase only up to whole turns: a mode that the fresh part of the stiffness
swings every few steps comes out of a long block with any phase. So the mode itself is run through one block, and the
angles between successive positions are summed; the multiplier then gives the phase to all digits. Derived here.
"""

import math

import numpy as np

from bandit_lab.theory import long_lag
from bandit_lab.theory.block_map import LinearLoop, Matrix
from bandit_lab.theory.stability import multipliers

_NO_TURN = 1e-12


def period(loop: LinearLoop, learning_rate: float, refresh_interval: float) -> float | None:
    """Steps per cycle of the dominant mode, 2 where it changes sign at every step; None where it does not swing.

    Raises ValueError for a bad interval.
    """
    steps = loop.steps_per_map(int(refresh_interval))
    if steps == 1 or long_lag.is_long(loop, refresh_interval):
        turned = abs(float(np.angle(multipliers(loop, learning_rate, refresh_interval)[0])))
    else:
        turned = abs(_turned(loop, learning_rate, steps))
    return None if turned < _NO_TURN else 2 * math.pi / turned * steps


def _turned(loop: LinearLoop, learning_rate: float, steps: int) -> float:
    """Radians that the dominant mode turns through in one block, whole turns included."""
    matrix = loop.map(learning_rate, steps)
    if not np.isfinite(matrix).all():
        return 0.0
    values, vectors = np.linalg.eig(matrix)
    place = int(np.argmax(np.abs(values)))
    exact, n = float(np.angle(values[place])), loop.size
    mode = vectors[:, place].astype(complex)
    one, force = loop.step(learning_rate)
    state, rollout = mode[: 2 * n], mode[:n] if loop.model == "refresh" else mode[2 * n :]
    counted = 0.0
    for _ in range(steps):
        moved = one @ state + force @ rollout
        counted += float(np.angle(np.vdot(state[:n], moved[:n])))
        state, rollout = _scaled(moved, rollout)
    return exact + 2 * math.pi * round((counted - exact) / (2 * math.pi))


def _scaled(state: Matrix, rollout: Matrix) -> tuple[Matrix, Matrix]:
    size = max(float(np.abs(state).max()), float(np.abs(rollout).max()))
    return state / size, rollout / size
