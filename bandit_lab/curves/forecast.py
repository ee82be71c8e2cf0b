"""Where a run will end, from its first part: every law's forecast, weighted, with an interval that admits drift.

Each law gives the mean reward over the target steps with a profile interval. The laws are mixed with their Akaike
weights, and with the level of the last points as one more law that assumes nothing: laws that fit a rise perfectly
extrapolate it too far. No law knows of what real runs do besides (curricula, hacking, slow decline), so the mixture
is widened by a drift: a random walk with standard deviation

    drift * spread * sqrt(h),    h = steps ahead / steps seen,    spread = range of the points seen less their noise.

The value of `drift` is chosen on runs of other origin than those it is judged on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, stats

from bandit_lab import _checks
from bandit_lab.curves.fit import engine, intervals, quality
from bandit_lab.curves.fit.results import FEWEST_POINTS
from bandit_lab.curves.fit.shapes import SHAPES
from bandit_lab.curves.record import Floats

FEWEST = 2 * FEWEST_POINTS


@dataclass(frozen=True)
class ForecastSettings:
    """`drift` [1] as in the module's formula; `last_weight` in [0, 1] the weight of the last level; `widest`: refuse
    if the 90 % interval is wider than this many times the range seen so far, or the forecast further from the last
    level than that."""

    drift: float = 0.1
    last_weight: float = 0.5
    widest: float = 1.5

    def __post_init__(self) -> None:
        _checks.non_negative("drift", self.drift)
        _checks.positive("widest", self.widest)
        _checks.require(0 <= self.last_weight <= 1, "last_weight", "a number in [0, 1]", self.last_weight)


@dataclass(frozen=True)
class Forecast:
    """The mean reward at the target steps: `predicted` with its 90 % interval [reward].

    `refused` is empty, or says why no forecast should be relied on; the numbers are then given all the same where
    there are any (NaN otherwise). `laws` maps each law to (weight, its own prediction).
    """

    predicted: float
    low: float
    high: float
    refused: str = ""
    laws: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Part:
    weight: float
    centre: float
    low: float
    high: float


def forecast(
    step: Floats,
    reward: Floats,
    target: Floats,
    settings: ForecastSettings | None = None,
    scale: tuple[float, float] | None = None,
) -> Forecast:
    """Forecast the mean reward over the `target` steps [m] from what was logged at `step` [n], `reward` [n].

    `scale` (lowest, highest possible reward) bounds the interval where it is known. Raises ValueError if the targets
    do not lie behind the last step, or for steps that do not increase.
    """
    settings = settings or ForecastSettings()
    step, reward, target = (np.asarray(values, float) for values in (step, reward, target))
    _checks.require(bool(np.all(np.diff(step) > 0)), "step", "increasing numbers", "others")
    _checks.require(
        target.size > 0 and bool(target.min() > step[-1]), "target", "steps behind the last one", target[:3]
    )
    if step.size < FEWEST:
        return Forecast(np.nan, np.nan, np.nan, f"{step.size} points, fewer than {FEWEST}")
    scored = {law: _law(law, step, reward, target) for law in SHAPES}
    parts = _weighted(scored, _last(reward), settings.last_weight)
    spread = max(float(np.ptp(np.quantile(_smooth(reward), (0.02, 0.98)))), 1e-12)
    ahead = (float(target.mean()) - step[-1]) / max(step[-1] - step[0], 1e-12)
    drift = settings.drift * spread * np.sqrt(ahead)
    centre = float(sum(part.weight * part.centre for part in parts.values()))
    low, high = (_quantile(list(parts.values()), drift, q) for q in (0.05, 0.95))
    if scale is not None:
        low, high, centre = (float(np.clip(v, *scale)) for v in (low, high, centre))
    room = settings.widest * max(float(np.ptp(np.quantile(reward, (0.02, 0.98)))), 1e-12)
    refused = ""
    if high - low > room:
        refused = f"the 90 % interval is wider than {settings.widest:g} times the range seen"
    elif abs(centre - parts["last_level"].centre) > room:
        refused = f"the forecast lies more than {settings.widest:g} times the range seen from the last level"
    return Forecast(centre, low, high, refused, {law: (part.weight, part.centre) for law, part in parts.items()})


def _law(law: str, step: Floats, reward: Floats, target: Floats) -> tuple[float, _Part]:
    """(AICc, forecast) of one law."""
    picture = engine.fit(SHAPES[law], step - step[0], reward[None])
    rho = float(np.clip(picture.rho[0], 0, 0.9))
    extra = (1 + rho) / (1 - rho) / target.size
    if SHAPES[law].size:
        behind = target - step[0]
        ahead = (SHAPES[law].growth(behind, picture.shapes[..., None, :]) - 1).mean(axis=-1)
        here = float((SHAPES[law].growth(behind, picture.theta[:, None, :]) - 1).mean())
        interval = intervals.linear(picture, 1.0, ahead, extra=extra)
        centre = float(picture.plateau[0] + picture.amplitude[0] * here)
    else:
        interval = intervals.linear(picture, 1.0, 0.0, extra=extra)
        centre = float(picture.plateau[0])
    return float(quality.aicc(picture)[0]), _Part(1.0, centre, float(interval.low[0]), float(interval.high[0]))


def _last(reward: Floats) -> _Part:
    """The mean of the last tenth of the points (at least five), with its own standard error."""
    tail = reward[-max(5, reward.size // 10) :]
    error = 1.645 * max(float(np.std(tail, ddof=1)), 1e-12) * np.sqrt(2.0 / tail.size)
    return _Part(1.0, float(tail.mean()), float(tail.mean() - error), float(tail.mean() + error))


def _weighted(parts: Mapping[str, tuple[float, _Part]], last: _Part, last_weight: float) -> dict[str, _Part]:
    smallest = min(score for score, _ in parts.values())
    raw = {law: float(np.exp(-0.5 * (score - smallest))) for law, (score, _) in parts.items()}
    total = sum(raw.values()) / (1 - last_weight) if last_weight < 1 else np.inf
    mixed = {law: _Part(raw[law] / total, p.centre, p.low, p.high) for law, (_, p) in parts.items()}
    return {**mixed, "last_level": _Part(last_weight, last.centre, last.low, last.high)}


def _smooth(reward: Floats) -> Floats:
    """Running means over a tenth of the points [n - w + 1]: the range of the curve without its noise."""
    width = max(3, reward.size // 10)
    return np.convolve(reward, np.ones(width) / width, mode="valid")


def _quantile(parts: list[_Part], drift: float, probability: float) -> float:
    """Quantile of the mixture of two-sided normals (each side as wide as its interval says), widened by the drift."""

    def widths(part: _Part) -> tuple[float, float]:
        left, right = max(part.centre - part.low, 1e-12) / 1.645, max(part.high - part.centre, 1e-12) / 1.645
        return float(np.hypot(left, drift)), float(np.hypot(right, drift))

    def below(x: float) -> float:
        total = 0.0
        for part in parts:
            left, right = widths(part)
            total += part.weight * float(stats.norm.cdf((x - part.centre) / (left if x < part.centre else right)))
        return total - probability

    ends = [
        part.centre + sign * 12 * width for part in parts for sign, width in zip((-1, 1), widths(part), strict=True)
    ]
    return float(optimize.brentq(below, min(ends), max(ends)))
