"""A reward that swings, and goes on with it."""

import numpy as np

from grpo_clinic import noise
from grpo_clinic.readers.record import Floats
from grpo_clinic.rules.base import CHOSEN, Case, Fact, Rule, register_rule, where

_SWING = 5
"""Rewards of the running mean that swings."""


@register_rule(
    "swings",
    verdict="dynamical_instability",
    needs=("reward",),
    rows=24,
    limit=0.4,
    errors=5.5,
    unit="share of the running mean's span",
    formula="largest d such that the mean of five fell by d and came back, twice",
    source=CHOSEN,
    proves="the reward swings, and the swings go on",
)
def _swings(case: Case, rule: Rule) -> Fact:
    """Those that died down are no instability: the second half has none of half the depth."""
    reward = case.reward - case.reward[0]
    means = noise.running_means(reward, _SWING)
    depth = _second(_falls(means))
    span = max(float(np.ptp(means)), case.span / 3)
    error = max(noise.noise_level(reward) * float(np.sqrt(2 / _SWING)), 1e-6 * span)
    score, late = min(depth / span / rule.limit, depth / error / rule.errors), means[means.size // 2 :]
    if score >= 1:
        score = noise.judged(score, noise.by_chance(case.reward, lambda drawn: _alike(drawn, depth)))
    goes_on = max([0.0, *_falls(late), *_falls(-late)]) >= 0.5 * depth
    text = f"the running mean of {_SWING} fell by {depth:.3g} and came back, twice, at {depth / error:.1f} errors"
    fact = Fact(score, depth / span, *where(case.curve.reward_series), text)
    return fact.unless(not goes_on, "; the swings died down")


def _alike(drawn: Floats, depth: float) -> np.ndarray:
    """Whether two falls as deep were made good in the running means of series [some, n]."""
    return np.array([_falls(one, depth).size >= 2 for one in noise.running_means(drawn, _SWING)])


def _second(depths: Floats) -> float:
    """The second largest, 0 of fewer."""
    return float(np.sort([0.0, 0.0, *depths])[-2])


def _falls(values: Floats, least: float = 0.0) -> Floats:
    """Depths of the bottoms of values [n], of so much at least: by how much they fell to each, and came back."""
    from scipy.signal import find_peaks  # here, since it takes half a second and short runs need none

    apart = 1e-9 * np.ptp(values) * np.linspace(0, 1, values.size)  # of equal bottoms the first is the deepest
    return np.asarray(find_peaks(-values - apart, prominence=least)[1]["prominences"])
