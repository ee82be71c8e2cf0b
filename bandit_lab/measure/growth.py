"""First detector: does a small displacement from the fixed point grow or decay, and how fast per step."""

import numpy as np

from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.displaced import growth_blocks

PERIODS = 100  # length of a growth run in units of N + 1/(1 - mu); a cycle takes about 2 pi of them


def generic_direction(basis: np.ndarray) -> np.ndarray:
    """A unit direction [D] inside the policy-changing space that no symmetric mode is orthogonal to."""
    weights = 1.0 / np.sqrt(1.0 + np.arange(basis.shape[0]))
    direction = basis @ (basis.T @ (weights * (-1.0) ** np.arange(basis.shape[0])))
    return direction / np.linalg.norm(direction)


def time_scale(cells: Hyper) -> np.ndarray:
    """N + 1/(1 - mu) [C], steps: the memory of staleness and of momentum."""
    return np.maximum(np.asarray(cells.refresh_interval), 1) + 1 / (1 - np.asarray(cells.momentum))


def growth_rate(
    learner: Learner, dynamics: str, cells: Hyper, theta_star: np.ndarray, direction: np.ndarray, periods: int = PERIODS
) -> np.ndarray:
    """Growth rate [C] of a displacement of 1e-7, per step: log of the largest multiplier's modulus.

    The nonlinear mean update runs for `periods` (N + 1/(1 - mu)) steps. The rate is the average slope of the log of the
    displacement's size every N steps, under a smooth window after a burn-in of one third, so that oscillation averages
    out. Where the displacement x cycles, its size dips at every turn and the dips can beat with the sampling; then
    sqrt|x_j^2 - x_{j-1} x_{j+1}|, which a pair z = r e^{+-iw} makes exactly proportional to r^j, is read instead. A run
    whose displacement leaves [3e-11, 1e-3] is decided there, before rounding errors or saturation matter, and its rate
    is the crude one up to then.

    Args:
      cells: Hyper of arrays [C]. theta_star: [C, D] fixed points. direction: [D] or [C, D].
    """
    theta_star = np.asarray(theta_star, np.float64)
    direction = np.broadcast_to(direction, theta_star.shape)
    dynamics = "finite_group" if dynamics == "sampled" else dynamics
    return growth_blocks(learner, dynamics, periods * time_scale(cells), cells, theta_star, direction)
