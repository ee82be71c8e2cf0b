"""Prediction of experiments/three_phases.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab._readings import crossing
from bandit_lab.bandits.contextual import ContextualBandit
from bandit_lab.study.figures.three_phases.problem import (
    NAMES,
    NONE,
    clock,
    planned,
    random_problems,
    speed_ratio,
    stage_axes,
    std_until,
)
from bandit_lab.study.reproduce.experiment import Setting
from bandit_lab.theory.contextual import Prompts, contextual_curve


def predict(setting: Setting) -> xarray.Dataset:
    """Gains, speed ratios and transfer curves from the mean flow; curvature in closed form."""
    time, rate, size = clock(setting), setting.learning_rate, setting.group_size
    laws = {name: theory.GroupLaw(name, size) for name in NAMES.values()}
    gains, stds = [], []
    for problem in random_problems(setting):
        curves = {name: _flow(problem, rate * time, law) for name, law in laws.items()}
        last = {name: crossing(time, curve.mean(1), setting.target) for name, curve in curves.items()}
        gains.append(last["dr_grpo"] / last["grpo"])
        stds.append(std_until(curves["grpo"], last["grpo"], setting.every))
    ratios = []
    for problem in planned(setting, setting.stages, setting.stage_draws):
        plain, normalised = (_flow(problem, rate * time, laws[name]).mean(1) for name in NAMES.values())
        ratios.append(speed_ratio(setting, plain, normalised))
    axes = stage_axes(setting)
    ratio = np.reshape(ratios, (setting.stage_draws, *map(len, axes.values()))).mean(0)
    values = {
        "gain": ("problem", gains, NONE),
        "mean_std": ("problem", stds, {"units": "reward"}),
        "speed_ratio": (tuple(axes), ratio, NONE),
        "curvature_constant": ((), 1 + 1 / (setting.arms - 1), {"units": "per logit^2"}),
    }
    return xarray.Dataset(values, axes)


def _flow(problem: ContextualBandit, times: np.ndarray, law: theory.GroupLaw) -> np.ndarray:
    """Success [T, X] at flow times; all prompts have equal shares of the groups."""
    reference, features, means = (
        np.asarray(x) for x in (problem.reference_log_policy, problem.features, problem.law.means)
    )
    share = np.full(len(features), 1 / len(features))
    return contextual_curve(times, Prompts(reference, features, means, share), law)
