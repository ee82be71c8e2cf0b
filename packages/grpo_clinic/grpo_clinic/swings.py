"""Swings of a reward: falls of its running mean that were made good again, deeper than noise alone makes them."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Curve, Floats

_TIMES, _GOES_ON = 2, 0.5
"""Falls that were made good again; share of their depth that the second half's swing has, if they go on."""


class Swings:
    """The second deepest swing of a curve's running mean: `depth` [reward], `share` of its span, `z` errors, whether it
    goes on in the second half, and the step of the last top."""

    def __init__(self, curve: Curve, share: float = 0.4, z: float = 5.5) -> None:
        reward = curve.reward - curve.reward[0]
        level, third = noise.noise_level(reward), (curve.scale.high - curve.scale.low) / 3
        self.score, means = -np.inf, reward
        for width in _widths(reward.size):
            now = np.convolve(reward, np.ones(width) / width, mode="valid")
            span, depth = max(float(np.ptp(now)), third), _depth(now)
            here = depth / max(span, 1e-300), depth / max(level * np.sqrt(2 / width), 1e-6 * span, 1e-300)
            if (score := float(min(here[0] / share, here[1] / z))) > self.score:
                self.score, self.depth, self.width, (self.share, self.z), means = score, depth, width, here, now
        pivots = _pivots(_turns(means), max(self.depth, 1e-300))
        tops = np.flatnonzero(means >= (pivots[-3] if len(pivots) > 3 else means.max()))
        self.last_top = float(curve.step[min(int(tops[-1]), curve.step.size - 1)])
        if self.score >= 1:
            self.score = noise.judged(self.score, noise.by_chance(curve.reward, self._alike))
        self.late = _swing(means[means.size // 2 :])
        self.goes_on = self.late >= _GOES_ON * self.depth
        self.score = self.score if self.goes_on else min(self.score, 0.99)

    def _alike(self, drawn: Floats) -> np.ndarray:
        depths = {width: self.depth * np.sqrt(self.width / width) for width in _widths(drawn.shape[1])}
        means = {width: noise.running_means(drawn, width) for width in depths}
        return np.array(
            [
                any(_made_good(_turns(means[width][row]), depth) for width, depth in depths.items())
                for row in range(len(drawn))
            ]
        )


def _widths(points: int) -> list[int]:
    return sorted({3, 5, 8, max(3, points // 12)})


def _swing(values: Floats) -> float:
    """The largest d such that the values fall by d and rise by d behind it, or rise and fall."""

    def dip(values: Floats) -> float:
        before, behind = np.maximum.accumulate(values), np.maximum.accumulate(values[::-1])[::-1]
        return float((np.minimum(before, behind) - values).max())

    return max(dip(values), dip(-values))


def _depth(values: Floats) -> float:
    """Largest d such that the values fall by d and rise by d at least twice, by bisection."""
    turns, low, high = _turns(values), 0.0, float(np.ptp(values))
    for _ in range(12):
        middle = 0.5 * (low + high)
        if pivots := _made_good(turns, middle):
            low, turns = middle, pivots  # deeper moves are among these turns
        else:
            high = middle
    return low


def _turns(values: Floats) -> list[float]:
    """Ends and local extrema, in order."""
    slope = np.sign(np.diff(values))
    inner = np.flatnonzero(slope[1:] * slope[:-1] <= 0) + 1
    return [float(values[0]), *values[inner].tolist(), float(values[-1])]


def _made_good(turns: list[float], depth: float) -> list[float]:
    """Their pivots where at least two falls were made good, else none: a move adds a pivot to two ends and the last."""
    pivots = _pivots(turns, depth)
    return pivots if (len(pivots) - 3) // 2 >= _TIMES else []


def _pivots(turns: list[float], depth: float) -> list[float]:
    """The turns that matter to falls and rises by `depth` or more, a fall first: ends, and extrema they follow."""
    pivots, falling, extreme = [turns[0]], False, turns[0]
    for value in turns:
        if falling:
            if value >= extreme + depth:
                pivots.append(extreme)
                falling, extreme = False, value
            elif value < extreme:
                extreme = value
        elif value <= extreme - depth:
            pivots.append(extreme)
            falling, extreme = True, value
        elif value > extreme:
            extreme = value
    return [*pivots, extreme, turns[-1]]
