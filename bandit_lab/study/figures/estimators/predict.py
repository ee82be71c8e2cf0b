"""Prediction of experiments/estimators.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.estimators.problem import (
    coordinates,
    counted,
    dataset_values,
    lengths,
    mixed_bandit,
    side,
)
from bandit_lab.study.reproduce.experiment import Setting


def _loop(signal: theory.BinarySignal, reference: np.ndarray, beta: float, estimator: str, mu: float, start=None):
    point = theory.settled_point(signal, reference, beta, reference if start is None else start)
    return theory.LinearLoop(*theory.stiffness_split(signal, point.policy, beta, estimator).reduced(), mu, "refresh")


def _mixed_loop(policy: float, rho: float, mu: float) -> tuple[theory.LinearLoop, float]:
    """(loop of the `ratio` estimator, fresh stiffness) from the bandit's own fixed point."""
    beta, gap, fresh = mixed_bandit(policy, rho)
    reference = np.array([1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(gap))])
    signal = theory.BinarySignal(theory.GroupLaw(), (1.0, 0.0))
    return _loop(signal, reference, beta, "ratio", mu), fresh


def predict(setting: Setting) -> xarray.Dataset:
    """Thresholds and stable intervals of four estimators; multipliers of mixed loops."""
    signal, even = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards)), np.full(2, 0.5)
    threshold, stable = [], []
    for name in setting.estimators:
        near = "ratio" if name == "clipped" else name
        loop = _loop(signal, even, setting.kl_weight, near, setting.momentum)
        threshold.append(
            [
                theory.first_unstable_learning_rate(loop, n, setting.points_per_decade).value
                for n in setting.refresh_interval
            ]
        )
        unstable = [theory.spectral_radius(loop, setting.learning_rate, n) >= 1 for n in counted(setting)]
        stable.append(float(len(unstable) - sum(unstable)))
    radius, edges = [], []
    for rho in setting.islands.rho:
        loop, fresh = _mixed_loop(setting.islands.policy, rho, setting.momentum)
        rate = setting.islands.fresh_kappa / fresh
        radius.append([theory.spectral_radius(loop, rate, n) for n in lengths(setting)])
        if rho == setting.islands.island_rho:
            edges = [float(n) for n in theory.islands(loop, rate, setting.islands.longest)[0]]
    limit = []
    for rho in setting.long_rho:
        loop, _ = _mixed_loop(side(setting, rho), abs(rho), setting.long.momentum)
        limit.append(-(loop.stale / loop.fresh).item())
    values = dataset_values(threshold, stable, radius, edges, limit)
    return xarray.Dataset(values, coordinates(setting))
