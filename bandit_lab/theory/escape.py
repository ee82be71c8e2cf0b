"""Noise-induced escape in the diffusion limit: quasi-potential, Kramers rate, mean first-passage time.

Derived here for two arms, gap x with both logits trained, plain gradient steps of rate eta (heavy ball: eta/(1-mu)).
Per step the gap drifts by eta a(x) and spreads by eta^2 b(x), a from `two_arm.gap_drift`, b the exact variance of the
group estimate over the prompts. The quasi-potential is U(x) = -integral 2 a/(eta b) dx: its height over a barrier is
barrier over temperature, proportional to G * prompts/eta. From a well x_s over a top x_u Kramers' rate per step is

    eta sqrt(-a'(x_s) a'(x_u))/(2 pi) * sqrt(b(x_s)/b(x_u)) * exp(-(U(x_u) - U(x_s))),

the saddle-point value of 1/T with T(x) = integral of exp(U) integral 2 exp(-U)/(eta^2 b), the mean first-passage time.
Without a barrier (one fixed point: the vertex is flat, not attracting) T to a stated gap is the prediction instead; the
stationary density is exp(-V), V = U + ln b. Valid while one block moves the gap by little, that is at small kappa N;
beyond, the exact operator of `two_arm_chain` is to be used.

The stability boundary that a finite temperature leaves: how hot a run may be before it collapses.

Derived here from the exact two-arm chain. A run counts as collapsed while its gap stands beyond `collapsed_gap` (policy
at the good arm's vertex, groups silent). The practical learning rate is the one at which the probability of standing
there after a given number of blocks reaches a stated level; it lies below the deterministic threshold, and rises to it
as G * prompts grows (temperature falls).

`staleness_bias` is the mean error of a stale gradient to first order, H_stale times the distance covered in the lag,
of order lag * learning rate (arXiv 2607.01083).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.integrate import cumulative_trapezoid

from bandit_lab import _checks
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.signal import BinarySignal
from bandit_lab.theory.stiffness import Split
from bandit_lab.theory.two_arm import gap_drift
from bandit_lab.theory.two_arm_chain import TwoArmChain


class Diffusion(NamedTuple):
    """`gap` [X], `drift` and `spread` [X] per step, `potential` [X] (U + ln b, relative)."""

    gap: np.ndarray
    drift: np.ndarray
    spread: np.ndarray
    potential: np.ndarray


def diffusion(
    signal: BinarySignal,
    kl_weight: float,
    learning_rate: float,
    momentum: float = 0.0,
    prompts: int = 1,
    reference_gap: float = 0.0,
    gap: np.ndarray | None = None,
) -> Diffusion:
    """Drift and spread per step on a grid of gaps (default -8..12), two arms, finite G. Raises ValueError otherwise."""
    _checks.require(len(signal.means) == 2, "rewards", "2 arms", len(signal.means))
    _checks.require(signal.law.group_size is not None, "group_size", "a finite group", "infinity")
    x = np.linspace(-8.0, 12.0, 2001) if gap is None else np.asarray(gap, float)
    rate = learning_rate / (1 - momentum)
    good, bad = np.exp(-np.logaddexp(0, -x)), np.exp(-np.logaddexp(0, x))
    signs = np.array([1.0, -1.0])
    spread = np.array(
        [signs @ binary_covariance(signal.law, signal.means, np.array(p)) @ signs for p in zip(good, bad, strict=True)]
    )
    drift = rate * gap_drift(x, signal, reference_gap, kl_weight)
    spread = rate**2 * spread / prompts
    potential = -cumulative_trapezoid(2 * drift / spread, x, initial=0.0) + np.log(spread)
    return Diffusion(x, drift, spread, potential - potential.min())


def barrier(process: Diffusion, well: float, top: float) -> float:
    """Height of U at gap `top` over gap `well`: barrier over temperature, dimensionless."""
    values = np.interp([well, top], process.gap, process.potential - np.log(process.spread))
    return float(values[1] - values[0])


def kramers_rate(process: Diffusion, well: float, top: float) -> float:
    """Escape rate per step from the fixed point `well` over the unstable fixed point `top` (gaps). Leading order.

    Raises ValueError unless `well` is stable and `top` is not.
    """
    slope = np.gradient(process.drift, process.gap)
    inner, outer = (float(np.interp(x, process.gap, slope)) for x in (well, top))
    _checks.require(inner < 0 < outer, "top", "an unstable fixed point beside a stable `well`", top)
    spread = np.interp([well, top], process.gap, process.spread)
    height = barrier(process, well, top)
    prefactor = np.sqrt(-inner * outer) / (2 * np.pi) * np.sqrt(spread[0] / spread[1])
    return float(prefactor * np.exp(-height))


def first_passage_time(process: Diffusion, start: float, target: float) -> float:
    """Mean number of steps from gap `start` up to gap `target`, reflecting at the lower end of the grid.

    T = integral_{start}^{target} dy e^{U(y)} integral_{low}^{y} 2 e^{-U(z)}/b(z) dz. Exact for the diffusion.
    Raises ValueError unless `target` lies above `start`, inside the grid.
    """
    _checks.require(start < target <= process.gap[-1], "target", "a gap above `start`, inside the grid", target)
    scale = process.potential - np.log(process.spread)
    scale = np.clip(scale - np.interp(start, process.gap, scale), -600.0, 600.0)
    inner = cumulative_trapezoid(2 * np.exp(-scale) / process.spread, process.gap, initial=0.0)
    inner = np.where(process.gap > target + 1.0, 0.0, inner)
    outer = cumulative_trapezoid(np.exp(scale) * inner, process.gap, initial=0.0)
    ends = np.interp([start, target], process.gap, outer)
    return float(ends[1] - ends[0])


def stationary_density(process: Diffusion) -> np.ndarray:
    """Stationary density [X] of the gap, exp(-V) normalised on the grid (reflecting ends)."""
    density = np.exp(-(process.potential - process.potential.min()))
    return density / np.trapezoid(density, process.gap)


def collapse_probability(chain: TwoArmChain, collapsed_gap: float, blocks: int, start: float = 0.0) -> float:
    """Probability that the gap lies beyond `collapsed_gap` after `blocks` blocks from gap `start`.

    Raises ValueError for a gap outside the grid.
    """
    _checks.require(chain.low < collapsed_gap < chain.high, "collapsed_gap", "a gap inside the grid", collapsed_gap)
    law = chain.evolve(chain.start(start), blocks)
    return float(law[chain.grid > collapsed_gap].sum())


def practical_learning_rate(
    chain: TwoArmChain,
    deterministic: float,
    collapsed_gap: float,
    steps: int,
    level: float = 0.05,
    start: float = 0.0,
    tolerance: float = 0.02,
) -> float | None:
    """Learning rate at which `level` of the runs stand collapsed after `steps` updates (bisection in its logarithm).

    Searched between 0.05 and 1 times the `deterministic` threshold, to the relative `tolerance`; None if fewer collapse
    even there, 0.05 times the threshold if more collapse already there.
    Raises ValueError for a level outside (0, 1).
    """
    _checks.require(0 < level < 1, "level", "a probability inside (0, 1)", level)
    blocks = max(1, steps // chain.refresh_interval)

    def collapsed(rate: float) -> bool:
        return collapse_probability(replace(chain, learning_rate=rate), collapsed_gap, blocks, start) >= level

    low, high = 0.05 * deterministic, deterministic
    if not collapsed(high):
        return None
    if collapsed(low):
        return low
    while high / low > 1 + tolerance:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if collapsed(middle) else (middle, high)
    return float(np.sqrt(low * high))


def staleness_bias(split: Split, velocity: np.ndarray, lag: float) -> np.ndarray:
    """Mean error [K] of the drift at a rollout policy `lag` steps old: H_stale velocity lag, `velocity` [K] per step.

    First order; with steps of size eta |g| it is of order lag * eta (arXiv 2607.01083).
    """
    return split.stale @ np.asarray(velocity, float) * lag
