"""From a fitted run to what is drawn of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bandit_lab.study.fit.work import Fitted
from bandit_lab.study.logs.findings import marks
from bandit_lab.study.logs.runs import Row


@dataclass(frozen=True)
class Panel:
    """What is drawn of one run. Steps and rewards in the log's units; `model` is the law's name.

    `plateau`, `arrival` = (value, low, high), ends may be infinite; `ahead` = (first step, last step, value, low, high)
    with `cut` the last step seen; `held_out` = (steps, values); `lost` steps without a finite reward; `events` =
    (first step, last step, text) that are shaded and numbered.
    """

    title: str
    step: np.ndarray
    reward: np.ndarray
    fitted: np.ndarray
    sigma: float
    model: str
    unit: str = "steps"
    plateau: tuple[float, float, float] | None = None
    arrival: tuple[float, float, float] | None = None
    cut: float | None = None
    ahead: tuple[float, float, float, float, float] | None = None
    held_out: tuple[np.ndarray, np.ndarray] | None = None
    lost: np.ndarray = field(default_factory=lambda: np.zeros(0))
    events: Sequence[tuple[float, float, str]] = ()


def panel(row: Row[Fitted]) -> Panel:
    """The picture's content for one run."""
    curve, best, ahead = row.curve, row.found.best, row.found.ahead
    plateau, tau = best.parameters["plateau"], best.parameters.get("tau_95")
    first = float(curve.step[0])
    target = None
    if not ahead.refused:
        made = ahead.forecast_90
        target = (float(ahead.target[0]), float(ahead.target[-1]), made.predicted, made.low, made.high)
    held_out = None if curve.eval is None else (curve.eval.step, curve.eval.value)
    bounded = tau is not None and np.isfinite(tau.high)
    return Panel(
        title=row.log.name,
        step=curve.step,
        reward=curve.reward,
        fitted=best.fitted,
        sigma=best.parameters["sigma"].value,
        model=best.law,
        unit=curve.step_unit if curve.step_unit != "unknown" else "unit not known",
        plateau=(plateau.value, plateau.low, plateau.high),
        arrival=(first + tau.value, first + tau.low, first + tau.high) if tau is not None and bounded else None,
        cut=float(curve.step[ahead.points - 1]) if 0 < ahead.points < curve.step.size else None,
        ahead=target,
        held_out=held_out,
        lost=curve.nonfinite_steps,
        events=marks(row.found.diagnosis),
    )
