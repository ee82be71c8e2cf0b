"""The deterministic half of a sweep: one drift's fixed points, stiffness, thresholds and outcomes, both ways."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bandit_lab import measure
from bandit_lab._types import Outcome
from bandit_lab.grpo import Hyper, draws
from bandit_lab.lab.predict.linear import DRAWN, LinearTheory, RateThreshold, linearise
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.loop import response_of
from bandit_lab.measure import Boundary, FixedPoint, StiffnessReport

SAME = 1e-3  # an onset this close above the threshold is the threshold itself, crossed with a negative multiplier
NO_RINGING = "stability is lost before any oscillation"
NO_MEASURE = "the optimiser {} has no noise-free fixed point to displace a run from"


@dataclass(frozen=True)
class Equilibrium:
    """One drift at one KL weight: its fixed point and stiffness, measured, and the theory's view of the same."""

    dynamics: str
    kl_weight: float
    point: FixedPoint
    stiffness: StiffnessReport | None
    linear: LinearTheory


@dataclass(frozen=True)
class Predicted:
    """Closed-form values, one list entry per row."""

    law: list[RateThreshold]
    exact: list[RateThreshold]
    onset: list[RateThreshold]
    oscillator_onset: list[RateThreshold]
    undelayed: list[RateThreshold]


@dataclass(frozen=True)
class Drift:
    """Rows of one drift, before anything is measured: every combination of momentum, KL weight and refresh interval, in
    that order. cells: Hyper of arrays [R] (learning rate unused)."""

    dynamics: str
    name: str
    equilibria: tuple[Equilibrium, ...]
    cells: Hyper
    predicted: Predicted

    def equilibrium(self, kl_weight: float) -> Equilibrium:
        """The fixed point at a KL weight of the grid."""
        return next(g for g in self.equilibria if g.kl_weight == kl_weight)


@dataclass(frozen=True)
class DriftResult(Drift):
    """The same rows measured.

    boundary, onset: [R]; NaN where `reasons` says why. On the learning rates of the grid, [R, L] each: growth per step,
    rings > 0 where the stiffest mode's dominant pole is not real and positive, outcome codes. no_onset: why no onset of
    oscillation can be measured, or None.
    """

    boundary: np.ndarray
    onset: np.ndarray
    growth: np.ndarray
    rings: np.ndarray
    outcome: np.ndarray
    reasons: list[str | None]
    no_onset: str | None = None


class Detected(NamedTuple):
    """Result of a detector: value [R], on_grid [R, L], reasons [R] why a row's chunk failed, or None."""

    value: np.ndarray
    on_grid: np.ndarray
    reasons: list[str | None]


def find_equilibria(plan: SweepPlan, dynamics: str) -> tuple[Equilibrium, ...]:
    """Fixed point and stiffness of a drift at every KL weight of the grid."""
    equilibria = []
    for weight in map(float, plan.kl_weight):
        point = measure.find_fixed_point(plan.learner, dynamics, weight)
        report = measure.measure_stiffness(plan.learner, dynamics, weight, point) if point.exists else None
        linear = linearise(plan.learner, plan.settings, dynamics, weight, point)
        equilibria.append(Equilibrium(dynamics, weight, point, report, linear))
    return tuple(equilibria)


def rows(momenta: np.ndarray, weights: np.ndarray, intervals: np.ndarray) -> Hyper:
    """Every combination, refresh interval fastest; the learning rate is left at 1."""
    mesh = np.meshgrid(momenta, weights, intervals, indexing="ij")
    momentum, weight, interval = (m.ravel() for m in mesh)
    return Hyper(np.ones(len(momentum)), momentum, interval, weight)


def _silent(done: int, total: int) -> None:
    return None


def predict_rows(
    equilibria: tuple[Equilibrium, ...],
    cells: Hyper,
    progress: Callable[[int, int], None] = _silent,
) -> Predicted:
    """Law, exact threshold and onset of every row."""
    by_weight = {g.kl_weight: g.linear for g in equilibria}
    result = Predicted([], [], [], [], [])
    total = len(cells.momentum)
    for i, (momentum, weight, interval) in enumerate(
        zip(cells.momentum, cells.kl_weight, cells.refresh_interval, strict=True)
    ):
        linear, setting = by_weight[float(weight)], (interval.item(), float(momentum))
        result.law.append(linear.law(*setting))
        exact, onset = linear.threshold(*setting), linear.onset(*setting)
        late = exact.value is not None and onset.value is not None and onset.value > exact.value * (1 + SAME)
        result.exact.append(exact)
        result.onset.append(RateThreshold.absent(NO_RINGING) if late else onset)
        result.oscillator_onset.append(linear.oscillator_onset(*setting))
        result.undelayed.append(linear.undelayed(float(momentum)))
        progress(i + 1, total)
    return result


def values(column: list[RateThreshold]) -> np.ndarray:
    """Values [R], NaN where there are none."""
    return np.array([np.nan if v.value is None else v.value for v in column])


def collect_rows(
    plan: SweepPlan, drift: Drift, rates: np.ndarray, boundaries: Detected, onsets: Detected
) -> DriftResult:
    """Thresholds, onsets and outcomes of every row."""
    cells, equilibria = drift.cells, drift.equilibria
    reasons = [one or other for one, other in zip(boundaries.reasons, onsets.reasons, strict=True)]
    for equilibrium in equilibria:
        reason = unmeasured_reason(plan, equilibrium)
        for i in np.flatnonzero(cells.kl_weight == equilibrium.kl_weight) if reason else ():
            reasons[i] = reason
    boundary, growth, onset, rings = boundaries.value, boundaries.on_grid, onsets.value, onsets.on_grid
    lost = np.where(growth[:, 0] > 0, rates[0], boundary)  # the grid may begin where stability is lost already
    onset = np.where(onset > lost * (1 + SAME), np.nan, onset)
    for equilibrium in equilibria:  # a complex stiffness rings at every learning rate
        if equilibrium.stiffness is not None and np.iscomplexobj(equilibrium.stiffness.relaxation):
            onset[cells.kl_weight == equilibrium.kl_weight] = np.nan
    outcome = _outcomes(growth, rings)
    outcome[[reason is not None for reason in reasons]] = Outcome.UNDECIDED
    return DriftResult(
        **vars(drift),
        boundary=boundary,
        onset=onset,
        growth=growth,
        rings=rings,
        outcome=outcome,
        reasons=reasons,
        no_onset=no_onset(plan, cells),
    )


def unmeasured_reason(plan: SweepPlan, equilibrium: Equilibrium) -> str | None:
    """Why a drift's rows at a KL weight have no measured thresholds, or None."""
    if not equilibrium.point.exists:
        return equilibrium.point.reason
    if draws(plan.learner.staleness):
        return DRAWN
    optimizer = plan.learner.optimizer
    return NO_MEASURE.format(optimizer.convention) if response_of(optimizer, 0.5) is None else None


def no_onset(plan: SweepPlan, cells: Hyper) -> str | None:
    """Why no onset of oscillation can be measured with this staleness model, or None."""
    return measure.unsampled_reason(plan.learner, cells.refresh_interval)


def measure_boundary(plan: SweepPlan, equilibrium: Equilibrium, cells: Hyper, rates: np.ndarray) -> Boundary:
    """Where a displacement begins to grow, from runs of the nonlinear mean update alone."""
    direction = measure.generic_direction(equilibrium.point.basis)
    theta, several = _theta(equilibrium, cells), _at_least_two(rates)
    found = measure.learning_rate_boundary(plan.learner, equilibrium.dynamics, cells, theta, direction, several)
    return _only(found, rates)


def measure_onset(plan: SweepPlan, equilibrium: Equilibrium, cells: Hyper, rates: np.ndarray) -> Boundary:
    """Where a displacement along the stiffest mode begins to oscillate, from the same runs."""
    assert equilibrium.stiffness is not None
    direction, projector = measure.stiffest_mode(equilibrium.stiffness.relaxation_matrix, equilibrium.point.basis)
    theta, several = _theta(equilibrium, cells), _at_least_two(rates)
    found = measure.learning_rate_onset(plan.learner, equilibrium.dynamics, cells, theta, direction, projector, several)
    return _only(found, rates)


def _theta(equilibrium: Equilibrium, cells: Hyper) -> np.ndarray:
    """The fixed point's parameters [C, D], once per cell."""
    assert equilibrium.point.theta is not None
    return np.tile(equilibrium.point.theta, (len(cells.momentum), 1))


def _at_least_two(rates: np.ndarray) -> np.ndarray:
    return rates if len(rates) > 1 else np.array([rates[0], rates[0] * 1.001])


def _only(found: Boundary, rates: np.ndarray) -> Boundary:
    if len(rates) > 1:
        return found
    return replace(found, value=np.full_like(found.value, np.nan), on_grid=found.on_grid[:, :1])


def _outcomes(growth: np.ndarray, rings: np.ndarray) -> np.ndarray:
    """Codes [R, L]; undecided where nothing was measured, or where a decay may ring for all that is known."""
    pole = np.where(rings > 0, -1.0, 1.0)
    codes = measure.classify_mean(growth, pole)
    return np.where(np.isnan(rings) & ~(growth > 0), Outcome.UNDECIDED, codes).astype(np.int8)
