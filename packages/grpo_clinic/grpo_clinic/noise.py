"""Errors that rules and outcome share: noise from point to point, gains with their error, and noise drawn again.

Rewards of few prompts are discrete and skewed. Standard errors of a normal law do not keep their level for them. So
what is left of the reward beside a running median is drawn with replacement: noise of this run's own law, without
trend and without order.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import SIGMA_OF_MAD, Floats

DRAWS, LEVEL = 199, 0.005
"""Series of noise that are drawn; a test at this level asks that none of them does as much."""
CLEAR = 2.0
"""Errors from which a gain shows."""
RUNNING = 3
"""Rows one behind the other that are an event and no chance."""
_WIDTH, _LOST = 5, 0.887
"""Points of the running median, and the variance of normal noise beside it over its variance."""


def noise_level(values: Floats) -> float:
    """Standard deviation from point to point, from the median absolute second difference: jumps do not count.

    Where most values are one and the same, as `scatter`.
    """
    if values.size < 3:
        return 0.0
    second = values[:-2] - 2 * values[1:-1] + values[2:]
    level = SIGMA_OF_MAD * median(np.abs(second))
    return float(level / np.sqrt(6)) if level > 1e-9 * np.ptp(values) else scatter(values)


def scatter(values: Floats) -> float:
    """The same from the root mean square of second differences, n >= 3: jumps count."""
    return float(np.sqrt(np.mean(np.diff(values, 2) ** 2) / 6))


def usual(values: Floats) -> tuple[float, float]:
    """(level, spread) that the usual values have: median and median deviation, at least a hundredth of the level."""
    level = median(values)
    return level, max(SIGMA_OF_MAD * median(np.abs(values - level)), 0.01 * abs(level), 1e-12)


def least_running(values: Floats) -> Floats:
    """The smallest of every `RUNNING` values one behind the other [n - 2]; empty of fewer."""
    windows = np.lib.stride_tricks.sliding_window_view
    return windows(values, RUNNING).min(axis=-1) if values.size >= RUNNING else np.zeros(0)


def smoothed_over(points: int) -> int:
    """Points of the running mean in which a fall is looked for: a tenth, 3 to 20."""
    return int(np.clip(points // 10, 3, 20))


def running_means(values: Floats, width: int) -> Floats:
    """Means over `width` points along the last axis [..., n - width + 1]."""
    total = np.cumsum(np.concatenate((np.zeros((*values.shape[:-1], 1)), values), axis=-1), axis=-1)
    return (total[..., width:] - total[..., :-width]) / width


def by_chance(values: Floats, exceeds: Callable[[Floats], np.ndarray]) -> float:
    """p-value: how often noise alone does as much. exceeds: series [some, n] -> flags [some]; n >= 6.

    A rise or fall that has only begun at an end is no noise: the ends are left out.
    """
    half = _WIDTH // 2
    middle = np.sort(np.lib.stride_tricks.sliding_window_view(values, _WIDTH), axis=-1)[:, half]
    rest = (values[1:-half] - np.concatenate(([np.median(values[:3])], middle))) / np.sqrt(_LOST)
    drawn = np.random.default_rng([0, values.size]).choice(rest - rest.mean(), (DRAWS, values.size))
    return float((1 + np.sum(exceeds(drawn))) / (1 + DRAWS))


def judged(score: float, p: float) -> float:
    """The score, below 1 where noise alone does as much more often than the level."""
    return score if p <= LEVEL else min(score, LEVEL / p)


class Gain(NamedTuple):
    """What the last fifth of a run stands above its first `start` values: `change`, with its `error`."""

    change: float
    error: float
    start: int

    @property
    def shows(self) -> bool:
        """Whether there is a gain beyond doubt."""
        return self.change > CLEAR * self.error

    @property
    def falls(self) -> bool:
        """Whether there is a loss beyond doubt."""
        return self.change < -CLEAR * self.error


def gain_of(values: Floats) -> Gain:
    """The gain of values [n], n >= 10. The error is twice that of white noise: rewards are more alike than that.

    From the first tenth; or from the first three, where that shows more clearly: a quick rise is over before a tenth.
    """
    part = values.size // 5
    values = values - values[0]
    first, last = values[:part], values[-part:]
    noise = noise_level(values)
    if part >= 5:  # fewer values may lie close together by chance
        noise = min(noise, float(np.sqrt(0.5 * (first.var(ddof=1) + last.var(ddof=1)))))

    def above(start: int) -> Gain:
        return Gain(float(last.mean() - first[:start].mean()), 2 * noise * float(np.sqrt(1 / start + 1 / part)), start)

    slow, quick = above(values.size // 10), above(min(values.size // 10, 3))
    return quick if quick.shows and quick.change * slow.error > slow.change * quick.error else slow


def fallen(values: Floats) -> bool:
    """Whether the last fifth (at most 40 points) is below the best running mean of as many by a tenth of the climb and
    four errors: the best of many means stands above the level of noise by chance."""
    if values.size < 8:
        return False
    values = values - values[0]
    width = int(np.clip(values.size // 5, 3, 40))
    means = np.convolve(values, np.ones(width) / width, mode="valid")
    peak = int(means.argmax())
    fall, climb = float(means[peak] - means[-1]), float(means[peak] - means[: peak + 1].min())
    return fall > max(0.1 * climb, 4 * noise_level(values) * float(np.sqrt(2 / width)), 1e-9 * float(np.ptp(values)))
