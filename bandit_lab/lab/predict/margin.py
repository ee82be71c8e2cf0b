"""How near a run comes to the threshold on a schedule, or of a bandit with a clock: every step as if it stayed so.

The theory is quasi-static. Each step has the fixed point and the exact threshold of its own KL weight and its own
bandit; how fast they change does not enter.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from bandit_lab.app.document import Value
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.bandits import has_clock
from bandit_lab.grpo import Hyper, Learner, learner_at
from bandit_lab.lab.predict.linear import LinearTheory, RateThreshold, linearise
from bandit_lab.lab.predict.point import OperatingPoint

KNOTS = 33
"""KL weights, or steps of a clock, at which thresholds are worked out; in between their logarithm is interpolated."""
NEAR = 0.1
"""Largest relative difference of thresholds between which steps of a clock are interpolated."""
_LEAST = 1e-300  # stands for a threshold of 0, whose logarithm is not finite


@dataclass(frozen=True)
class SmallestMargin:
    """Along a run of `steps` steps. smallest: threshold over learning rate, exactly that of `step`.

    without: steps with a learning rate above 0 and no known threshold; the smallest margin is that of the others.
    mover: what changes, in a word.
    """

    smallest: Value
    step: int
    steps: int
    without: int = 0
    mover: str = "schedule"


def at_step(settings: PredictSettings, curves: Mapping[str, np.ndarray], step: int) -> PredictSettings:
    """The settings with the numbers that their schedules `curves` ([steps] each) have at that step."""
    numbers: dict[str, Any] = {name: float(values[step]) for name, values in curves.items()}
    return replace(settings, **numbers)


Theories = Callable[[int], LinearTheory]
"""Step of a run -> the linear theory of its KL weight and its bandit, one object for steps that have both the same."""


def theories(settings: PredictSettings, learner: Learner, curves: Mapping[str, np.ndarray]) -> Theories:
    """The theory of every step along the schedules `curves` [steps], worked out where it is asked for."""
    known: dict[tuple[Any, ...], LinearTheory] = {}

    def of_step(step: int) -> LinearTheory:
        here, then = at_step(settings, curves, step), learner_at(learner, step)
        numbers = (here.kl_weight, *(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(then.bandit)))
        if numbers not in known:
            known[numbers] = linearise(then, here, here.dynamics, here.kl_weight)
        return known[numbers]

    return of_step


def smallest_margin(
    settings: PredictSettings,
    learner: Learner,
    interval: float,
    curves: Mapping[str, np.ndarray],
    linear_at: Theories | None = None,
) -> SmallestMargin:
    """The smallest ratio of exact threshold and learning rate along the schedules `curves`, [steps] each.

    linear_at: what `theories` gave of the same bandit and KL weights, where many rows share it.
    """
    steps, clock = settings.steps, has_clock(learner.bandit)
    rates = np.broadcast_to(curves.get("learning_rate", settings.learning_rate), steps)
    weights = np.broadcast_to(curves.get("kl_weight", settings.kl_weight), steps)
    moving = np.flatnonzero(rates > 0)
    along = moving if clock else weights[moving]
    distinct, first = np.unique(along, return_index=True)
    linear_at, known = linear_at or theories(settings, learner, curves), dict[int, RateThreshold]()

    def threshold(place: int) -> RateThreshold:
        step = int(moving[first[place]])
        linear = linear_at(step)
        if id(linear) not in known:
            here = at_step(settings, curves, step)
            hyper = Hyper(1.0, here.momentum, interval, here.kl_weight)
            known[id(linear)] = OperatingPoint(here, learner_at(learner, step), hyper, linear).exact
        return known[id(linear)]

    def margins() -> np.ndarray:
        knots = sorted(found)
        logs = [np.nan if (one := found[place].value) is None else np.log(max(one, _LEAST)) for place in knots]
        return np.exp(np.interp(along, distinct[knots], logs)) / rates[moving]

    found = _at_knots(threshold, len(distinct))
    while clock and (places := _between(found, margins())):
        found |= {place: threshold(place) for place in places}
    each, mover = margins(), "bandit" if clock else "schedule"
    without = int(np.sum(np.isnan(each)))
    if without == len(moving):
        return SmallestMargin(Value.absent(found[max(found)].reason), int(np.argmax(rates)), steps, without, mover)
    step = int(moving[np.nanargmin(each)])
    exact = threshold(int(np.searchsorted(distinct, along[np.nanargmin(each)])))
    smallest = Value.of(exact.value and exact.value / float(rates[step]), exact.reason)
    return SmallestMargin(smallest, step, steps, without, mover)


def _at_knots(threshold: Callable[[int], RateThreshold], count: int) -> dict[int, RateThreshold]:
    """Thresholds at some of `count` places, the ends among them, and on both sides of where they cease to be known."""
    found: dict[int, RateThreshold] = {}
    places: Iterable[int] = np.unique(np.linspace(0, count - 1, min(KNOTS, count)).round().astype(int)).tolist()
    while places:
        found |= {place: threshold(place) for place in places}
        ends = [(a, b) for a, b in pairwise(sorted(found)) if (found[a].value is None) != (found[b].value is None)]
        places = [(a + b) // 2 for a, b in ends if b - a > 1]
    return found


def _between(found: Mapping[int, RateThreshold], margins: np.ndarray) -> list[int]:
    """Middles between known places where the threshold may jump, or beside the smallest of the margins [places]."""
    least = -1 if np.all(np.isnan(margins)) else int(np.nanargmin(margins))

    def is_open(a: int, b: int) -> bool:
        one, other = found[a].value, found[b].value
        jumps = one is not None and other is not None and abs(one - other) > NEAR * max(one, other)
        return jumps or a <= least <= b

    return [(a + b) // 2 for a, b in pairwise(sorted(found)) if b - a > 1 and is_open(a, b)]
