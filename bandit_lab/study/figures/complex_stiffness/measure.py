"""Measurement of experiments/complex_stiffness.py."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab._types import Array
from bandit_lab.bandits import TabularBandit, k_arm
from bandit_lab.grpo import ADVANTAGES, STALENESS, Hyper, Learner
from bandit_lab.simulate import drift_of
from bandit_lab.study.figures.complex_stiffness.problem import (
    DEGREES,
    RATE,
    SHARE,
    Problem,
    argument,
    chosen,
    coordinates,
    problems_of,
    shares,
)
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Spectra by differentiation of the drift, then thresholds from runs of the nonlinear mean update."""
    found = lab.keep("spectra", partial(_spectra, setting))
    parts = [found]
    for place in range(len(setting.loops)):
        parts.append(lab.keep(f"loop {place}", partial(_one_loop, setting, place, found)))
        lab.progress(place + 1, len(setting.loops))
    thresholds = xarray.concat(parts[1:], "loop")
    return found.drop_vars("bandit").merge(thresholds).assign_coords(coordinates(setting))


def _bandits(problems: list[Problem]) -> list[TabularBandit]:
    return [k_arm(p.rewards.tolist(), p.reference.tolist(), p.logits.tolist(), "fixed") for p in problems]


def _spectra(setting: Setting) -> xarray.Dataset:
    arguments = {
        (advantage, arms): np.array([argument(one) for one in _spectra_of(setting, advantage, arms)])
        for advantage in setting.advantages
        for arms in setting.arms
    }
    grid = [[arguments[a, k] for k in setting.arms] for a in setting.advantages]
    share = np.array([[shares(one) for one in row] for row in grid])
    first = arguments[setting.advantages[0], setting.case_arms]
    which = chosen(setting, first)
    largest = np.array([[np.nanmax(one) for one in row] for row in grid])
    return xarray.Dataset(
        {
            "complex_share": (("advantage", "arms"), share[..., 0], SHARE),
            "real_share": (("advantage", "arms"), share[..., 1], SHARE),
            "largest_argument": (("advantage", "arms"), largest, DEGREES),
            "argument": ("case", first[which], DEGREES),
            "bandit": ("case", which, {"units": "1"}),
        }
    )


def _spectra_of(setting: Setting, advantage: str, arms: int) -> np.ndarray:
    """Stiffnesses [bandits, K - 1]: eigenvalues of minus the drift's derivative, the all-ones direction left out."""
    problems = problems_of(setting, advantage, arms)
    bandits = _bandits(problems)
    learner = Learner(bandits[0], ADVANTAGES[advantage]())

    def derivative(bandit: Any, theta: Array, weight: Array) -> Array:
        drift = drift_of(replace(learner, bandit=bandit), "mean_field")
        return jax.jacfwd(lambda x: drift(x, x, weight))(theta)

    every = detectors.stack_bandits(bandits), np.stack([p.logits for p in problems])
    slopes = np.asarray(jax.jit(jax.vmap(derivative))(*every, np.array([p.kl_weight for p in problems])))
    basis = _basis(arms)
    return np.linalg.eigvals(-basis.T @ slopes @ basis)


def _basis(arms: int) -> np.ndarray:
    """Directions [K, K - 1] that change the policy."""
    return np.linalg.svd(np.eye(arms) - 1 / arms)[0][:, : arms - 1]


def _one_loop(setting: Setting, place: int, found: xarray.Dataset) -> xarray.Dataset:
    """The learning rate from which a displacement grows, for every case."""
    model, interval, momentum = setting.loops[place]
    every = problems_of(setting, setting.advantages[0], setting.case_arms)
    problems = [every[int(i)] for i in found.bandit]
    bandits, ones = _bandits(problems), np.ones(len(problems))
    learner = Learner(bandits[0], ADVANTAGES[setting.advantages[0]](), staleness=STALENESS[model](), horizon=interval)
    weights = np.array([p.kl_weight for p in problems])
    cells = Hyper(ones, momentum * ones, np.full(len(ones), interval), weights)
    spectra = _spectra_of(setting, setting.advantages[0], setting.case_arms)[found.bandit.values]
    unit = (1 - momentum) / (interval * spectra.real.max(axis=1))
    scan = np.geomspace(setting.scan.start, setting.scan.stop, setting.scan.num)
    boundary = detectors.learning_rate_boundary(
        learner,
        "mean_field",
        cells,
        np.stack([p.logits for p in problems]),
        detectors.generic_direction(_basis(setting.case_arms)),
        unit[:, None] * scan,
        bandits=detectors.stack_bandits(bandits),
    )
    return xarray.Dataset({"threshold": ("case", boundary.value, RATE)})
