"""Swings of a reward: falls of its running mean that were made good again, deeper than noise alone makes them."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Curve, Floats

_GOES_ON = 0.5
"""Share of the depth that the second half's swing has, if swings go on."""


class Swings:
    """The second deepest swing of a curve's running mean: `depth` [reward], `share` of its span, `z` errors, whether it
    goes on in the second half, and the step of the last bottom."""

    def __init__(self, curve: Curve, share: float = 0.4, z: float = 5.5) -> None:
        reward = curve.reward - curve.reward[0]
        level, third = noise.noise_level(reward), (curve.scale.high - curve.scale.low) / 3
        self.score, means = -np.inf, reward
        for width in _widths(reward.size):
            now = np.convolve(reward, np.ones(width) / width, mode="valid")
            bottoms, depths = _falls(now)
            span, depth = max(float(np.ptp(now)), third), float(np.sort([0.0, 0.0, *depths])[-2])
            here = depth / max(span, 1e-300), depth / max(level * np.sqrt(2 / width), 1e-6 * span, 1e-300)
            if (score := float(min(here[0] / share, here[1] / z))) > self.score:
                self.score, self.depth, self.width, (self.share, self.z), means = score, depth, width, here, now
                self.last_bottom = float(curve.step[bottoms[depths >= depth].max(initial=0)])
        if self.score >= 1:
            self.score = noise.judged(self.score, noise.by_chance(curve.reward, self._alike))
        late = means[means.size // 2 :]
        self.late = float(max([0.0, *_falls(late)[1], *_falls(-late)[1]]))
        self.goes_on = self.late >= _GOES_ON * self.depth
        self.score = self.score if self.goes_on else min(self.score, 0.99)

    def _alike(self, drawn: Floats) -> np.ndarray:
        """Whether two falls as deep were made good in the running means of series [some, n], at any width."""
        alike = np.zeros(len(drawn), bool)
        for width in _widths(drawn.shape[1]):
            least, means = self.depth * np.sqrt(self.width / width), noise.running_means(drawn, width)
            alike |= [_falls(one, least)[0].size >= 2 for one in means]
        return alike


def _widths(points: int) -> list[int]:
    return sorted({3, 5, 8, max(3, points // 12)})


def _falls(values: Floats, least: float = 0.0) -> tuple[np.ndarray, Floats]:
    """(places, depths) of the bottoms of values [n]: by how much they fell to each, and came back."""
    from scipy.signal import find_peaks  # here, since it takes half a second and short runs need none

    apart = 1e-9 * np.ptp(values) * np.linspace(0, 1, values.size)  # of equal bottoms the first is the deepest
    places, found = find_peaks(-values - apart, prominence=least)
    return places, found["prominences"]
