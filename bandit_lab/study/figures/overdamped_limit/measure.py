"""Measurement of experiments/overdamped_limit.py."""

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.curves.fit import fit_many
from bandit_lab.grpo import DrGRPO, Hyper, Learner
from bandit_lab.simulate import run
from bandit_lab.study.figures.overdamped_limit.problem import (
    FINE,
    ONE,
    REWARD,
    STEPS,
    distance,
    learning_rates,
    logged_times,
    read_at,
)
from bandit_lab.study.reproduce.experiment import Lab, Setting

LAW = "single_exponential"


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The same from runs of the mean update and fits of noisy points on them."""
    near = lab.keep("near", lambda: _near_the_fixed_point(setting))
    return near.merge(lab.keep("family", lambda: _family(setting)))


def _near_the_fixed_point(setting: Setting) -> xarray.Dataset:
    damping, gone, rates = setting.damping, logged_times(setting), learning_rates(setting)
    learner = Learner(two_arm((1.0, 0.0)), advantage=DrGRPO())
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    stiffness = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point).largest
    tau = (1 - damping.momentum) / (rates * stiffness)
    start = point.rest + damping.displacement * np.array([0.5, -0.5])
    steps = int(np.ceil(damping.duration * tau.max()))
    reward = _mean_curves(learner, rates, damping.momentum, setting.kl_weight, steps, start)
    relative = (reward - reward[:, :1]) / (point.expected_reward - reward[:, :1])
    fine = np.linspace(0.0, damping.duration, FINE)
    curves = read_at(relative, gone, tau)
    noise = np.random.default_rng(damping.seed).normal(0, damping.noise, (len(rates), damping.repeats, len(gone)))
    fits = [_fits(gone, curve + noisy) for curve, noisy in zip(curves, noise, strict=True)]
    plateau, time = (np.stack([one[i] for one in fits]) for i in (0, 1))
    along = ("learning_rate",)
    values = {
        "curve": (("learning_rate", "gone"), curves, ONE),
        "distance": (along, distance(read_at(relative, fine, tau), fine), ONE),
        "fitted_plateau": (along, np.median(plateau, axis=1), ONE),
        "fitted_time": (along, np.median(time, axis=1), ONE),
        "fitted_time_low": (along, np.quantile(time, 0.05, axis=1), ONE),
        "fitted_time_high": (along, np.quantile(time, 0.95, axis=1), ONE),
        "r_squared": (along, np.array([np.median(one[2]) for one in fits]), ONE),
    }
    return xarray.Dataset(values, {"learning_rate": rates, "gone": gone})


def _family(setting: Setting) -> xarray.Dataset:
    """Logged rewards of every size: means of `answers` draws from the policy of the mean update, and their fits."""
    sizes, found = setting.sizes, []
    rng = np.random.default_rng(sizes.seed)
    for size in sizes.size:
        scale = size**-sizes.exponent
        learner = Learner(two_arm((scale, 0.0), kind="fixed"), advantage=DrGRPO())
        point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight * scale)
        stiffness = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight * scale, point).largest
        tau = (1 - sizes.momentum) / (sizes.learning_rate * stiffness)
        steps = int(np.ceil(sizes.duration * tau))
        rate = np.array([sizes.learning_rate])
        reward = _mean_curves(learner, rate, sizes.momentum, setting.kl_weight * scale, steps, None)
        logged = np.unique(np.linspace(0, steps, sizes.points).round().astype(int))
        success = reward[0, logged] / scale
        noisy = rng.binomial(sizes.answers, success, (sizes.repeats, logged.size)) / sizes.answers
        plateau, time, _ = _fits(logged.astype(float), noisy)
        found.append([np.median(time), *np.quantile(time, (0.05, 0.95)), np.median(plateau)])
    names = ("time", "time_low", "time_high", "plateau")
    units = (STEPS, STEPS, STEPS, REWARD | {"long_name": "fitted plateau over the family's scale of rewards"})
    values = {
        f"family_{name}": (("size",), column, unit)
        for name, column, unit in zip(names, np.transpose(found), units, strict=True)
    }
    slope = np.polyfit(np.log(sizes.size), np.log(np.transpose(found)[0]), 1)[0]
    return xarray.Dataset(values | {"exponent": ((), slope, ONE)}, {"size": sizes.size})


def _mean_curves(learner, rates, momentum, kl_weight, steps, start) -> np.ndarray:
    column = np.ones(len(rates))
    cells = Hyper(rates, momentum * column, column.astype(int), kl_weight * column)
    initial = None if start is None else np.tile(start, (len(rates), 1))
    return run(learner, "mean_field", cells, steps=steps, dtype=np.float64, initial=initial, summary=False).reward_mean


def _fits(time: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(plateau, time scale, R^2) of every noisy curve [C, T]."""
    laws = [one.laws[LAW] for one in fit_many(time, rewards, (LAW,))]
    plateau, delay = (np.array([law.parameters[name].value for law in laws]) for name in ("plateau", "delay"))
    return plateau, delay, np.array([law.r_squared for law in laws])
