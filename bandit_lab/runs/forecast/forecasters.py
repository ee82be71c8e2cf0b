"""Four forecasts of a later level, weighed by their own errors on the run's first part.

The forecasters: the level of the last points, an exponential, a sigmoid and ScaleRL's sigmoid. Each also forecasts a
stretch of what was seen from its first half and from its first 70 %, as far ahead as the target lies (as nearly as
there is room). With e its mean absolute error there, over the range seen and at most 1,

    weight ~ (e + FLOOR)^(-POWER),    half its 90 % interval <= TRUST e ranges.

The interval of a law holds if the law does; its error on the run itself says how far it did.

How they were chosen: on 80 forecasts (31 runs of 40 points or more, cut at 30, 50, 70 %) of the development half of
conf/benchmark/real_runs.yaml, by mean and median error over the range seen. Tried were subsets of five laws, the last
level and ScaleRL's sigmoid, powers 0 to 4, intervals of 0.5 to 3 e or as they are, drifts of 0.05 to 0.2. Median there:
0.067, against 0.082 of the median of the same four unweighed; half laws, half last level, used before: 0.090. Most
choices of power and subset differ by less than the choice of runs. The other half was scored once, after that:
`experiments/grading/public_forecasts.py`.
"""

from collections.abc import Mapping

import numpy as np

from bandit_lab.runs.fit import engine, intervals
from bandit_lab.runs.fit.shapes import SCALERL_SIGMOID, SHAPES
from bandit_lab.runs.fit.surface import LikelihoodSurface
from bandit_lab.runs.forecast import mixture
from bandit_lab.runs.forecast.mixture import Component
from bandit_lab.runs.read.record import Floats

LAST_LEVEL = "last_level"
CURVES = {name: SHAPES[name] for name in ("single_exponential", "sigmoid")} | {SCALERL_SIGMOID.name: SCALERL_SIGMOID}
CUTS = (0.5, 0.7)
"""Shares of what was seen from which the rest of it is forecast."""
FLOOR = 0.03
"""Of the error, over the range seen: noise of a stretch's level."""
POWER = 0.5
TRUST = 3.0
_SHORTEST = 10
"""Points of a first part to fit a curve to."""


def weighed(
    step: Floats, reward: Floats, target: Floats, fitted: Mapping[str, LikelihoodSurface], seen: float
) -> dict[str, Component]:
    """Forecaster -> its mean over the target steps [m], with weights that sum to 1, from `step` [n], `reward` [n].

    `fitted` holds the surfaces that are known already; `seen` is the range of the rewards.
    """
    found = _forecasts(step, reward, target, fitted)
    errors = _own_errors(step, reward, target, seen)
    raw = {name: (errors[name] + FLOOR) ** -POWER for name in found}
    whole = sum(raw.values())
    return {name: _limited(part, raw[name] / whole, TRUST * errors[name] * seen) for name, part in found.items()}


def _forecasts(
    step: Floats, reward: Floats, target: Floats, fitted: Mapping[str, LikelihoodSurface]
) -> dict[str, Component]:
    surfaces = {
        name: fitted[name] if name in fitted else engine.fit(shape, step - step[0], reward[None])
        for name, shape in CURVES.items()
    }
    return {LAST_LEVEL: last_level(reward)} | {
        name: mean_of(surface, target - step[0]) for name, surface in surfaces.items()
    }


def _limited(part: Component, weight: float, most: float) -> Component:
    return Component(weight, part.centre, max(part.low, part.centre - most), min(part.high, part.centre + most))


def _own_errors(step: Floats, reward: Floats, target: Floats, seen: float) -> dict[str, float]:
    """Mean absolute error of each forecaster within what was seen, over the range seen and at most 1."""
    ahead = (float(target.mean()) - step[-1]) / (step[-1] - step[0])
    found = []
    for share in CUTS:
        first = round(share * step.size)
        if first < _SHORTEST:
            continue
        stretch = _stretch(step, first, ahead)
        actual = float(reward[stretch].mean())
        made = _forecasts(step[:first], reward[:first], step[stretch], {})
        found.append({name: min(abs(part.centre - actual) / seen, 1.0) for name, part in made.items()})
    return {name: float(np.mean([errors[name] for errors in found])) for name in (LAST_LEVEL, *CURVES)}


def _stretch(step: Floats, first: int, ahead: float) -> slice:
    """A tenth of the points behind the first ones, about as far ahead, over what they span, as is wanted."""
    width = max(3, round(0.1 * step.size))
    stretches = [slice(at, min(at + width, step.size)) for at in range(first, step.size - width // 2, width)]
    span = step[first - 1] - step[0]
    away = [abs(np.log((float(step[one].mean()) - step[first - 1]) / span / ahead)) for one in stretches]
    return stretches[int(np.argmin(away))]


def last_level(reward: Floats) -> Component:
    """The mean of the last points, with its own standard error."""
    last = reward[tail(reward)]
    error = mixture.Z90 * float(np.std(last, ddof=1)) * np.sqrt(2.0 / last.size)
    return Component(1.0, float(last.mean()), float(last.mean() - error), float(last.mean() + error))


def tail(reward: Floats) -> slice:
    """The last tenth of the points, at least five."""
    return slice(-max(5, reward.size // 10), None)


def mean_of(surface: LikelihoodSurface, behind: Floats) -> Component:
    """A law's mean over steps that lie `behind` [m] the first point."""
    rho = float(np.clip(surface.rho[0], 0, 0.9))
    extra = (1 + rho) / (1 - rho) / behind.size
    ahead = (surface.shape.growth(behind, surface.shapes[..., None, :]) - 1).mean(axis=-1)
    here = float((surface.shape.growth(behind, surface.theta[:, None, :]) - 1).mean())
    interval = intervals.linear(surface, 1.0, ahead, extra=extra)
    centre = float(surface.plateau[0] + surface.amplitude[0] * here)
    return Component(1.0, centre, float(interval.low[0]), float(interval.high[0]))
