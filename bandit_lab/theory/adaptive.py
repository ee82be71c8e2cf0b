"""Optimisers that divide by a second moment: thresholds with the moment held at its noise-stationary value.

Derived here. At a fixed point the mean gradient is zero, so a second-moment average settles at the gradient noise,
v_stat = diag Cov(g) (+ the part that fluctuating logits add, (H S H^T)_ii): without noise v = 0 and the update has no
linear part. Holding v there, one step is EMA momentum (Adam: mu = beta_1; RMSprop: mu = 0) with the preconditioner
D = diag(1/(sqrt(v_stat) + eps)) and stiffness D H, similar to D^{1/2} H D^{1/2}, whose neutral direction is
D^{-1/2}(1, ..., 1). Hence learning-rate threshold = kappa_c(model, N, beta_1, `ema`)/lambda_max(D H). With v ~ 1/G the
threshold and the mean curve scale as 1/sqrt G: group size is not only a temperature here. Decoupled weight decay w
adds w to the fresh stiffness D H_fresh (all-ones direction included) and moves the fixed point to D g = w theta.

How good: `experiments/shared/theory/adaptive.py`; a run's v holds the fluctuation that it causes, too.
"""

from typing import NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.conventions import Model
from bandit_lab.theory.stiffness import Split
from bandit_lab.theory.thresholds import Threshold, exact


class Preconditioned(NamedTuple):
    """Reduced symmetrised matrices for `LinearLoop(..., convention="ema")`, and the map back to logits [K, n]."""

    fresh: np.ndarray
    stale: np.ndarray
    to_logits: np.ndarray

    @property
    def largest(self) -> float:
        """Largest preconditioned stiffness, largest real eigenvalue of D H (+ decay) [1/learning rate]."""
        return float(np.linalg.eigvals(self.fresh + self.stale).real.max())


def noise_second_moment(noise: np.ndarray) -> np.ndarray:
    """v_stat [K] to leading order: the diagonal of the gradient covariance [K, K] of one update."""
    return np.diag(np.asarray(noise, float)).copy()


def precondition(
    split: Split, second_moment: np.ndarray, eps: float = 1e-8, weight_decay: float = 0.0
) -> Preconditioned:
    """Stiffness in the coordinates D^{-1/2} theta, neutral direction projected out (kept if `weight_decay` > 0).

    `second_moment` [K] must be positive: at zero noise the update has no linear part. Raises ValueError then.
    """
    moment = np.asarray(second_moment, float)
    _checks.require(bool((moment > 0).all()), "second_moment", "numbers > 0 (gradient noise)", moment.tolist())
    root_scale = 1 / np.sqrt(np.sqrt(moment) + eps)
    basis = np.eye(len(moment)) if weight_decay > 0 else _complement(1 / root_scale)
    lift = root_scale[:, None] * basis
    fresh = lift.T @ split.fresh @ lift + weight_decay * np.eye(basis.shape[1])
    return Preconditioned(fresh, lift.T @ split.stale @ lift, lift)


def _complement(direction: np.ndarray) -> np.ndarray:
    """Orthonormal basis [K, K-1] orthogonal to `direction` [K]."""
    full, _ = np.linalg.qr(np.column_stack([direction, np.eye(len(direction))[:, :-1]]))
    return full[:, 1:]


def adaptive_threshold(
    split: Split, second_moment: np.ndarray, model: Model, refresh_interval: int, beta1: float = 0.9, eps: float = 1e-8
) -> Threshold:
    """Learning rate at which Adam (RMSprop: beta1 = 0) loses stability, `frozen` split; in `kappa` of the Threshold.

    kappa_c(model, N, beta1, ema)/lambda_max(D H). For other splits put `precondition` into a `LinearLoop` with
    convention `ema`. Leading order (module docstring).
    """
    found = exact(model, refresh_interval, beta1, "ema")
    return Threshold(found.kappa / precondition(split, second_moment, eps).largest, found.bifurcation)
