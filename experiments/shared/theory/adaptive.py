"""Optimisers that divide by a second moment: what their own fluctuation adds to it, Adam's mean curve, AdamW's rest.

How good the threshold with the moment *held* is (`bandit_lab.theory.adaptive`): in a run v holds the fluctuation that
it causes, too (`self_consistent_moment`), and rises before the largest multiplier reaches 1: for N = 1, beta_1 = 0 and
y = eta K/sqrt(v), v/C = 2/(2 - y) gives y sqrt(2/(2 - y)) = eta K/sqrt(C), so that 1 - y stays above -1 at every
learning rate. A self-consistent run thus has no linear threshold; the held one marks where its fluctuation becomes
large. Decoupled weight decay w moves the fixed point to D g = w theta. Derived here.
"""

import numpy as np
from scipy.optimize import root
from scipy.special import softmax

from bandit_lab import _checks
from bandit_lab.theory.adaptive import noise_second_moment, precondition
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.fixed_points import mean_drift
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.signal import BinarySignal, Signal
from bandit_lab.theory.stationary import stationary_covariance
from bandit_lab.theory.stiffness import Split

_DAMPING = 0.2  # the target falls steeply with v beyond the held threshold


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
        found = stationary_covariance(
            loop, learning_rate, refresh_interval, scaled.to_logits.T @ noise @ scaled.to_logits
        )
        seen = found.average if np.any(split.fresh) else found.covariance
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

    found = root(balance, np.asarray(start, float), method="hybr", tol=1e-13)
    return found.x if np.abs(balance(found.x)).max() < 1e-9 else None
