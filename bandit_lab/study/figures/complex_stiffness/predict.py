"""Prediction of experiments/complex_stiffness.py."""

import numpy as np
import xarray

from bandit_lab import theory
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
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Shares and arguments by class; threshold and law of every case; threshold over law against the argument."""
    found = {
        (advantage, arms): np.array([argument(_spectrum(p, advantage)) for p in problems_of(setting, advantage, arms)])
        for advantage in setting.advantages
        for arms in setting.arms
    }
    share = np.array([[shares(found[a, k]) for k in setting.arms] for a in setting.advantages])
    largest = np.array([[np.nanmax(found[a, k]) for k in setting.arms] for a in setting.advantages])
    first = setting.advantages[0], setting.case_arms
    which = chosen(setting, found[first])
    stiffness = [_spectrum(problems_of(setting, *first)[i], first[0])[0] for i in which]
    threshold = [[_threshold(loop, value) for value in stiffness] for loop in setting.loops]
    law = [[theory.leading_order(n, mu) / value.real for value in stiffness] for _, n, mu in setting.loops]
    angles = np.linspace(setting.curve.start, setting.curve.stop, setting.curve.num)
    curve = [[_over_law(loop, np.radians(angle)) for angle in angles] for loop in setting.loops]
    columns = {
        "complex_share": (("advantage", "arms"), share[..., 0], SHARE),
        "real_share": (("advantage", "arms"), share[..., 1], SHARE),
        "largest_argument": (("advantage", "arms"), largest, DEGREES),
        "argument": ("case", found[first][which], DEGREES),
        "threshold": (("loop", "case"), threshold, RATE),
        "law": (("loop", "case"), law, RATE),
        "curve": (("loop", "angle"), curve, {"units": "1", "long_name": "exact threshold over law"}),
    }
    return xarray.Dataset(columns, coordinates(setting) | {"angle": ("angle", angles, {"units": "degrees"})})


def _spectrum(problem: Problem, advantage: str) -> np.ndarray:
    """Stiffnesses [K - 1] at the fixed point, by the closed form."""
    signal = theory.MomentSignal(tuple(problem.rewards), advantage=advantage)
    policy = np.exp(problem.logits) / np.exp(problem.logits).sum()
    return theory.stiffness_split(signal, policy, problem.kl_weight).spectrum()


def _threshold(loop: list, stiffness: complex) -> float:
    model, interval, momentum = loop
    angle = abs(float(np.angle(stiffness)))
    return theory.exact(model, interval, momentum, angle=angle).kappa / abs(stiffness)


def _over_law(loop: list, angle: float) -> float:
    """Exact threshold over the law, whose stiffness is the real part."""
    model, interval, momentum = loop
    exact = theory.exact(model, interval, momentum, angle=angle)
    return exact.kappa * np.cos(angle) / theory.leading_order(interval, momentum)
