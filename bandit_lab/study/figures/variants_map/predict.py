"""Prediction of experiments/variants_map.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.variants_map.problem import ONE, STEPS, axes, intervals, late_exponent
from bandit_lab.study.reproduce.experiment import Setting

ALIKE = {"batch_std": "grpo"}  # one prompt: the batch is the group
CLIPPED = ("clipped", "clip_higher", "cispo", "gspo")  # as `ratio` near a fixed point; one token: gspo is clip_higher
RATIOS = ("ratio", *CLIPPED)
LOOPS = {**{model: model for model in theory.MODELS}, "random_mean": "random"}


def predict(setting: Setting) -> xarray.Dataset:
    """First unstable interval, temperature, late exponent, shift by G: wherever there is a closed form."""
    coords = axes(setting)
    shape = [len(names) for names in coords.values()]
    first, has = np.full(shape, np.nan), np.full(shape, np.nan)
    noise, late, shift = np.full((3, shape[0]), np.nan)
    share = np.full(shape[:2], np.nan)
    even = np.full(2, 0.5)
    for i, advantage in enumerate(coords["advantage"]):
        name = ALIKE.get(advantage, advantage)
        if name not in theory.ADVANTAGES:
            continue
        laws = [theory.GroupLaw(name, size) for size in (None, setting.group_size)]
        limit, finite = (theory.BinarySignal(law, tuple(setting.rewards)) for law in laws)
        points = [theory.settled_point(one, even, setting.kl_weight, even) for one in (limit, finite)]
        covariance = theory.binary_covariance(laws[1], np.array(setting.rewards), points[0].policy)
        noise[i] = setting.group_size * (covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1])
        late[i] = late_exponent([_late_drift(laws[0], gap) for gap in setting.late], setting)
        if name != "dapo":  # its finite groups see actions by another law than the policy's
            shift[i] = points[1].expected_reward - points[0].expected_reward
        for j, estimator in enumerate(coords["estimator"]):
            if estimator not in ("frozen", "uncorrected", *RATIOS):
                continue
            kind = "ratio" if estimator in RATIOS else estimator
            split = theory.stiffness_split(limit, points[0].policy, setting.kl_weight, kind)
            fresh, stale = (float(np.real(part[0, 0])) for part in split.reduced())
            share[i, j] = stale / (fresh + stale)
            rate = (1 - setting.momentum) / (theory.largest_stiffness(split) * setting.law_interval)
            for k, staleness in enumerate(coords["staleness"]):
                if staleness in LOOPS:
                    loop = theory.LinearLoop(*split.reduced(), setting.momentum, LOOPS[staleness])
                    tried = intervals(setting, staleness)
                    unstable = [theory.spectral_radius(loop, rate, n) >= 1 for n in tried.tolist()]
                    has[i, j, k] = float(any(unstable))
                    first[i, j, k] = tried[np.argmax(unstable)] if any(unstable) else np.nan
    pairs: dict[int, set[tuple[float, str]]] = {1: set(), 0: set()}
    for (i, j, k), one in np.ndenumerate(has):
        if np.isfinite(one):
            pairs[int(one)].add((round(float(share[i, j]), 6) + 0.0, coords["staleness"][k]))
    values = {
        "first_interval": (tuple(coords), first, STEPS),
        "has_threshold": (tuple(coords), has, ONE),
        "stale_share": (("advantage", "estimator"), share, ONE),
        "loops_with_threshold": ((), float(len(pairs[1])), ONE),
        "loops_without": ((), float(len(pairs[0])), ONE),
        "temperature": ("advantage", noise, {"units": "reward^2"}),
        "late_exponent": ("advantage", late, ONE),
        "group_shift": ("advantage", shift, {"units": "reward"}),
    }
    return xarray.Dataset(values, coords)


def _late_drift(law: theory.GroupLaw, gap: float) -> float:
    """Drift of the gap at p = sigma(gap), rewards 1 and 0."""
    p, q = 1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(gap))
    return float(2 * law.factor(p, q) * p * q)
