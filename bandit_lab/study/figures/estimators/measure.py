"""Measurement of experiments/estimators.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import TabularBandit, two_arm
from bandit_lab.grpo import ESTIMATORS, Hyper, Learner
from bandit_lab.study.figures.estimators.problem import (
    coordinates,
    counted,
    dataset_values,
    lengths,
    mixed_bandit,
    side,
)
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The same by runs and by Jacobians of the real update."""
    parts = [lab.keep(name, partial(_one_estimator, name, setting)) for name in setting.estimators]
    mixed = lab.keep("mixed", lambda: _mixtures(setting))
    together = xarray.concat(parts, "estimator")
    values = dataset_values(
        together.threshold.values, together.stable.values, mixed.radius.values, mixed.island.values, mixed.limit.values
    )
    values["growing"] = (("length",), mixed.growing.values, {"units": "1", "long_name": "whether displaced runs grow"})
    return xarray.Dataset(values, coordinates(setting))


def _one_estimator(name: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), estimator=ESTIMATORS[name]())
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    along = detectors.generic_direction(point.basis)

    def cells(intervals) -> tuple[Hyper, np.ndarray]:
        ones = np.ones(len(intervals))
        rest = setting.momentum * ones, np.asarray(intervals), setting.kl_weight * ones
        return Hyper(setting.learning_rate * ones, *rest), np.tile(point.rest, (len(ones), 1))

    scan = setting.fresh_scan if name in ("ratio", "clipped") else setting.scan
    rates = np.geomspace(scan.start, scan.stop, scan.num)
    found = detectors.learning_rate_boundary(learner, "mean_field", *cells(setting.refresh_interval), along, rates)
    growth = detectors.growth_rate(learner, "mean_field", *cells(counted(setting)), along)
    return xarray.Dataset({"threshold": ("refresh_interval", found.value), "stable": float(np.sum(growth < 0))})


def _bandit(policy: float, rho: float) -> tuple[TabularBandit, float, float]:
    beta, gap, fresh = mixed_bandit(policy, rho)
    reference = [gap / 2, -gap / 2]
    return two_arm((1.0, 0.0), reference, reference), beta, fresh


def _mixtures(setting: Setting) -> xarray.Dataset:
    """Multipliers of the `ratio` estimator on bandits with a given rho, and which displaced runs grow."""
    radius, growing, island = [], np.zeros(0), np.zeros(2)
    for rho in setting.islands.rho:
        bandit, beta, fresh = _bandit(setting.islands.policy, rho)
        learner = Learner(bandit, estimator=ESTIMATORS["ratio"]())
        hyper = Hyper(setting.islands.fresh_kappa / fresh, setting.momentum, 1, beta)
        radius.append(np.abs(detectors.floquet_intervals(learner, "mean_field", hyper, lengths(setting))[0]))
        if rho == setting.islands.island_rho:
            growing = _growing(learner, hyper, setting)
            island = lengths(setting)[growing][[0, -1]].astype(float)
    limit = []
    for rho in setting.long_rho:
        bandit, beta, fresh = _bandit(side(setting, rho), abs(rho))
        learner = Learner(bandit, estimator=ESTIMATORS["ratio"]())
        rate = setting.long.fresh_kappa / fresh
        hyper = Hyper(rate, setting.long.momentum, setting.long.refresh_interval, beta)
        found = detectors.floquet(learner, "mean_field", hyper)
        limit.append(float(found.multipliers[0].real) if len(found.multipliers) else np.nan)
    values = {"radius": (("rho", "length"), radius), "limit": ("long_rho", limit)}
    return xarray.Dataset(values | {"growing": ("length", growing.astype(float)), "island": ("edge", island)})


def _growing(learner: Learner, hyper: Hyper, setting: Setting) -> np.ndarray:
    """Which refresh intervals make a displacement grow."""
    point = detectors.find_fixed_point(learner, "mean_field", float(hyper.kl_weight))
    one = Hyper(*(np.array([value]) for value in hyper))
    along = detectors.generic_direction(point.basis)
    return (
        detectors.refresh_interval_boundary(learner, "mean_field", one, point.rest[None], along, lengths(setting))[1][0]
        > 0
    )
