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

The sum is the same for all three. For binary rewards grad h = h'(J) s and H is symmetric; else it is not.

The sampled k3 loss has the gradient -beta sum_a pi_old(a) (1 - ref_a/pi_a)(e_a - pi), on policy -beta (pi - ref). Its
fresh derivative is -beta R, R = Diag(ref) - ref pi^T - pi ref^T + pi pi^T (the weights 1 - ref/pi sum to zero under
pi), its total -beta F. The on-policy H is then beta F - h D - s (grad h)^T, of which beta R (`uncorrected`, plus
Abar F) or beta R - h D (`ratio`) is fresh.

One logit, two arms (all values times 2 for two logits): ratio beta p(1-p) and (1-2p) sqrt(p(1-p))/2 for r = (1, 0).
"""

from typing import NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.block_map import reduce_matrix
from bandit_lab.theory.signal import Signal, fisher, reward_hessian

ESTIMATORS: tuple[str, ...] = ("frozen", "uncorrected", "ratio", "clipped", "clip_higher", "cispo")
"""The last three clip: near a fixed point they are `ratio`."""
KL_ESTIMATORS: tuple[str, ...] = ("exact", "k3")


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
    _checks.choice("estimator", estimator, ESTIMATORS)
    _checks.choice("kl_estimator", kl_estimator, KL_ESTIMATORS)
    policy = np.asarray(policy, float)
    matrix = fisher(policy)
    bend = signal.factor(policy) * reward_hessian(policy, signal.means)
    total = kl_weight * matrix - np.outer(matrix @ signal.means, signal.gradient(policy))
    fresh = kl_weight * matrix
    if kl_estimator == "k3":
        total = total - bend
        fresh = kl_weight * _reference_scatter(signal, policy, kl_weight) - bend
    if estimator == "frozen":
        fresh = np.zeros_like(matrix)
    elif estimator == "uncorrected":
        fresh = fresh + bend + signal.mean_advantage(policy) * matrix
    return Split(fresh, total - fresh)


def _reference_scatter(signal: Signal, policy: np.ndarray, kl_weight: float) -> np.ndarray:
    """R [K, K] of the module docstring, the reference recovered from the balance beta (pi - ref) = h F r."""
    reference = policy - signal.factor(policy) * (fisher(policy) @ signal.means) / kl_weight
    mixed = np.outer(reference, policy)
    return np.diag(reference) - mixed - mixed.T + np.outer(policy, policy)


def largest_stiffness(split: Split) -> float:
    """Largest real part of the spectrum of H_fresh + H_stale, the stiffness that sets the threshold."""
    return float(split.spectrum()[0].real)
