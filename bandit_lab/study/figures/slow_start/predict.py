"""Prediction of experiments/slow_start.py."""

import jax.numpy as jnp
import numpy as np
import xarray
from scipy.optimize import minimize

from bandit_lab import theory
from bandit_lab._readings import crossing
from bandit_lab.curves.fit import SHAPES
from bandit_lab.study.figures.slow_start.problem import (
    FLOW,
    GOOD,
    ONE,
    SHOWN,
    STEPS,
    coordinates,
    logged,
    origins,
    rival_law,
)
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Delays of the sweep, and how far either law is from the other's curve."""
    sweep, curves = setting.sweep, setting.curves
    half = 2 * np.sinh(-sweep.start_gap / 2)
    growth = np.cosh(sweep.start_gap / 2)
    gone = np.linspace(0.0, sweep.duration * half, SHOWN)
    drawn = [_crossing_curve(sweep, sweep.shown, mu, gone / sweep.shown) for mu in sweep.momentum]
    delay = np.array([[_delay(sweep, rate, mu, half, growth) for mu in sweep.momentum] for rate in sweep.rate])
    leading = np.array([theory.reaching_delay(mu, growth) for mu in sweep.momentum])
    answers = np.array(curves.answers)
    time = np.linspace(0.0, 1.0, curves.points)
    exact = [_softmax_curve(curves, curves.start_gap[name], time) for name in curves.start_gap]
    exact.append(_inertia_curve(curves))
    found = [_nearest(rival_law(name), time, curve) for name, curve in zip(origins(curves), exact, strict=True)]
    damping = [read[1].get("damping_ratio", curves.damping_ratio) for read in found]
    misfit, variance = np.array([one[0] for one in found])[:, None], np.array([one.var() for one in exact])[:, None]
    noise = np.array([np.mean(one * (1 - one)) / answers for one in exact])
    r_squared = 1 - (misfit + noise * (1 - 4 / curves.points)) / (variance + noise)
    fitted = ("origin", "answers")
    return xarray.Dataset(
        {
            "success": (("momentum", "gone"), np.array(drawn), ONE),
            "geometric_time": ((), half, FLOW),
            "growth_of_force": ((), growth, ONE),
            "delay": (("rate", "momentum"), delay, STEPS),
            "delay_leading": (("momentum",), leading, STEPS),
            "delay_constant": (("momentum",), np.array([theory.inertial_delay(mu) for mu in sweep.momentum]), STEPS),
            "delay_slope": ((), 1 + np.log(growth), ONE),
            "misfit": (("origin",), misfit[:, 0], ONE | {"long_name": "mean squared distance of the rival law"}),
            "rival_r_squared": (fitted, r_squared, ONE),
            "aicc_gain": (fitted, curves.points * np.log1p(misfit / noise), {"units": "nats, times 2"}),
            "share_good": (fitted, np.where(r_squared > GOOD, 1.0, 0.0), ONE),
            "read_damping_ratio": (("origin",), np.array(damping), ONE),
        },
        coordinates(setting) | {"gone": gone},
    )


def _delay(sweep: Setting, rate: float, mu: float, half: float, growth: float) -> float:
    """Steps by which p = 1/2 is reached later than without momentum.

    The second-order flow has (1 + mu)/2 for mu in its mass, hence half a step of delay more than the updates.
    """
    if mu == 0:
        return 0.0
    steps = np.linspace(0.0, (half / rate + 4 * theory.reaching_delay(mu, growth)) * 1.1, 4001)
    success = _crossing_curve(sweep, rate, mu, steps)
    return crossing(steps, success, 0.5) - half / rate - 0.5 * (1 + np.log(growth))


def _crossing_curve(sweep: Setting, rate: float, mu: float, steps: np.ndarray) -> np.ndarray:
    def drift(x: float) -> float:
        return 1 / np.cosh(0.5 * x)

    gap = theory.inertial_curve(drift, sweep.start_gap, steps, rate * (1 - mu), mu)
    return 1 / (1 + np.exp(-gap))


def _softmax_curve(curves: Setting, gap: float, time: np.ndarray) -> np.ndarray:
    start = np.sinh(gap / 2)
    return np.asarray(theory.softmax_law(jnp.asarray(time), 0.0, 1.0, start, curves.end - start))


def _inertia_curve(curves: Setting) -> np.ndarray:
    low, high = curves.span
    kappa = curves.learning_rate_times_stiffness
    length = int(curves.duration * (1 - curves.momentum) / kappa)
    left = np.asarray(theory.discrete_response(length, kappa, curves.momentum))
    return high - (high - low) * left[logged(length, curves.points)]


def _nearest(law: str, time: np.ndarray, curve: np.ndarray) -> tuple[float, dict[str, float]]:
    """(mean squared distance, parameters) of the law's curve that is nearest to a noise-free one."""
    shape = SHAPES[law]
    low, high = shape.bounds(time)

    def distance(theta: np.ndarray) -> float:
        rising = shape.growth(time, np.clip(theta, low, high)[None, :])
        design = np.stack((np.ones_like(rising), rising), axis=-1)
        return float(np.mean((curve - design @ np.linalg.lstsq(design, curve, rcond=None)[0]) ** 2))

    start = min(shape.grid(time), key=distance)
    best = minimize(distance, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-12})
    theta = np.clip(best.x, low, high)
    return distance(theta), {name: float(value) for name, value in shape.meaning(theta).items()}
