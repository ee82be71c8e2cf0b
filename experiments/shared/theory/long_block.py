"""Infinitely long blocks with importance ratios: a recurrence from policy to policy.

Derived here. With the unclipped ratio the reward factor h is frozen at the rollout policy while everything else is
fresh, so a long block runs to the fixed point of a fixed factor: pi_n ~ pi_ref exp(h(pi_{n-1}) r/beta). For two arms
with rewards 1 and 0, standardised, this is the success-probability recurrence of arXiv 2503.06639,

    p_n = 1/(1 + ((1-p_ref)/p_ref) exp(-1/(beta sqrt(p_{n-1}(1-p_{n-1}) + eps)))),

whose slope at a fixed point is -rho = -K_stale/K_fresh of the same split: |rho| < 1 is stable at any block
length, rho > 1 gives a period-2 orbit or a runaway to the vertex.
"""

from typing import Literal, NamedTuple

import numpy as np

from bandit_lab.theory.fixed_points import HUGE, check_problem, tilted_policy
from bandit_lab.theory.stiffness import Signal


class LongRun(NamedTuple):
    """What the recurrence settles to: `kind`, the `cycle` [n, K] of policies in it (n = 1, 2, ...), last slope rho."""

    kind: Literal["fixed_point", "period_2", "longer_cycle", "runaway"]
    cycle: np.ndarray


def success_recurrence(success: np.ndarray, reference: float, kl_weight: float, eps: float = 0.0) -> np.ndarray:
    """One application of the two-arm recurrence to probabilities of any shape (arXiv 2503.06639)."""
    p = np.asarray(success, float)
    with np.errstate(divide="ignore", over="ignore"):
        tilt = 1 / (kl_weight * np.sqrt(p * (1 - p) + eps))
        return 1 / (1 + (1 - reference) / reference * np.exp(-tilt))


def long_block_policy(signal: Signal, reference: np.ndarray, kl_weight: float, policy: np.ndarray) -> np.ndarray:
    """Policy [K] at the end of an infinitely long `ratio` block that started at `policy` [K]."""
    return tilted_policy(signal.means, reference, min(signal.factor(policy), HUGE) / kl_weight)


def settle(signal: Signal, reference: np.ndarray, kl_weight: float, policy: np.ndarray, blocks: int = 4000) -> LongRun:
    """Iterate `long_block_policy` from `policy` and name what it settles to (period found to 1e-9, up to 8).

    Raises ValueError for an invalid problem or kl_weight 0.
    """
    reference = check_problem(signal, reference, kl_weight, "exact")
    current = np.asarray(policy, float)
    for _ in range(blocks):
        current = long_block_policy(signal, reference, kl_weight, current)
        if current.max() > 1 - 1e-12:
            return LongRun("runaway", current[None])
    orbit = [current]
    for period in range(1, 9):
        following = long_block_policy(signal, reference, kl_weight, orbit[-1])
        if np.abs(following - orbit[0]).max() < 1e-9:
            kind: Literal["fixed_point", "period_2", "longer_cycle"]
            kind = "fixed_point" if period == 1 else "period_2" if period == 2 else "longer_cycle"
            return LongRun(kind, np.array(orbit))
        orbit.append(following)
    return LongRun("longer_cycle", np.array(orbit))
