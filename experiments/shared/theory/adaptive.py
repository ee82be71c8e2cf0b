"""Optimisers that divide by a second moment: thresholds with the moment held at its noise-stationary value.

Derived here. At a fixed point the mean gradient is zero, so a second-moment average settles at the gradient noise,
v_stat = diag Cov(g) (+ the part that fluctuating logits add, (H S H^T)_ii): without noise v = 0 and the update has no
linear part. Holding v there, one step is EMA momentum (Adam: mu = beta_1; RMSprop: mu = 0) with the preconditioner
D = diag(1/(sqrt(v_stat) + eps)) and stiffness D H, similar to D^{1/2} H D^{1/2}, whose neutral direction is
D^{-1/2}(1, ..., 1). Hence learning-rate threshold = kappa_c(model, N, beta_1, `ema`)/lambda_max(D H). With v ~ 1/G the
threshold and the mean curve scale as 1/sqrt G: group size is not only a temperature here. Decoupled weight decay w
adds w to the fresh stiffness D H_fresh (all-ones direction included) and moves the fixed point to D g = w theta.

How good: this is the threshold of the map with v *held*. In a run v holds the fluctuation that
it causes, too (`self_consistent_moment`), and rises before the largest multiplier reaches 1: for N = 1, beta_1 = 0 and
y = eta K/sqrt(v), v/C = 2/(2 - y) gives y sqrt(2/(2 - y)) = eta K/sqrt(C), so that 1 - y stays above -1 at every
learning rate. A self-consistent run thus has no linear threshold; the held one marks where its fluctuation becomes
large.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import root
from scipy.special import softmax

from bandit_lab import _checks
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.conventions import Model
from bandit_lab.theory.fixed_points import mean_drift
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.stationary import stationary_covariance
from bandit_lab.theory.stiffness import BinarySignal, Signal, Split
from bandit_lab.theory.thresholds import Threshold, exact

_DAMPING = 0.2  # the target falls steeply with v beyond the held threshold


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
    crossing = exact(model, refresh_interval, beta1, "ema")
    return Threshold(crossing.kappa / precondition(split, second_moment, eps).largest, crossing.bifurcation)


def self_consistent_moment(
    split: Split,
    noise: np.ndarray,
    learning_rate: float,
    refresh_interval: int,
    model: str = "refresh",
    beta1: float = 0.9,
    eps: float = 1e-8,
    rounds: int = 1000,
) -> np.ndarray | None:
    """v_stat [K] with the logits' own fluctuation: v = diag(C + H S(v) H^T), iterated; None if it does not settle.

    S(v) is the stationary covariance at preconditioner v (Lyapunov), at block points, where a wholly stale gradient is
    taken; with a fresh part its average over a block, which neglects how fresh and stale parts go together. Where the
    held prediction is unstable the iteration starts from a larger v: fluctuation stabilises. `noise` [K, K] per update.
    """
    noise, total = np.asarray(noise, float), split.total
    base = noise_second_moment(noise)
    moment = base * 1.0
    for _ in range(rounds):
        scaled = precondition(split, moment, eps)
        loop = LinearLoop(scaled.fresh, scaled.stale, beta1, model, "ema")
        stationary = stationary_covariance(
            loop, learning_rate, refresh_interval, scaled.to_logits.T @ noise @ scaled.to_logits
        )
        seen = stationary.average if np.any(split.fresh) else stationary.covariance
        if seen is None:
            moment = moment * 1.5
            continue
        covariance = scaled.to_logits @ seen @ scaled.to_logits.T
        target = base + np.diag(total @ covariance @ total.T)
        if np.abs(target / moment - 1).max() < 1e-10:
            return moment
        moment = moment * np.clip(target / moment, 0.25, 4.0) ** _DAMPING
    return None


def adam_mean_curve(
    law: GroupLaw,
    success: tuple[float, ...],
    reference: np.ndarray,
    kl_weight: float,
    learning_rate: float,
    steps: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> np.ndarray:
    """Expected reward [steps + 1] of Adam, on-policy, from the reference: its averages fed with E[g] and E[g^2].

    E[g^2] = diag Cov(g) + E[g]^2 at the mean parameters, bias corrections included: the curve depends on G through the
    noise. Binary rewards at finite G. Leading order in the learning rate; derived here.
    """
    signal = BinarySignal(law, success)
    logits = np.log(np.asarray(reference, float))
    first, second = np.zeros(len(logits)), np.zeros(len(logits))
    rewards = [float(softmax(logits) @ signal.means)]
    for step in range(1, steps + 1):
        drift = mean_drift(signal, reference, kl_weight, logits)
        noise = np.diag(binary_covariance(law, signal.means, softmax(logits)))
        first = beta1 * first + (1 - beta1) * drift
        second = beta2 * second + (1 - beta2) * (noise + drift**2)
        unbiased = first / (1 - beta1**step), second / (1 - beta2**step)
        logits = logits + learning_rate * unbiased[0] / (np.sqrt(unbiased[1]) + eps)
        rewards.append(float(softmax(logits) @ signal.means))
    return np.array(rewards)


def decayed_fixed_point(
    signal: Signal,
    reference: np.ndarray,
    kl_weight: float,
    weight_decay: float,
    start: np.ndarray,
    prompts: int = 1,
    eps: float = 1e-8,
    precondition_noise: bool = True,
) -> np.ndarray | None:
    """Logits [K] with D g(theta) = weight_decay theta (AdamW at its noise-stationary moment), from `start` [K].

    The moment there is Cov(g) + g^2: decay leaves a mean gradient at the fixed point.

    Without `precondition_noise` D = 1 (decoupled decay with plain momentum). None if the solver fails. Binary rewards
    at finite G only when preconditioned. Raises ValueError otherwise.
    """
    if precondition_noise:
        binary = isinstance(signal, BinarySignal) and signal.law.group_size is not None
        _checks.require(binary, "signal", "binary rewards at finite group size", signal.label)

    def balance(logits: np.ndarray) -> np.ndarray:
        drift = mean_drift(signal, reference, kl_weight, logits)
        if precondition_noise and isinstance(signal, BinarySignal):
            noise = binary_covariance(signal.law, signal.means, softmax(logits)) / prompts
            drift = drift / (np.sqrt(np.diag(noise) + drift**2) + eps)
        return drift - weight_decay * logits

    solution = root(balance, np.asarray(start, float), method="hybr", tol=1e-13)
    return solution.x if np.abs(balance(solution.x)).max() < 1e-9 else None
