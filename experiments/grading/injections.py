"""A failure put into a healthy log at a known step: what a trainer would have logged from there on."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from grpo_clinic.readers.record import Curve, Floats, Series

Inject = Callable[[Curve, int, np.random.Generator], Curve]
_FALL = 0.05
"""Share of the run over which what falls falls."""


def _progress(curve: Curve, first: int, over: float = _FALL) -> Floats:
    """0 before row `first`, rising to 1 over a share of the run [n]."""
    rows = np.arange(curve.reward.size) - first
    return np.clip(rows / max(over * curve.reward.size, 1.0), 0.0, 1.0)


def _with_reward(curve: Curve, reward: Floats) -> Curve:
    return replace(curve, reward_series=replace(curve.reward_series, value=reward))


def _span(curve: Curve) -> float:
    return float(np.ptp(np.convolve(curve.reward, np.ones(9) / 9, mode="valid")))


def collapsed(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """The reward falls back to where it began; its noise stays."""
    start, here = float(curve.reward[:8].mean()), float(curve.reward[max(first - 8, 0) : first].mean())
    return _with_reward(curve, curve.reward - _progress(curve, first) * (here - start))


def diverging(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """KL grows twentyfold, to two nats and more; the reward is as before."""
    usual = 0.1 * rng.lognormal(0.0, 0.3, curve.reward.size)
    value = usual * (1 + 19 * _progress(curve, first))
    return replace(curve, series={**curve.series, "kl": Series(curve.step, value, "kl")})


def policy_concentration(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """The entropy falls to a twentieth, and the reward stays where it is."""
    entropy = curve.series["entropy"]
    lost = replace(entropy, value=entropy.value * np.exp(-3 * _progress(curve, first)))
    return replace(_with_reward(curve, _halted(curve, first, rng)), series={**curve.series, "entropy": lost})


def advantage_degeneracy(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """Nine groups of ten fall silent, and the reward stays where it is."""
    silent = curve.series["zero_std_frac"]
    value = silent.value + _progress(curve, first) * np.maximum(0.9 - silent.value, 0.0)
    lost = {**curve.series, "zero_std_frac": replace(silent, value=value)}
    return replace(_with_reward(curve, _halted(curve, first, rng)), series=lost)


def _halted(curve: Curve, first: int, rng: np.random.Generator) -> Floats:
    """From row `first` on, the rewards of the eighth before it drawn again."""
    before = curve.reward[max(first - curve.reward.size // 8, 0) : first]
    return np.concatenate((curve.reward[:first], rng.choice(before, curve.reward.size - first)))


def dynamical_instability(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """A growing wave, ten periods in what is left of the run, as high as the curve's own span by its third."""
    rows = np.arange(curve.reward.size - first)
    period = max(rows.size / 10, 6.0)
    wave = 0.5 * _span(curve) * np.minimum(rows / (3 * period), 1.0) * np.sin(2 * np.pi * rows / period)
    return _with_reward(curve, np.concatenate((curve.reward[:first], curve.reward[first:] + wave)))


def reward_hacking(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """The held-out result falls to half from row `first` on, while the reward is as before."""
    assert curve.eval is not None
    progress = np.interp(curve.eval.step, curve.step, _progress(curve, first, 0.25))
    return replace(curve, eval=replace(curve.eval, value=curve.eval.value * (1 - 0.5 * progress)))


def stalled(curve: Curve, first: int, rng: np.random.Generator) -> Curve:
    """A run that never learns: from its first row on, the first eighth of its rewards drawn again."""
    early = curve.reward[: max(curve.reward.size // 8, 8)]
    return _with_reward(curve, rng.choice(early, curve.reward.size))


FAILURES: dict[str, Inject] = {
    "collapsed": collapsed,
    "diverging": diverging,
    "dynamical_instability": dynamical_instability,
    "reward_hacking": reward_hacking,
    "policy_concentration": policy_concentration,
    "advantage_degeneracy": advantage_degeneracy,
    "stalled": stalled,
}
"""Failure -> how it is put into a healthy log."""
