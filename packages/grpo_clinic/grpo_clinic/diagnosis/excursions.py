"""Excursions that are no noise: how deep the reward fell, and came back, at least twice.

A cycle in a small, noisy group need not be regular, and a spectrum that asks for a sharp peak misses it. So the
running mean is read with a hysteresis: `depth` is the largest d such that it fell by d and rose by d again twice over.
It is set against the range of the running mean and against the error of a mean of w points from point-to-point noise.
That noise is taken to be white where it is not, hence the many standard errors that are asked for. Noise alone, drawn
from the run itself (`chance`), must not do as much.

An instability goes on: in the second half of the run a swing, down and up or up and down, is half as deep still.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grpo_clinic.diagnosis import chance
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Evidence
from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import SIGMA_OF_MAD, Curve, Floats

_TIMES = 2
"""Falls that were made good again."""
_BISECTIONS = 12
"""Halvings of the range in the search for the depth."""
BELOW = 0.99
"""Score of what lies beyond its threshold and is no failure all the same."""
DIED_DOWN = "they died down"
_GOES_ON = 0.5
"""Share of the depth that a swing in the second half has, if they go on."""


@dataclass(frozen=True)
class Excursions:
    """`depth` [reward] of the second swing, as a `share` of what the running mean of `width` points spans, and in
    standard errors `z`; `late`: the deepest swing of the second half [reward]."""

    depth: float
    share: float
    z: float
    width: int
    late: float

    @property
    def goes_on(self) -> bool:
        """Whether the second half swings as well."""
        return self.late >= _GOES_ON * self.depth


def noise_level(reward: Floats) -> float:
    """Point-to-point standard deviation from the median absolute second difference: jumps do not count."""
    second = reward[:-2] - 2 * reward[1:-1] + reward[2:]
    return float(SIGMA_OF_MAD * median(np.abs(second)) / np.sqrt(6))


def excursions(reward: Floats, scale: float, share: float, z: float) -> Excursions:
    """The width of the running mean (3 points to a twelfth of the run) at which the swings stand out most, n >= 24.

    `scale` is the largest reward less the smallest: a third of it is the least span, so that a flat curve has no deep
    swings. `share` and `z` are the thresholds that decide which width stands out.
    """
    reward = reward - reward[0]  # a large offset would leave rounding in the means
    noise = noise_level(reward)
    found = []
    for width in _widths(reward.size):
        means = np.convolve(reward, np.ones(width) / width, mode="valid")
        span, depth = max(float(np.ptp(means)), scale / 3), _depth(means)
        error = max(noise * np.sqrt(2 / width), 1e-6 * span, 1e-300)
        late = swing(means[means.size // 2 :])
        found.append(Excursions(depth, depth / max(span, 1e-300), depth / error, width, late))
    return max(found, key=lambda one: min(one.share / share, one.z / z))


def _widths(points: int) -> Sequence[int]:
    return sorted({3, 5, 8, max(3, points // 12)})


def swing(values: Floats) -> float:
    """The largest d such that the values fall by d and rise by d behind it, or rise and fall."""

    def dip(values: Floats) -> float:
        before, behind = np.maximum.accumulate(values), np.maximum.accumulate(values[::-1])[::-1]
        return float((np.minimum(before, behind) - values).max())

    return max(dip(values), dip(-values))


def swinging(curve: Curve, settings: DiagnoseSettings) -> Evidence:
    """Deep swings that are too large for noise. Those that died down are below the threshold, and said."""
    limits = settings.swing_share, settings.swing_z
    found = excursions(curve.reward, curve.scale.high - curve.scale.low, *limits)
    text = (
        f"the running mean of {found.width} points fell by {found.depth:.3g} and came back, twice: "
        f"{found.share:.0%} of its span, {found.z:.1f} standard errors"
    )
    window = (float(curve.step[0]), float(curve.step[-1]))
    score, also = float(min(found.share / limits[0], found.z / limits[1])), f"and {limits[1]:g} standard errors"
    if score >= 1:
        p = _by_chance(curve.reward, found, settings.seed)
        score = chance.judged(score, p, settings.false_alarm)
        text += f"; p = {p:.2g} against its noise alone"
    if score >= 1 and not found.goes_on:
        score, text = BELOW, f"{text}; {DIED_DOWN}: {found.late:.2g} in the second half"
    return Evidence("swings", window, float(found.share), limits[0], text, score, f"{also}, and going on")


def _by_chance(reward: Floats, found: Excursions, seed: int) -> float:
    """How often noise alone makes two falls good that are as deep beside their error, at any width."""

    def alike(noise: Floats) -> bool:
        deep = ((width, found.depth * np.sqrt(found.width / width)) for width in _widths(noise.size))
        return any(
            _made_good(_pivots(_turns(chance.running_means(noise, width)), depth)) >= _TIMES for width, depth in deep
        )

    return chance.p_value(np.array([alike(one) for one in part]) for part in chance.noise_alone(reward, seed))


def _depth(values: Floats) -> float:
    """Largest d such that the values fall by d and rise by d at least twice, one after the other."""
    turns = _turns(values)
    low, high = 0.0, float(np.ptp(values))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        found = _pivots(turns, middle)
        if _made_good(found) >= _TIMES:
            low, turns = middle, found  # deeper moves are among these turns
        else:
            high = middle
    return low


def _turns(values: Floats) -> list[float]:
    """Ends and local extrema, in order."""
    slope = np.sign(np.diff(values))
    inner = np.flatnonzero(slope[1:] * slope[:-1] <= 0) + 1
    return [float(values[0]), *values[inner].tolist(), float(values[-1])]


def _pivots(turns: list[float], depth: float) -> list[float]:
    """The turns that matter to falls and rises by `depth` or more: ends, and extrema that such a move follows.

    Falls and rises take turns, a fall is the first: it goes down by `depth` from the highest value so far.
    """
    found, falling, extreme = [turns[0]], False, turns[0]
    for value in turns:
        if falling:
            if value >= extreme + depth:
                found.append(extreme)
                falling, extreme = False, value
            elif value < extreme:
                extreme = value
        elif value <= extreme - depth:
            found.append(extreme)
            falling, extreme = True, value
        elif value > extreme:
            extreme = value
    return [*found, extreme, turns[-1]]


def _made_good(pivots: list[float]) -> int:
    """Falls that a rise followed: every move adds one pivot, beside two ends and the last extremum."""
    return (len(pivots) - 3) // 2
