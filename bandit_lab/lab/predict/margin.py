"""How near a schedule comes to the threshold: at every step as if its settings stayed as they are then.

The theory is quasi-static. Each step has the fixed point and the exact threshold of its own KL weight; how fast the
settings change does not enter.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bandit_lab.app.document import Value
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.lab.predict.linear import RateThreshold, linearise
from bandit_lab.lab.predict.point import OperatingPoint

KNOTS = 33
"""KL weights at which thresholds are worked out; in between their logarithm is interpolated."""
_LEAST = 1e-300  # stands for a threshold of 0, whose logarithm is not finite


@dataclass(frozen=True)
class SmallestMargin:
    """Along a schedule of `steps` steps. smallest: threshold over learning rate, exactly that of `step`.

    without: steps with a learning rate above 0 and no known threshold; the smallest margin is that of the others.
    """

    smallest: Value
    step: int
    steps: int
    without: int = 0


def at_step(settings: PredictSettings, curves: Mapping[str, np.ndarray], step: int) -> PredictSettings:
    """The settings with the numbers that their schedules `curves` ([steps] each) have at that step."""
    numbers: dict[str, Any] = {name: float(values[step]) for name, values in curves.items()}
    return replace(settings, **numbers)


def smallest_margin(
    settings: PredictSettings, learner: Learner, interval: float, curves: Mapping[str, np.ndarray]
) -> SmallestMargin:
    """The smallest ratio of exact threshold and learning rate along the schedules `curves`, [steps] each."""
    steps = settings.steps
    rates = np.broadcast_to(curves.get("learning_rate", settings.learning_rate), steps)
    weights = np.broadcast_to(curves.get("kl_weight", settings.kl_weight), steps)
    moving = np.flatnonzero(rates > 0)
    distinct, first = np.unique(weights[moving], return_index=True)

    def threshold(place: int) -> RateThreshold:
        here = at_step(settings, curves, int(moving[first[place]]))
        linear = linearise(learner, here, here.dynamics, here.kl_weight)
        hyper = Hyper(1.0, here.momentum, interval, here.kl_weight)
        return OperatingPoint(here, learner, hyper, linear).exact

    found = _at_knots(threshold, len(distinct))
    knots = sorted(found)
    logs = [np.nan if (one := found[place].value) is None else np.log(max(one, _LEAST)) for place in knots]
    margins = np.exp(np.interp(weights[moving], distinct[knots], logs)) / rates[moving]
    without = int(np.sum(np.isnan(margins)))
    if without == len(moving):
        return SmallestMargin(Value.absent(found[knots[-1]].reason), int(np.argmax(rates)), steps, without)
    step = int(moving[np.nanargmin(margins)])
    exact = threshold(int(np.searchsorted(distinct, weights[step])))
    return SmallestMargin(
        Value.of(exact.value and exact.value / float(rates[step]), exact.reason), step, steps, without
    )


def _at_knots(threshold: Callable[[int], RateThreshold], count: int) -> dict[int, RateThreshold]:
    """Thresholds at some of `count` places, the ends among them, and on both sides of where they cease to be known."""
    found: dict[int, RateThreshold] = {}
    places: Iterable[int] = np.unique(np.linspace(0, count - 1, min(KNOTS, count)).round().astype(int)).tolist()
    while places:
        found |= {place: threshold(place) for place in places}
        ends = [(a, b) for a, b in pairwise(sorted(found)) if (found[a].value is None) != (found[b].value is None)]
        places = [(a + b) // 2 for a, b in ends if b - a > 1]
    return found
