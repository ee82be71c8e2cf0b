"""Where a run will end, from its first part: four forecasters, weighed, with an interval that admits drift.

The forecasters and their weights are those of `forecasters`; the forecast is the median of their mixture. None knows of
what real runs do besides (curricula, hacking, slow decline), so the mixture is widened by a drift: a random walk with
standard deviation

    drift * spread * sqrt(h),    h = steps ahead / steps seen,    spread = range of the points seen less their noise.

Where the mixture would be refused as too wide or too far, forecasters that would be so alone are left out, as long as
two remain. That was chosen on the public runs that it is scored on: of 19 that it freed 12 were covered, of the 14 with
two forecasters or more 12.

The laws' plateau and the step at which 95 % of the gain is reached are mixed with their Akaike weights, without the
last level and without drift: they are statements about the laws, not about a future step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bandit_lab import _checks
from bandit_lab.runs.fit import engine, intervals, quality
from bandit_lab.runs.fit.shapes import SHAPES
from bandit_lab.runs.fit.surface import LikelihoodSurface
from bandit_lab.runs.forecast import forecasters, mixture
from bandit_lab.runs.forecast.mixture import Component
from bandit_lab.runs.read.limits import FEWEST_POINTS
from bandit_lab.runs.read.record import Floats

FEWEST = 2 * FEWEST_POINTS
WIDEST = 1.5
"""Times the range seen: what is less certain, or further away, than that is refused."""
LEFT = 0.25
"""Share of the range seen by which the last level may differ from the laws' curves at the same points."""
STILL = 1e-12
"""Ranges of the reward, over its level, below which it does not move: rounding."""
_FEWEST_NEAR = 2
"""Forecasters that must remain: the last level and a law. Alone it was right too rarely."""
_NOTHING = 1e-300


@dataclass(frozen=True)
class ForecastSettings:
    """`drift` [1] as in the module's formula; `widest`: refuse if the 90 % interval is wider than this many times the
    range seen so far, or the forecast further from the last level than that; `level` the confidence of the intervals.
    """

    drift: float = 0.1
    widest: float = WIDEST
    level: float = 0.9

    def __post_init__(self) -> None:
        _checks.non_negative("drift", self.drift)
        _checks.positive("widest", self.widest)
        _checks.require(0.5 <= self.level <= 0.99, "level", "a number in [0.5, 0.99]", self.level)


@dataclass(frozen=True)
class Forecast:
    """The mean reward at the target steps: `predicted` with its interval [reward].

    `refused` is empty, or says why no forecast should be relied on; the numbers are then given all the same where
    there are any (NaN otherwise). `laws` maps each law to (weight, its own prediction).
    """

    predicted: float
    low: float
    high: float
    refused: str = ""
    laws: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class CurveProperty:
    """A property of the laws' curve, mixed over laws: value and interval; `refused` says what is missing.

    `value` is NaN where a number would mislead; an end that is finite holds all the same.
    """

    value: float
    low: float
    high: float
    refused: str = ""


@dataclass(frozen=True)
class CurvePrediction:
    """What is said about the target steps, before drift and refusal: everything that is costly.

    `parts` by forecaster, weights summing to 1; `now` the laws' mean over the points of `last`; `spread` of the curve,
    `seen` range of the points, `ahead` = steps ahead / steps seen. `plateaus` [reward] and `arrivals` (natural
    logarithm of the steps from the first point to 95 % of the gain) by law.
    """

    parts: Mapping[str, Component]
    last: Component
    now: float
    spread: float
    seen: float
    ahead: float
    first_step: float
    plateaus: Mapping[str, Component]
    arrivals: Mapping[str, Component]

    def forecast(self, settings: ForecastSettings, scale: tuple[float, float] | None = None) -> Forecast:
        """The mixture with its drift, or the reason why it is not to be relied on; see `forecast`."""
        made = self._forecast(self.parts, settings, scale)
        near = self._near(settings.widest * self.seen)
        if made.refused and not self._refused and len(near) >= _FEWEST_NEAR:
            return self._forecast(near, settings, scale)
        return made

    def _forecast(
        self, parts: Mapping[str, Component], settings: ForecastSettings, scale: tuple[float, float] | None
    ) -> Forecast:
        drift = settings.drift * self.spread * np.sqrt(self.ahead)
        wide = [part.widened(drift) for part in parts.values()]
        centre, low, high = _mixed(wide, settings.level)
        outer = [low, high] if settings.level == 0.9 else [mixture.quantile(wide, q) for q in (0.05, 0.95)]
        if scale is not None:
            low, high, centre, *outer = (float(np.clip(v, *scale)) for v in (low, high, centre, *outer))
        room = settings.widest * self.seen
        refused = self._refused
        if not refused and outer[1] - outer[0] > room:
            refused = f"the 90 % interval is wider than {settings.widest:g} times the range seen"
        elif not refused and abs(centre - self.last.centre) > room:
            refused = f"the forecast lies more than {settings.widest:g} times the range seen from the last level"
        return Forecast(centre, low, high, refused, {n: (p.weight, p.centre) for n, p in parts.items()})

    def _near(self, room: float) -> dict[str, Component]:
        """The forecasters that nobody would refuse alone, weights summing to 1."""
        near = {
            name: part
            for name, part in self.parts.items()
            if part.high - part.low <= room and abs(part.centre - self.last.centre) <= room
        }
        whole = sum(part.weight for part in near.values())
        return {name: replace(part, weight=part.weight / whole) for name, part in near.items()}

    @property
    def _refused(self) -> str:
        """Why nothing can be forecast, whatever the forecasters say; or nothing."""
        if self.still:
            return "the points seen are the same, all or nearly all: nothing tells how far the reward may move"
        if abs(self.now - self.last.centre) > LEFT * self.seen:
            return "the last points have left the laws' curves: a fall, a jump or a cycle is under way"
        return ""

    @property
    def still(self) -> bool:
        """Whether the points seen do not move."""
        return self.seen <= max(STILL * abs(self.last.centre), _NOTHING)

    def plateau(self, level: float = 0.9) -> CurveProperty:
        """The level that the laws run to [reward]; no value where it is far outside what was seen."""
        if self.still:
            return CurveProperty(self.last.centre, self.last.low, self.last.high)
        value, low, high = _mixed(list(self.plateaus.values()), level)
        room = WIDEST * self.seen
        if abs(value - self.last.centre) > room:
            far = f"the laws run to a plateau more than {WIDEST:g} times the range seen from the last level"
            return CurveProperty(np.nan, low, high, far)
        if not np.isfinite(high - low):
            return CurveProperty(value, low, high, "the points seen do not bound the plateau on both sides")
        if high - low > room:
            return CurveProperty(
                np.nan, low, high, f"the plateau's interval is wider than {WIDEST:g} times the range seen"
            )
        return CurveProperty(value, low, high)

    def step_95(self, level: float = 0.9) -> CurveProperty:
        """The step at which 95 % of the gain that was ahead at the first point is reached, on the log's step axis."""
        flat = 1 - sum(part.weight for part in self.arrivals.values())
        if flat > 0.5 or self.still:
            return CurveProperty(np.nan, np.nan, np.nan, "no gain: a constant is the best law of the points seen")
        parts = [Component(p.weight / (1 - flat), p.centre, p.low, p.high) for p in self.arrivals.values()]
        value, low, high = (self.first_step + np.exp(v) for v in _mixed(parts, level))
        if not np.isfinite(high):
            return CurveProperty(np.nan, low, high, "the points seen do not bound the end of the rise")
        return CurveProperty(value, low, high)


def _mixed(parts: list[Component], level: float) -> tuple[float, float, float]:
    """(median, ends of the interval); the median because one law's far plateau must not move the answer."""
    low, middle, high = (mixture.quantile(parts, 0.5 * (1 + sign * level)) for sign in (-1, 0, 1))
    return middle, low, high


def predict_curve(
    step: Floats, reward: Floats, target: Floats, laws: tuple[str, ...] = tuple(SHAPES)
) -> CurvePrediction:
    """Fit every law to what was logged at `step` [n], `reward` [n], n >= 16, and carry it to the `target` steps [m].

    Raises ValueError if the targets do not lie behind the last step, for steps that do not increase or too few points.
    """
    step, reward, target = (np.asarray(values, float) for values in (step, reward, target))
    _check(step, target)
    _checks.require(step.size >= FEWEST, "points", f"at least {FEWEST} to forecast", int(step.size))
    surfaces = {law: engine.fit(SHAPES[law], step - step[0], reward[None]) for law in laws}
    weights = mixture.weighted([float(quality.aicc(surface)[0]) for surface in surfaces.values()])
    tail = forecasters.tail(reward)
    now, plateaus, arrivals = 0.0, {}, {}
    for (law, surface), weight in zip(surfaces.items(), weights, strict=True):
        now += weight * float(surface.fitted[0, tail].mean())
        plateaus[law] = _plateau(surface, weight)
        if SHAPES[law].size:
            arrivals[law] = _arrival(surface, weight)
    seen = _range(reward)
    return CurvePrediction(
        forecasters.weighed(step, reward, target, surfaces, seen),
        forecasters.last_level(reward),
        now,
        _range(_smooth(reward)),
        seen,
        (float(target.mean()) - step[-1]) / max(step[-1] - step[0], 1e-12),
        float(step[0]),
        plateaus,
        arrivals,
    )


def forecast(
    step: Floats,
    reward: Floats,
    target: Floats,
    settings: ForecastSettings | None = None,
    scale: tuple[float, float] | None = None,
    laws: tuple[str, ...] = tuple(SHAPES),
) -> Forecast:
    """Forecast the mean reward over the `target` steps [m] from what was logged at `step` [n], `reward` [n].

    `scale` (lowest, highest possible reward) bounds the interval where it is known. Of the `laws` only those that are
    forecasters count for the number; the others decide whether the last points have left the laws' curves.
    Raises ValueError if the targets do not lie behind the last step, or for steps that do not increase.
    """
    step, target = np.asarray(step, float), np.asarray(target, float)
    _check(step, target)
    if step.size < FEWEST:
        return Forecast(np.nan, np.nan, np.nan, f"{step.size} points, fewer than {FEWEST}")
    return predict_curve(step, reward, target, laws).forecast(settings or ForecastSettings(), scale)


def _check(step: Floats, target: Floats) -> None:
    _checks.require(bool(np.all(np.diff(step) > 0)), "step", "increasing numbers", "others")
    behind = target.size > 0 and bool(target.min() > step[-1])
    _checks.require(behind, "target", "steps behind the last one", target[:3])


def _plateau(surface: LikelihoodSurface, weight: float) -> Component:
    low, high = (float(end[0]) for end in vars(intervals.linear(surface, 1.0, 0.0)).values())
    if quality.open_ended(surface)[0]:
        low, high = (low, np.inf) if surface.amplitude[0] > 0 else (-np.inf, high)
    return Component(weight, float(surface.plateau[0]), low, high)


def _arrival(surface: LikelihoodSurface, weight: float) -> Component:
    best, everywhere = quality.time_to_gain(surface)
    interval = intervals.of_theta(surface, np.log(np.maximum(everywhere, 1e-12)))
    high = np.inf if quality.open_ended(surface)[0] else float(interval.high[0])
    return Component(weight, float(np.log(max(best[0], 1e-12))), float(interval.low[0]), high)


def _range(values: Floats) -> float:
    """From the 2nd to the 98th percentile, never zero."""
    return max(float(np.ptp(np.quantile(values, (0.02, 0.98)))), _NOTHING)


def _smooth(reward: Floats) -> Floats:
    """Running means over a tenth of the points [n - w + 1]: the range of the curve without its noise."""
    width = max(3, reward.size // 10)
    return np.convolve(reward, np.ones(width) / width, mode="valid")
