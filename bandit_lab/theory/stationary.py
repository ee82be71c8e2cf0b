"""Stationary fluctuation of a linear loop under gradient noise: exact discrete Lyapunov equation, optimiser included.

Derived here. With fresh samples at every step the noise enters through b = `LinearLoop.noise_input` each step; with one
batch reused for a whole block the same draw enters N times, sum_j T^j b. The state covariance at block points obeys
S = M S M^T + Q. It is summed by doubling, S = Q + M Q M^T + ..., which keeps it positive and needs no inverse. Between
block points it is propagated step by step. `average` is the mean over the N phases of a block: the variance in a record
of every step.

Closed forms for one stiffness, kappa = eta K, gradient variance s^2 (heavy ball; derived here):

    on-policy        eta^2 s^2 (1+mu)/(kappa (1-mu)(2(1+mu) - kappa)),   small steps eta s^2/(2 K (1-mu))
    refresh, reused  eta^2 s^2 [(1+d)(c0^2+c1^2) + 2 t c0 c1]/[(1-d) kappa N S (2(1+m) - kappa(2P - N S))],
                     t = 1+m-kappa P, d = m + kappa(N S - P), c0 = P, c1 = N S - P: N times the temperature.
"""

from typing import NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.block_map import LinearLoop, Matrix
from bandit_lab.theory.stability import spectral_radius


class Stationary(NamedTuple):
    """Covariance of the position [n, n] at block points and averaged over phases; `state` at block points; or why not.

    All three are None where the loop is not stable, with the reason in words.
    """

    covariance: Matrix | None
    average: Matrix | None
    state: Matrix | None
    reason: str | None = None


def lyapunov(matrix: Matrix, source: Matrix) -> Matrix:
    """S = M S M^T + Q for a stable M [k, k] by doubling: after j rounds 2^j terms of the series are summed."""
    total, power = source, matrix
    for _ in range(60):
        update = power @ total @ power.T
        total = total + update
        if np.abs(update).max() <= 1e-17 * np.abs(total).max():
            break
        power = power @ power
    return 0.5 * (total + total.T)


def stationary_covariance(
    loop: LinearLoop, learning_rate: float, refresh_interval: float, noise: Matrix, batch_reuse: bool = False
) -> Stationary:
    """Stationary covariance of the position under gradient noise of covariance `noise` [n, n] per update.

    `noise` is that of the whole update (one group's covariance over the number of prompts), in the reduced basis of
    the loop. Reusing a batch is a matter of blocks: ValueError with `lag` or `random`, and for noise of another shape.
    Exact for the linear loop; a leading order in the noise for the nonlinear one. Derived in this module.
    """
    noise = np.atleast_2d(np.asarray(noise, float))
    _checks.require(noise.shape == loop.fresh.shape, "noise", f"shape {loop.fresh.shape}", noise.shape)
    blocks = loop.model in ("refresh", "pipeline")
    _checks.require(blocks or not batch_reuse, "batch_reuse", "false unless staleness is refresh or pipeline", True)
    radius = spectral_radius(loop, learning_rate, refresh_interval)
    if not radius < 1:
        return Stationary(None, None, None, f"beyond the stability threshold (largest multiplier {radius:.6g})")
    matrix, n, drive = loop.map(learning_rate, refresh_interval), loop.size, loop.noise_input(learning_rate)
    kick = np.zeros_like(matrix)
    if not blocks:
        kick[: 2 * n, : 2 * n] = drive @ noise @ drive.T
        state = lyapunov(matrix, kick)
        return Stationary(state[:n, :n], state[:n, :n], state)
    steps = int(refresh_interval)
    hidden = np.zeros((4 * n, 4 * n))
    hidden[3 * n :, 3 * n :] = noise
    kick[: 2 * n, : 2 * n] = _propagate(loop, learning_rate, steps, hidden, drive, batch_reuse)[0][: 2 * n, : 2 * n]
    state = lyapunov(matrix, kick)
    _, average = _propagate(loop, learning_rate, steps, _with_rollout(loop, state) + hidden, drive, batch_reuse)
    return Stationary(state[:n, :n], average, state)


def _with_rollout(loop: LinearLoop, state: Matrix) -> Matrix:
    """Covariance of (x, w, y, noise) at a block's start: y = x (refresh) or the previous block's x (pipeline)."""
    n = loop.size
    lift = np.zeros((4 * n, state.shape[0]))
    lift[: 2 * n, : 2 * n] = np.eye(2 * n)
    lift[2 * n : 3 * n, (0 if loop.model == "refresh" else 2 * n) :][:, :n] = np.eye(n)
    return lift @ state @ lift.T


def _propagate(
    loop: LinearLoop, learning_rate: float, steps: int, covariance: Matrix, drive: Matrix, reuse: bool
) -> tuple[Matrix, Matrix]:
    """Covariance after one block, and the position covariance averaged over its N phases (block start included)."""
    n = loop.size
    one, force = loop.step(learning_rate)
    step = np.eye(4 * n)
    step[: 2 * n] = np.concatenate([one, force, drive if reuse else np.zeros_like(drive)], axis=1)
    kick = np.zeros((4 * n, 4 * n))
    if not reuse:
        kick[: 2 * n, : 2 * n] = drive @ covariance[3 * n :, 3 * n :] @ drive.T
    total = np.zeros((n, n))
    for _ in range(steps):
        total = total + covariance[:n, :n]
        covariance = step @ covariance @ step.T + kick
    return covariance, total / steps


def small_step_variance(learning_rate: float, stiffness: float, momentum: float, noise: float) -> float:
    """Its small-step limit eta s^2/(2 K (1-mu)), the same for every staleness model: a temperature."""
    return learning_rate * noise / (2 * stiffness * (1 - momentum))
