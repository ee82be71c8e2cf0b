"""Correlations in time of the stationary fluctuation, and what they say before a threshold is reached.

Derived here. At block points (`lag`, `random`: at every step) the state obeys s' = M s + noise, so the covariance over
j maps is M^j S, the spectrum (1 - M e^{-iw})^{-1} Q (1 - M e^{-iw})^{-H} with Q = S - M S M^T, both variance and
the correlation time diverge as the largest multiplier approaches the unit circle.
"""

from typing import NamedTuple

import numpy as np

from bandit_lab.theory.block_map import LinearLoop, Matrix
from bandit_lab.theory.stability import spectral_radius
from bandit_lab.theory.stationary import stationary_covariance


class Correlation(NamedTuple):
    """`autocovariance` [J + 1] of one coordinate over maps, `integrated_time` [maps] and `decay_time` [steps]."""

    autocovariance: np.ndarray
    integrated_time: float
    decay_time: float


def correlation(
    loop: LinearLoop,
    learning_rate: float,
    refresh_interval: float,
    noise: Matrix,
    direction: np.ndarray,
    maps: int = 50,
) -> Correlation | None:
    """Autocovariance of direction . x at block points, integrated time 1 + 2 sum rho_j [maps], slowest decay.

    `decay_time` = -N/ln|largest multiplier| [steps]. None where the loop is not stable. `direction` [n] reduced.
    """
    radius, steps = spectral_radius(loop, learning_rate, refresh_interval), loop.steps_per_map(int(refresh_interval))
    decay = -steps / np.log(radius) if 0 < radius < 1 else 0.0
    stationary = stationary_covariance(loop, learning_rate, refresh_interval, noise)
    if stationary.state is None:
        return None
    matrix, state = loop.map(learning_rate, refresh_interval), stationary.state
    probe = np.zeros(state.shape[0])
    probe[: loop.size] = direction
    values, carried = [], state @ probe
    for _ in range(maps + 1):
        values.append(float(probe @ carried))
        carried = matrix @ carried
    whole = np.linalg.solve(np.eye(len(matrix)) - matrix, state @ probe)
    integrated = float(2 * (probe @ whole) / values[0] - 1)
    return Correlation(np.array(values), integrated, decay)


def spectrum(
    loop: LinearLoop,
    learning_rate: float,
    refresh_interval: float,
    noise: Matrix,
    direction: np.ndarray,
    frequencies: np.ndarray,
) -> np.ndarray | None:
    """Power spectral density [F] of direction . x at block points: sum_j c_j e^{-i w j}; mean over w is the variance.

    `frequencies` w [F] in radians per map. None where the loop is not stable.
    """
    stationary = stationary_covariance(loop, learning_rate, refresh_interval, noise)
    if stationary.state is None:
        return None
    matrix, state = loop.map(learning_rate, refresh_interval), stationary.state
    source = state - matrix @ state @ matrix.T
    probe = np.zeros(len(state))
    probe[: loop.size] = direction
    turn = np.exp(-1j * np.asarray(frequencies, float))
    system = np.eye(len(matrix)) - turn[:, None, None] * matrix
    row = np.linalg.solve(np.swapaxes(system, -1, -2), np.broadcast_to(probe[:, None], (len(turn), len(probe), 1)))
    row = row[..., 0]
    return np.einsum("fi,ij,fj->f", row, source, row.conj()).real


def early_warning(
    loop: LinearLoop, critical: float, refresh_interval: float, noise: Matrix, fractions: np.ndarray
) -> np.ndarray:
    """Position variance (trace) [F] at learning rates `fractions` [F] of `critical`, over its small-step value.

    The small-step value is linear in the learning rate; 1 far below threshold, diverging like 1/(1 - fraction) at it.
    Infinite where unstable.
    """
    tiny = 1e-4 * critical
    base = stationary_covariance(loop, tiny, refresh_interval, noise).average
    unit = float(np.trace(base)) / tiny if base is not None else np.nan
    ratios = []
    for fraction in np.asarray(fractions, float):
        covariance = stationary_covariance(loop, fraction * critical, refresh_interval, noise).average
        ratios.append(np.inf if covariance is None else float(np.trace(covariance)) / (unit * fraction * critical))
    return np.array(ratios)
