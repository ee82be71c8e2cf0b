"""What a fit says, in numbers with uncertainties: every law, the one preferred, and what cannot be known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from grpo_clinic import _checks
from grpo_clinic.fitting import engine, intervals, quality
from grpo_clinic.fitting.shapes import SHAPES, UNITS
from grpo_clinic.fitting.surface import LikelihoodSurface
from grpo_clinic.readers.limits import FEWEST_POINTS
from grpo_clinic.readers.record import Curve, Floats

_CHUNK = 3_000_000
"""Numbers in one array of a fit: what more curves than that need is fitted in parts."""
_WIDEST = 2.0
"""Ranges of the curve: a plateau whose interval is wider is not identified."""
OVERSHOOT = 0.69
"""Damping ratio at which the oscillator passes its plateau by 5 % of the gain, exp(-pi zeta/sqrt(1 - zeta^2))."""
MARGIN = 4.0
"""AICc by which an overshooting oscillator must beat every other law to be chosen: on monotone curves it then is in
at most 5 % of them."""


@dataclass(frozen=True)
class FittedNumber:
    """A number with its profile interval; an infinite end means that the curve does not bound it there.

    `standard_error` is half the interval over Student's t, infinite where the curve does not bound the number (a
    positive one then has 0 or infinity for that end). Those of the noise (sigma, rho) are asymptotic.
    """

    value: float
    low: float
    high: float
    standard_error: float
    unit: str

    @property
    def bounded(self) -> bool:
        """Whether the curve bounds it on both sides."""
        return bool(np.isfinite(self.standard_error) and np.isfinite(self.low) and np.isfinite(self.high))


@dataclass(frozen=True)
class LawFit:
    """One law on one curve.

    `parameters` by name: plateau, amplitude, initial (value at the first step), delay, damping_ratio, start, speed as
    the law has them, `tau_95` (steps to 95 % of the gain still ahead at the first step), and the noise `sigma`, `rho`.
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

    name: str
    n_points: int
    laws: dict[str, LawFit]
    notes: tuple[str, ...] = field(default=())

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

    @property
    def weights(self) -> dict[str, float]:
        """Akaike weights: exp(-difference of AICc / 2), summing to 1."""
        smallest = self.laws[self.ranked[0]].aicc
        raw = {law: float(np.exp(-0.5 * (one.aicc - smallest))) for law, one in self.laws.items()}
        return {law: weight / sum(raw.values()) for law, weight in raw.items()}


def fit_curve(curve: Curve, laws: tuple[str, ...] = tuple(SHAPES), level: float = 0.9) -> CurveFit:
    """Fit the named laws to one run. Raises ValueError below 8 points or for an unknown law."""
    (one,) = fit_many(curve.step, curve.reward[None], laws, names=(curve.name,), level=level)
    return one


def fit_many(
    step: Floats,
    rewards: Floats,
    laws: tuple[str, ...] = tuple(SHAPES),
    names: tuple[str, ...] = (),
    level: float = 0.9,
) -> list[CurveFit]:
    """Fit the named laws to C runs [C, T] logged at the same steps [T], vectorised over runs and shapes.

    `level` is the confidence of the intervals. Raises ValueError for fewer than 8 points, steps that do not increase,
    values that are not finite, or unknown laws.
    """
    time, rewards = _arguments(step, rewards, laws)
    fits: list[dict[str, LawFit]] = [{} for _ in rewards]
    noise = quality.noise_variance(rewards)
    for law in laws:
        size = max(int(_CHUNK / (max(len(SHAPES[law].grid(time)), time.size) * 13)), 1)
        for start in range(0, len(rewards), size):
            surface = engine.fit(SHAPES[law], time, rewards[start : start + size])
            part = slice(start, start + size)
            for place, one in enumerate(_law_fits(surface, rewards[part], noise[part], level)):
                fits[start + place][law] = one
    labels = names or tuple(f"curve {i}" for i in range(len(rewards)))
    return [CurveFit(label, time.size, found) for label, found in zip(labels, fits, strict=True)]


def _arguments(step: Floats, rewards: Floats, laws: tuple[str, ...]) -> tuple[Floats, Floats]:
    for law in laws:
        _checks.choice("laws", law, SHAPES)
    step, rewards = np.asarray(step, float), np.atleast_2d(np.asarray(rewards, float))
    _checks.require(step.size >= FEWEST_POINTS, "points", f"at least {FEWEST_POINTS} to fit a law", int(step.size))
    _checks.require(rewards.shape[-1] == step.size, "rewards", f"[curves, {step.size}]", rewards.shape)
    _checks.require(bool(np.all(np.diff(step) > 0)), "step", "increasing numbers", "others")
    _checks.require(bool(np.all(np.isfinite(rewards))), "rewards", "finite numbers", "others")
    return step - step[0], rewards


def _law_fits(surface: LikelihoodSurface, rewards: Floats, noise: Floats, level: float) -> list[LawFit]:
    table = _estimates(surface, level)
    status = _status(surface, rewards, table)
    aicc = quality.aicc(surface)
    plain = quality.r_squared(rewards, surface.fitted)
    explainable = quality.r_squared_explainable(rewards, surface.fitted, noise)
    return [
        LawFit(
            law=surface.shape.name,
            parameters={name: _estimate(row, c, UNITS[name]) for name, row in table.items()},
            log_likelihood=float(surface.log_likelihood[c]),
            aicc=float(aicc[c]),
            r_squared=float(plain[c]),
            r_squared_explainable=float(explainable[c]),
            fitted=surface.fitted[c],
            status=status[c],
        )
        for c in range(len(rewards))
    ]


def _estimates(surface: LikelihoodSurface, level: float) -> dict[str, tuple[Floats, Floats, Floats, Floats]]:
    """name -> (value, low, high, standard error), each [C]."""
    t = intervals.quantile(surface, level)
    found: dict[str, tuple[Floats, Floats, Floats, Floats]] = {}

    def put(name: str, value: Floats, interval: intervals.Interval) -> None:
        found[name] = (value, interval.low, interval.high, (interval.high - interval.low) / (2 * t))

    open_ended = quality.open_ended(surface)
    plateau = intervals.linear(surface, 1.0, 0.0, level)
    if surface.shape.size:
        rising = surface.amplitude > 0
        plateau = intervals.Interval(
            np.where(open_ended & ~rising, -np.inf, plateau.low), np.where(open_ended & rising, np.inf, plateau.high)
        )
    put("plateau", surface.plateau, plateau)
    if surface.shape.size:
        first = surface.shape.growth(surface.time[:1], surface.shapes[..., None, :])[..., 0] - 1
        here = surface.shape.growth(surface.time[:1], surface.theta[:, None, :])[:, 0] - 1
        put("amplitude", surface.amplitude, intervals.linear(surface, 0.0, 1.0, level))
        put("initial", surface.plateau + surface.amplitude * here, intervals.linear(surface, 1.0, first, level))
        values, at_best = surface.shape.meaning(surface.shapes), surface.shape.meaning(surface.theta)
        below, above = intervals.at_bounds(surface, level)
        for place, name in enumerate(surface.shape.parameters):
            interval = intervals.of_theta(surface, values[name], level)
            least = -np.inf if name == "start" else 0.0
            put(name, at_best[name], _opened(interval, below[:, place], above[:, place], least))
            lost = below[:, place] | above[:, place]
            found[name] = (*found[name][:3], np.where(lost, np.inf, found[name][3]))
        gain = quality.time_to_gain(surface)
        arrival = intervals.of_theta(surface, gain[1], level)
        put("tau_95", gain[0], _opened(arrival, np.zeros_like(open_ended), open_ended, 0.0))
    for name, (value, error) in quality.noise_errors(surface).items():
        least = -1.0 if name == "rho" else 0.0
        found[name] = (value, np.maximum(value - t * error, least), value + t * error, error)
    return found


def _estimate(row: tuple[Floats, Floats, Floats, Floats], c: int, unit: str) -> FittedNumber:
    return FittedNumber(float(row[0][c]), float(row[1][c]), float(row[2][c]), float(row[3][c]), unit)


def _opened(interval: intervals.Interval, below: np.ndarray, above: np.ndarray, least: float) -> intervals.Interval:
    """The interval, with `least` or infinity for an end that the curve does not bound."""
    return intervals.Interval(np.where(below, least, interval.low), np.where(above, np.inf, interval.high))


def _status(surface: LikelihoodSurface, rewards: Floats, table: Mapping[str, tuple[Floats, ...]]) -> list[str]:
    """`ok`, or `not identifiable: ...` with the reason, for each curve."""
    if not surface.shape.size:
        return ["ok"] * len(rewards)
    span = np.quantile(rewards, 0.98, axis=-1) - np.quantile(rewards, 0.02, axis=-1)
    open_ended = quality.open_ended(surface)
    texts = []
    for c in range(len(rewards)):
        lost = []
        if not table["plateau"][2][c] - table["plateau"][1][c] < _WIDEST * span[c]:
            lost.append(f"plateau ({_why_no_plateau(surface, table, bool(open_ended[c]), c)})")
        lost += [
            f"{name} ({_open_end(table[name][1][c], table[name][2][c], name)})"
            for name in surface.shape.parameters
            if not np.isfinite(table[name][3][c])
        ]
        texts.append("not identifiable: " + ", ".join(lost) if lost else "ok")
    return texts


def _why_no_plateau(
    surface: LikelihoodSurface, table: Mapping[str, tuple[Floats, ...]], open_ended: bool, c: int
) -> str:
    if not open_ended:
        return f"interval above {_WIDEST:g} times the curve's range"
    rate = "delay" if "delay" in surface.shape.parameters else "speed"
    both = not table[rate][1][c] > 0 and not np.isfinite(table[rate][2][c])
    return "fast and slow rises fit alike" if both else "the curve ends before it bends"


def _open_end(low: float, high: float, name: str) -> str:
    """Which end of a parameter's interval the curve leaves open."""
    no_low, no_high = not low > (-np.inf if name == "start" else 0.0), not np.isfinite(high)
    if no_low and no_high:
        return "no bound on either side"
    return "no lower bound" if no_low else "no upper bound"
