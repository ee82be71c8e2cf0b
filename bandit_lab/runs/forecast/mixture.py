"""What several laws say together: a weighted mixture of two-sided normals, each side as wide as its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

Z90 = 1.645
"""Standard errors from the centre of a normal to the ends of its 90 % interval."""
_NO_WIDTH = 1e-300
_EXACT = 1e-12
"""Of the range in which a quantile lies: its error."""
_FAR = 12
"""Standard errors beyond which a normal leaves nothing."""


@dataclass(frozen=True)
class Component:
    """One law's answer with its weight: `centre` and the ends of its 90 % interval; an end may be infinite."""

    weight: float
    centre: float
    low: float
    high: float

    def widened(self, drift: float) -> "Component":
        """The same with an independent standard deviation `drift` added on both sides."""
        left, right = (
            np.hypot((self.centre - self.low) / Z90, drift),
            np.hypot((self.high - self.centre) / Z90, drift),
        )
        return replace(self, low=float(self.centre - Z90 * left), high=float(self.centre + Z90 * right))

    def below(self, x: float) -> float:
        """Probability below x; the half on an infinite side lies at infinity."""
        width = (self.centre - self.low if x < self.centre else self.high - self.centre) / Z90
        return 0.5 * math.erfc((self.centre - x) / max(width, _NO_WIDTH) / math.sqrt(2))


def weighted(scores: Sequence[float]) -> list[float]:
    """Akaike weights exp(-difference of AICc / 2) of scores [laws], summing to 1."""
    raw = np.exp(-0.5 * (np.array(scores) - min(scores)))
    return [float(weight) for weight in raw / raw.sum()]


def quantile(parts: Sequence[Component], probability: float) -> float:
    """The mixture's quantile; infinite if more than the rest of the probability lies on open sides."""
    finite = [end for part in parts for end in _far(part)]
    ends = min(finite), max(finite)
    values = [sum(part.weight * part.below(x) for part in parts) - probability for x in ends]
    if values[0] > 0:
        return -np.inf
    if values[1] < 0:
        return np.inf
    low, high = ends
    while high - low > max(_EXACT * (ends[1] - ends[0]), 4 * float(np.spacing(abs(low)))):
        middle = 0.5 * (low + high)  # by halves: a library's root finder takes longer to import than to work here
        enough = sum(part.weight * part.below(middle) for part in parts) >= probability
        low, high = (low, middle) if enough else (middle, high)
    return 0.5 * (low + high)


def _far(part: Component) -> tuple[float, ...]:
    """Points beyond which nothing but the infinite is left on either side."""
    left, right = ((abs(end - part.centre) / Z90) for end in (part.low, part.high))
    outwards, least = [part.centre], 4 * float(np.spacing(abs(part.centre)))
    outwards += [part.centre - _FAR * left - least] if np.isfinite(left) else []
    outwards += [part.centre + _FAR * right + least] if np.isfinite(right) else []
    return tuple(outwards)
