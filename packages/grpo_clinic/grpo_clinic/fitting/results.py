"""What a fit says, in numbers with uncertainties: every law, the one preferred, and what cannot be known."""

from dataclasses import dataclass

import numpy as np

from grpo_clinic import _checks
from grpo_clinic.fitting import engine, intervals
from grpo_clinic.fitting.engine import LikelihoodSurface
from grpo_clinic.fitting.likelihood import RHO
from grpo_clinic.fitting.shapes import SHAPES, UNITS
from grpo_clinic.readers.limits import FEWEST_POINTS
from grpo_clinic.readers.record import Floats

_WIDEST = 2.0
"""Ranges of the curve: a plateau whose interval is wider is not identified."""
LITTLE = 0.5
"""Share of the explainable variance below which no law is said to describe a curve."""
OVERSHOOT = 0.69
"""Damping ratio at which the oscillator passes its plateau by 5 % of the gain, exp(-pi zeta/sqrt(1 - zeta^2))."""
MARGIN = 4.0
"""AICc by which an overshooting oscillator must beat every other law to be chosen: on monotone curves it then is in
at most 5 % of them."""


@dataclass(frozen=True)
class FittedNumber:
    """A number with its profile interval; an infinite end means that the curve does not bound it there.

    `standard_error` is half the interval over Student's t, infinite where the curve does not bound the number. That end
    of a positive number is then 0 or infinity. Those of the noise (sigma, rho) are asymptotic.
    """

    value: float
    low: float
    high: float
    standard_error: float
    unit: str

    @property
    def bounded(self) -> bool:
        """Whether the curve bounds it on both sides."""
        return bool(np.isfinite((self.standard_error, self.low, self.high)).all())


@dataclass(frozen=True)
class LawFit:
    """One law on one curve.

    `parameters` by name: plateau, amplitude, initial (value at the first step), delay, damping_ratio, start, speed as
    the law has them. Then `tau_95`, steps to 95 % of the gain still ahead at the first step; noise: `sigma`, `rho`.
    `status` is `ok`, or says what is not identifiable from this curve.
    """

    law: str
    parameters: dict[str, FittedNumber]
    log_likelihood: float
    aicc: float
    r_squared: float
    r_squared_explainable: float
    fitted: Floats
    status: str

    @property
    def overshoots(self) -> bool:
        """Whether it passes its plateau by 5 % of the gain or more and comes back."""
        ratio = self.parameters.get("damping_ratio")
        return ratio is not None and ratio.value < OVERSHOOT


@dataclass(frozen=True)
class CurveFit:
    """All laws on one curve, the one with the smallest AICc first in `ranked`."""

    n_points: int
    laws: dict[str, LawFit]

    @property
    def ranked(self) -> list[str]:
        """Names of the laws by AICc, best first."""
        return sorted(self.laws, key=lambda law: self.laws[law].aicc)

    @property
    def best(self) -> LawFit:
        """The chosen law: the smallest AICc, but an oscillator that overshoots only if it is clearly better.

        Of its many wiggles one nearly always fits noise, which AICc does not count: see `MARGIN`.
        """
        first, *others = (self.laws[law] for law in self.ranked)
        monotone = [one for one in others if not one.overshoots]
        if first.overshoots and monotone and monotone[0].aicc - first.aicc < MARGIN:
            return monotone[0]
        return first


def fit_curve(step: Floats, reward: Floats, laws: tuple[str, ...] = tuple(SHAPES), level: float = 0.9) -> CurveFit:
    """Fit the named laws to rewards [T] at steps [T], their intervals at this level of confidence.

    Raises ValueError for fewer than 8 points, steps that do not increase, values that are not finite, unknown laws.
    """
    for law in laws:
        _checks.choice("laws", law, SHAPES)
    step, reward = np.asarray(step, float), np.asarray(reward, float)
    _checks.require(step.size >= FEWEST_POINTS, "points", f"at least {FEWEST_POINTS} to fit a law", int(step.size))
    _checks.require(reward.shape == step.shape, "rewards", f"[{step.size}]", reward.shape)
    _checks.require(bool(np.all(np.diff(step) > 0)), "step", "increasing numbers", "others")
    _checks.require(bool(np.all(np.isfinite(reward))), "rewards", "finite numbers", "others")
    surfaces = {law: engine.fit(SHAPES[law], step - step[0], reward) for law in laws}
    return CurveFit(step.size, {law: _law_fit(one, reward, level) for law, one in surfaces.items()})


def _law_fit(surface: LikelihoodSurface, reward: Floats, level: float) -> LawFit:
    numbers = _numbers(surface, level)
    residual, total = (float(np.sum(values**2)) for values in (reward - surface.fitted, reward - reward.mean()))
    explainable = total - (reward.size - 1) * _noise_variance(reward)
    enough = explainable > 0.05 * max(total, 1e-300)
    return LawFit(
        law=surface.shape.name,
        parameters=numbers,
        log_likelihood=surface.log_likelihood,
        aicc=surface.aicc,
        r_squared=1 - residual / total if total > 0 else 0.0,
        r_squared_explainable=min((total - residual) / explainable, 1.0) if enough else np.nan,
        fitted=surface.fitted,
        status=_status(surface, reward, numbers),
    )


def _noise_variance(reward: Floats) -> float:
    """Variance of what changes from one logged point to the next: mean of (y_{i-1} - 2 y_i + y_{i+1})^2 / 6.

    Smooth trends drop out (Gasser, Sroka and Jennen-Steinmetz 1986). Autocorrelated noise is underestimated by it, so
    that the explainable part comes out too large rather than too small.
    """
    return float(np.mean((reward[:-2] - 2 * reward[1:-1] + reward[2:]) ** 2)) / 6


def _numbers(surface: LikelihoodSurface, level: float) -> dict[str, FittedNumber]:
    t, shape = intervals.quantile(surface, level), surface.shape
    numbers: dict[str, FittedNumber] = {}

    def put(name: str, value: float, ends: intervals.Interval, below: bool = False, above: bool = False) -> None:
        """A number; `below`, `above`: the curve does not bound it there."""
        low = (-np.inf if name in ("start", "plateau") else 0.0) if below else ends[0]
        high = np.inf if above else ends[1]
        lost = (below or above) and name in shape.parameters
        numbers[name] = FittedNumber(value, low, high, np.inf if lost else (high - low) / (2 * t), UNITS[name])

    slow, rising = _open_ended(surface), surface.amplitude > 0
    plateau = intervals.linear(surface, 1.0, 0.0, level)
    put("plateau", surface.plateau, plateau, slow and not rising, slow and rising)
    if shape.size:
        first, here = (
            shape.growth(surface.time[:1], theta[..., None, :])[..., 0] - 1 for theta in (surface.shapes, surface.theta)
        )
        put("amplitude", surface.amplitude, intervals.linear(surface, 0.0, 1.0, level))
        initial = surface.plateau + surface.amplitude * float(here)
        put("initial", initial, intervals.linear(surface, 1.0, first, level))
        values, at_best = shape.meaning(surface.shapes), shape.meaning(surface.theta)
        below, above = intervals.at_bounds(surface, level)
        for place, name in enumerate(shape.parameters):
            ends = intervals.of_theta(surface, values[name], level)
            put(name, float(at_best[name]), ends, bool(below[place]), bool(above[place]))
        arrival = _time_to_gain(surface, surface.shapes)
        ends = intervals.of_theta(surface, arrival, level)
        put("tau_95", float(_time_to_gain(surface, surface.theta[None])[0]), ends, above=slow)
    for name, (value, error) in noise_errors(surface).items():
        low = max(value - t * error, -1.0 if name == "rho" else 0.0)
        numbers[name] = FittedNumber(value, low, value + t * error, error, UNITS[name])
    return numbers


def noise_errors(surface: LikelihoodSurface) -> dict[str, tuple[float, float]]:
    """Noise parameter -> (value, asymptotic standard error).

    AR(1) over n points: Var(rho) = (1 - rho^2)/n, and Var(sigma) = sigma^2 (1 + rho^2)/(1 - rho^2)/(2 n) for the
    standard deviation sigma of the noise itself. rho is one of those that are tried: the variance of a rounding is
    added, to sigma as well, which is that of the innovations over sqrt(1 - rho^2).
    """
    rho, sigma, n = surface.rho, surface.sigma, surface.time.size
    wider, rounded = (1 + rho * rho) / (1 - rho * rho), float(RHO[1] - RHO[0]) / np.sqrt(12)
    return {
        "sigma": (sigma, float(sigma * np.hypot(np.sqrt(wider / (2 * n)), rounded * rho / (1 - rho * rho)))),
        "rho": (rho, float(np.hypot(np.sqrt((1 - rho * rho) / n), rounded))),
    }


def _open_ended(surface: LikelihoodSurface) -> bool:
    """Whether shapes slower than the curve can tell are accepted: the plateau then has no bound on its far side."""
    if not surface.shape.size:
        return False
    low, high = intervals.at_bounds(surface)
    names = surface.shape.parameters
    return bool(high[0] if "delay" in names else low[names.index("speed")])


def _time_to_gain(surface: LikelihoodSurface, theta: Floats, share: float = 0.95) -> Floats:
    """Steps from the first point to `share` of the gain still ahead there, for shapes [M, q].

    The last crossing, so that an overshoot does not count as arrival before it has decayed to within 1 - share.
    """
    slowest = 12.0 * max(float(surface.time[-1]), 1e-9)
    axis = np.concatenate(([0.0], np.geomspace(1e-3, 1, 160) * slowest))
    done = surface.shape.growth(axis, theta[:, None, :])
    away = np.abs(1 - done) / np.maximum(1 - done[:, :1], 1e-12)
    outside, every = away > 1 - share, np.arange(len(theta))
    last = np.where(outside.any(axis=-1), axis.size - 1 - outside[:, ::-1].argmax(axis=-1), 0)
    after = np.minimum(last + 1, axis.size - 1)
    here, there = away[every, last], away[every, after]
    part = np.clip((here - (1 - share)) / np.where(here > there, here - there, 1), 0, 1)
    return np.asarray(axis[last] + part * (axis[after] - axis[last]))


def _status(surface: LikelihoodSurface, reward: Floats, numbers: dict[str, FittedNumber]) -> str:
    """`ok`, or `not identifiable: ...` with the reason."""
    lost, names, plateau = [], surface.shape.parameters, numbers["plateau"]
    if not names:
        return "ok"
    if not plateau.high - plateau.low < _WIDEST * np.subtract(*np.quantile(reward, (0.98, 0.02))):
        rate = numbers["delay" if "delay" in names else "speed"]
        why = f"interval above {_WIDEST:g} times the curve's range"
        if _open_ended(surface):
            both = not rate.low > 0 and not np.isfinite(rate.high)
            why = "fast and slow rises fit alike" if both else "the curve ends before it bends"
        lost.append(f"plateau ({why})")
    for name in names:
        if not np.isfinite(numbers[name].standard_error):
            no_low = not numbers[name].low > (-np.inf if name == "start" else 0.0)
            side = "lower" if no_low else "upper"
            both = no_low and not np.isfinite(numbers[name].high)
            lost.append(f"{name} (no bound on either side)" if both else f"{name} (no {side} bound)")
    return "not identifiable: " + ", ".join(lost) if lost else "ok"
