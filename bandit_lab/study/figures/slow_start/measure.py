"""Measurement of experiments/slow_start.py."""

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab._readings import crossing
from bandit_lab.bandits import two_arm
from bandit_lab.curves.fit import fit_many
from bandit_lab.grpo import DrGRPO, Hyper, Learner
from bandit_lab.simulate import run
from bandit_lab.study.figures.slow_start.problem import GOOD, ONE, SHOWN, STEPS, coordinates, logged, origins, rival_law
from bandit_lab.study.reproduce.experiment import Lab, Setting

LAWS = ("softmax_law", "oscillator")
CLEAR = 4.0


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The sweep of momentum, and both laws fitted to noisy curves of both origins."""
    sweep = lab.keep("sweep", lambda: _sweep(setting))
    return sweep.merge(lab.keep("fits", lambda: _fits(setting)))


def _sweep(setting: Setting) -> xarray.Dataset:
    sweep = setting.sweep
    half = -0.5 * sweep.start_gap
    learner = Learner(two_arm((1.0, 0.0), initial_logits=(-half, half)))
    times, shown = np.empty((len(sweep.rate), len(sweep.momentum))), None
    for row, rate in enumerate(sweep.rate):
        steps = int(np.ceil(sweep.duration * 2 * np.sinh(half) / rate))
        momentum = np.array(sweep.momentum)
        success = _mean_curves(learner, rate * (1 - momentum), momentum, 0.0, steps)
        times[row] = [crossing(np.arange(steps + 1), curve, 0.5) for curve in success]
        if rate == sweep.shown:
            shown = success[:, np.linspace(0, steps, SHOWN).round().astype(int)]
    gone = np.linspace(0.0, sweep.duration * 2 * np.sinh(half), SHOWN)
    values = {
        "half_time": (("rate", "momentum"), times, STEPS),
        "delay": (("rate", "momentum"), times - times[:, :1], STEPS),
        "success": (("momentum", "gone"), shown, ONE),
    }
    return xarray.Dataset(values, {"rate": sweep.rate, "momentum": sweep.momentum, "gone": gone})


def _fits(setting: Setting) -> xarray.Dataset:
    curves = setting.curves
    rng = np.random.default_rng(curves.seed)
    time = np.linspace(0.0, 1.0, curves.points)
    exact = [_run_without_inertia(curves, curves.start_gap[name]) for name in curves.start_gap]
    exact.append(_run_with_inertia(curves))
    rows = []
    for origin, curve in zip(origins(curves), exact, strict=True):
        rival = rival_law(origin)
        law = LAWS[1 - LAWS.index(rival)]
        for answers in curves.answers:
            noisy = rng.binomial(answers, curve, (curves.repeats, curves.points)) / answers
            fits = [one.laws for one in fit_many(time, noisy, LAWS)]
            squared = np.array([one[rival].r_squared for one in fits])
            gain = np.array([one[rival].aicc - one[law].aicc for one in fits])
            damping = np.median([one["oscillator"].parameters["damping_ratio"].value for one in fits])
            ends = [*np.quantile(squared, (0.5, 0.05, 0.95)), *np.quantile(gain, (0.5, 0.05, 0.95))]
            rows.append([*ends, np.mean(squared >= GOOD), np.mean(gain > CLEAR), np.mean(gain < -CLEAR), damping])
    names = ("rival_r_squared", "r_squared_low", "r_squared_high", "aicc_gain", "gain_low", "gain_high")
    shares = ("share_good", "clearly_right", "clearly_wrong", "read_damping_ratio")
    table = np.array(rows).reshape(len(exact), len(curves.answers), -1)
    values = {name: (("origin", "answers"), table[..., i], ONE) for i, name in enumerate((*names, *shares))}
    return xarray.Dataset(values, coordinates(setting))


def _run_without_inertia(curves: Setting, gap: float) -> np.ndarray:
    """Success at the logged points: standardised advantage, mu = 0, small learning rate."""
    rate, half = curves.rate, -0.5 * gap
    learner = Learner(two_arm((1.0, 0.0), initial_logits=(-half, half)))
    steps = round(2 * (np.sinh(half) + curves.end) / rate)
    return _mean_curves(learner, np.array([rate]), np.zeros(1), 0.0, steps)[0][logged(steps, curves.points)]


def _run_with_inertia(curves: Setting) -> np.ndarray:
    """Success at the logged points: a small displacement from the fixed point, drawn out over the span."""
    learner = Learner(two_arm((1.0, 0.0)), advantage=DrGRPO())
    point = detectors.find_fixed_point(learner, "mean_field", 1.0)
    stiffness = detectors.measure_stiffness(learner, "mean_field", 1.0, point).largest
    kappa = curves.learning_rate_times_stiffness
    steps = int(curves.duration * (1 - curves.momentum) / kappa)
    start = point.rest + 1e-5 * np.array([-0.5, 0.5])
    reward = _mean_curves(learner, np.array([kappa / stiffness]), np.array([curves.momentum]), 1.0, steps, start)[0]
    low, high = curves.span
    gain = (reward - reward[0]) / (point.expected_reward - reward[0])
    return (low + (high - low) * gain)[logged(steps, curves.points)]


def _mean_curves(learner, rates, momentum, kl_weight, steps, start=None) -> np.ndarray:
    ones = np.ones(len(rates))
    cells = Hyper(rates, momentum, ones.astype(int), kl_weight * ones)
    initial = None if start is None else np.tile(start, (len(rates), 1))
    return run(learner, "mean_field", cells, steps=steps, dtype=np.float64, initial=initial, summary=False).reward_mean
