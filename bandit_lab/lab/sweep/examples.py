"""Four example runs on both sides of both boundaries, with the curves of two oscillators over them."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import measure, theory
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper
from bandit_lab.lab.sweep.exact import DriftResult
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.simulation import trajectories

TITLES = ("below the onset", "above the onset", "below the threshold", "above the threshold")
DISPLACEMENT = 0.2  # logits, along the stiffest mode
PREFERRED_INTERVAL = 8
LONGEST = 20_000


@dataclass(frozen=True)
class Examples:
    """E runs of the mean update from rest, a small displacement from the fixed point, at one momentum and interval.

    learning_rate: [E]. length: [E] steps worth showing. reward, law, mean_age: [E, T + 1] the run, the oscillator whose
    lag is the refresh interval (the published one), and the one whose lag is the mean age of the acting policy.
    """

    momentum: float
    interval: float
    fixed_point_reward: float
    learning_rate: np.ndarray
    length: np.ndarray
    reward: np.ndarray
    law: np.ndarray
    mean_age: np.ndarray


def make_examples(plan: SweepPlan, drift: DriftResult) -> Examples | None:
    """The examples of a sweep, or None where a boundary is missing on either side."""
    cells, equilibrium = drift.cells, drift.equilibria[0]
    momentum = float(plan.momentum[-1])
    interval = plan.refresh_interval[
        np.argmin(np.abs(np.log((plan.refresh_interval + 0.1) / PREFERRED_INTERVAL)))
    ].item()
    at = (
        (cells.momentum == momentum) & (cells.refresh_interval == interval) & (cells.kl_weight == equilibrium.kl_weight)
    )
    row = int(np.flatnonzero(at)[0])
    onset, threshold = float(drift.onset[row]), float(drift.boundary[row])
    if equilibrium.stiffness is None or not (np.isfinite(onset) and np.isfinite(threshold) and onset < threshold):
        return None
    rates = np.array([0.5 * onset, np.sqrt(onset * threshold), 0.9 * threshold, 1.1 * threshold])
    lengths = _lengths(rates, momentum, interval, equilibrium.stiffness.largest)
    longest = int(lengths.max())
    hyper = Hyper(rates, *(np.full(4, value) for value in (momentum, interval, equilibrium.kl_weight)))
    start = _displaced(plan, drift)
    runs = trajectories(plan.learner, drift.dynamics, hyper, steps=longest, dtype=np.float64, initial=start)[:, 0]
    curves = [_oscillators(drift, runs[i, 0], float(rates[i]), momentum, interval, longest) for i in range(4)]
    law, mean_age = (np.array(column) for column in zip(*curves, strict=True))
    reward = equilibrium.point.expected_reward
    return Examples(momentum, interval, reward, rates, lengths, runs, law, mean_age)


def _lengths(rates: np.ndarray, momentum: float, interval: float, stiffness: float) -> np.ndarray:
    """Steps to show: several relaxation times at small rates, several periods near the threshold."""
    memory = max(interval, 1) + 1 / (1 - momentum)
    relaxation = (1 - momentum) / (rates * stiffness)
    shown = np.array([5 * relaxation[0], 8 * memory + 4 * relaxation[1], 16 * memory, 16 * memory])
    return np.clip(np.ceil(shown), 10, LONGEST).astype(int)


def _displaced(plan: SweepPlan, drift: DriftResult) -> np.ndarray:
    """Parameters a little away from the fixed point, on the side of smaller reward."""
    equilibrium = drift.equilibria[0]
    assert equilibrium.stiffness is not None
    assert equilibrium.point.theta is not None
    direction, _ = measure.stiffest_mode(equilibrium.stiffness.relaxation_matrix, equilibrium.point.basis)
    step = DISPLACEMENT * direction / np.linalg.norm(direction)
    slope = (
        jax.grad(lambda theta: expected_reward(plan.learner.bandit, theta))(jnp.asarray(equilibrium.point.theta)) @ step
    )
    return equilibrium.point.theta - np.sign(slope) * step


def _oscillators(
    drift: DriftResult, start: float, rate: float, momentum: float, interval: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Expected reward [T + 1] by the oscillator with lag N and with the mean age, both from rest.

    NaN where the theory does not know the optimiser, or a staleness model's mean age.
    """
    linear, final = drift.equilibria[0].linear, drift.equilibria[0].point.expected_reward
    time = jnp.arange(steps + 1.0)
    result = []
    if linear.unsupported_reason():
        return np.full(steps + 1, np.nan), np.full(steps + 1, np.nan)
    heavier = 0.5 * linear.inertia(momentum)[0] / rate  # the symmetric mass
    ages = linear.mean_age(interval, momentum)
    for lag in (ages if linear.given_ages else float(interval), ages):
        osc = linear.oscillator(rate, momentum, lag)
        osc = replace(osc, mass=osc.mass + heavier)
        with np.errstate(over="ignore", invalid="ignore"):
            result.append(np.asarray(theory.response(osc, time, start, final)))
    return result[0], result[1]
