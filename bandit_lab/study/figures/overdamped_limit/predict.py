"""Prediction of experiments/overdamped_limit.py."""

import jax
import numpy as np
import xarray
from scipy.optimize import curve_fit

from bandit_lab import theory
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
from bandit_lab.study.reproduce.experiment import Setting
from bandit_lab.theory.oscillator import beyond_exponential


def predict(setting: Setting) -> xarray.Dataset:
    """Closed form, step-by-step form and limit near the fixed point; the bent curve of the family away from it."""
    damping, sizes = setting.damping, setting.sizes
    rates, gone = learning_rates(setting), logged_times(setting)
    stiffness = theory.member(1.0, 0.0, 1.0, setting.kl_weight).stiffness
    tau = np.array([theory.time_constant(stiffness, rate, damping.momentum) for rate in rates])
    osc = [theory.oscillator(rate, damping.momentum, stiffness, mass="symmetric") for rate in rates]
    zeta = np.array([one.damping_ratio for one in osc])
    closed = np.stack([theory.response(one, gone * time, 0.0, 1.0) for one, time in zip(osc, tau, strict=True)])
    length = int(np.ceil(damping.duration * tau.max()))
    walk = jax.vmap(lambda kappa: theory.discrete_response(length, kappa, damping.momentum))
    exact = read_at(1 - np.asarray(walk(rates * stiffness)), gone, tau)
    fine = np.linspace(0.0, damping.duration, FINE)
    leading = beyond_exponential(zeta, fine)
    between = read_at(1 - np.asarray(walk(rates * stiffness)), fine, tau)
    smooth = np.stack([theory.response(one, fine * time, 0.0, 1.0) for one, time in zip(osc, tau, strict=True)])
    fit = np.array([_least_squares(gone, curve) for curve in exact])
    noise = damping.noise**2
    size = np.array(sizes.size)
    slowest = [theory.member(one, sizes.exponent, 1.0, setting.kl_weight).stiffness for one in size]
    times = np.array([theory.time_constant(one, sizes.learning_rate, sizes.momentum) for one in slowest])
    drift = theory.BinarySignal(theory.GroupLaw("dr_grpo"), (1.0, 0.0))
    logged = np.linspace(0.0, sizes.duration * times[0], sizes.points)
    gap = theory.inertial_curve(
        lambda x: float(theory.gap_drift(np.array(x), drift, 0.0, setting.kl_weight)),
        0.0,
        logged,
        sizes.learning_rate,
        sizes.momentum,
    )
    bent = _least_squares(logged / times[0], 1 / (1 + np.exp(-gap)))
    along, family = ("learning_rate",), ("size",)
    return xarray.Dataset(
        {
            "closed_form": (("learning_rate", "gone"), closed, ONE | {"long_name": "(R - R_0)/(R_inf - R_0)"}),
            "step_by_step": (("learning_rate", "gone"), exact, ONE),
            "exponential": (("gone",), -np.expm1(-gone), ONE),
            "damping_ratio": (along, zeta, ONE),
            "distance": (along, distance(between, fine), ONE),
            "distance_closed_form": (along, distance(smooth, fine), ONE),
            "distance_leading": (along, np.max(leading, axis=1), ONE),
            "plateau": ((), 1.0, ONE),
            "time": ((), 1.0, ONE | {"long_name": "time scale over (1 - mu)/(eta lambda)"}),
            "fitted_plateau": (along, fit[:, 0], ONE),
            "fitted_time": (along, fit[:, 1], ONE),
            "r_squared": (along, 1 - (fit[:, 2] + noise) / (exact.var(axis=1) + noise), ONE),
            "inverse_stiffness": (family, times, STEPS),
            "apparent_time": (family, bent[1] * times, STEPS),
            "bending": ((), bent[1], ONE | {"long_name": "fitted over inverse stiffness, from the uniform policy"}),
            "fixed_point": ((), theory.member(1.0, 0.0, 1.0, setting.kl_weight).probability, REWARD),
            "exponent": ((), sizes.exponent, ONE),
        },
        {"learning_rate": rates, "gone": gone, "size": size},
    )


def _least_squares(time: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """(plateau, time scale, mean squared misfit) of the exponential that is nearest to a noise-free curve."""

    def law(t, top, tau, gain):
        return top - gain * np.exp(-t / tau)

    best, _ = curve_fit(law, time, curve, p0=(curve[-1], 1.0, 1.0))
    return np.array([*best[:2], np.mean((law(time, *best) - curve) ** 2)])
