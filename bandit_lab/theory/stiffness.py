"""Closed-form stiffness at a fixed point, split into the part felt at the current policy and at the rollout policy.

Derived here, K arms. Let s = F r, D = Hessian of J (`reward_hessian`), h the signal factor. The mean drift is

    frozen       g(theta_old, theta_old)
    uncorrected  h_old F_old r + Abar_old (pi_old - pi) - beta F (theta - theta_ref)     (no ratio; exact KL)
    ratio        h_old F r - beta F (theta - theta_ref)

with Abar the mean advantage, 0 for centred rules. At the fixed point h r - beta (theta - theta_ref) is constant, and
dF applied to a constant vanishes, so that the ratio drift has fresh derivative -beta F exactly; hence H = -d drift:

    ratio        H_fresh = beta F,                       H_stale = -s (grad h)^T
    uncorrected  H_fresh = beta F + h D + Abar F,        H_stale = -h D - s (grad h)^T - Abar F
    frozen       H_fresh = 0,                            H_stale = beta F - s (grad h)^T

The sum is the same for all three. For binary rewards grad h = h'(J) s and H is symmetric; else it is not. With the k3
KL gradient beta (pi - pi_ref), theta enters through pi only: exchange `beta F` by `beta F - h D` in all three rows.
One logit, two arms (all values times 2 for two logits): ratio beta p(1-p) and (1-2p) sqrt(p(1-p))/2 for r = (1, 0).
"""

from typing import NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.block_map import reduce_matrix
from bandit_lab.theory.signal import Signal, fisher, reward_hessian

ESTIMATORS: tuple[str, ...] = ("frozen", "uncorrected", "ratio")
_AS_RATIO = ("clipped", "clip_higher", "cispo")


class Split(NamedTuple):
    """Stiffness matrices [K, K] in logit space, reward per logit^2: `fresh` (current) and `stale` (rollout policy)."""

    fresh: np.ndarray
    stale: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """On-policy stiffness H = fresh + stale [K, K]."""
        return self.fresh + self.stale

    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """Both parts without the all-ones direction, [K-1, K-1] each."""
        return reduce_matrix(self.fresh), reduce_matrix(self.stale)

    def spectrum(self) -> np.ndarray:
        """Eigenvalues [K-1] of the total, largest real part first (real for binary rewards)."""
        values = np.linalg.eigvals(reduce_matrix(self.total))
        values = values.real if np.abs(values.imag).max() <= 1e-12 * np.abs(values).max() else values
        return values[np.argsort(-values.real)]


def stiffness_split(
    signal: Signal, policy: np.ndarray, kl_weight: float, estimator: str = "frozen", kl_estimator: str = "exact"
) -> Split:
    """Fresh and stale stiffness at the fixed point `policy` [K]; clip variants act as `ratio` near a fixed point.

    Raises ValueError for an unknown estimator. Derived in this module.
    """
    _checks.choice("estimator", estimator, (*ESTIMATORS, *_AS_RATIO))
    _checks.choice("kl_estimator", kl_estimator, ("exact", "k3"))
    policy = np.asarray(policy, float)
    matrix, bend = fisher(policy), reward_hessian(policy, signal.means)
    factor = signal.factor(policy)
    reweighting = -np.outer(matrix @ signal.means, signal.gradient(policy))
    anchored = kl_weight * matrix - (factor * bend if kl_estimator == "k3" else 0.0)
    if estimator == "frozen":
        return Split(np.zeros_like(matrix), anchored + reweighting)
    if estimator == "uncorrected":
        moved = factor * bend + signal.mean_advantage(policy) * matrix
        return Split(anchored + moved, reweighting - moved)
    return Split(anchored, reweighting)


def largest_stiffness(split: Split) -> float:
    """Largest real part of the spectrum of H_fresh + H_stale, the stiffness that sets the threshold."""
    return float(split.spectrum()[0].real)
