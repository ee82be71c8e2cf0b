"""Measurement of experiments/transition.py."""

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.measure.onset import displacement, fit_poles
from bandit_lab.simulate import run
from bandit_lab.study.figures.transition.problem import FREQUENCY, KAPPA, RATIO, SHAPE, coordinates, from_poles, swept
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Trajectories of displaced runs; poles and onsets from their displacement."""
    learner = Learner(two_arm(setting.rewards))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    report = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point)
    mode = detectors.stiffest_mode(report.relaxation_matrix, point.basis)
    values: dict = {"trajectory": (("regime", "step"), _trajectories(setting, learner, point, report.largest), SHAPE)}
    grid = np.geomspace(setting.onset_scan.start, setting.onset_scan.stop, setting.onset_scan.num) / report.largest
    onsets = []
    for sweep in ("kappa", "momentum"):
        values[f"damping_ratio_{sweep}"] = (("lag", sweep), [], RATIO)
        values[f"frequency_{sweep}"] = (("lag", sweep), [], FREQUENCY)
    for lag in setting.lags:
        here = Learner(
            two_arm(setting.rewards), staleness=STALENESS["lag" if lag else "refresh"](), horizon=max(setting.lags)
        )
        for sweep in ("kappa", "momentum"):
            kappa, mu = np.array(list(swept(setting, sweep))).T
            cells = _cells(kappa / report.largest, mu, lag, setting)
            theta = np.tile(point.rest, (len(mu), 1))
            series = displacement(here, "mean_field", cells, theta, *mode)
            found = np.array([from_poles(fit_poles(row, 2)) for row in series])
            values[f"damping_ratio_{sweep}"][1].append(found[:, 0])
            values[f"frequency_{sweep}"][1].append(found[:, 1])
        mu = np.array(setting.onset_momentum)
        theta = np.tile(point.rest, (len(mu), 1))
        cells = _cells(np.ones(len(mu)), mu, lag, setting)
        onset = detectors.learning_rate_onset(here, "mean_field", cells, theta, *mode, grid)
        onsets.append(onset.value * report.largest)
    values["onset"] = (("lag", "onset_momentum"), onsets, KAPPA)
    values["critical_momentum"] = ((), _critical(setting, values), {"units": "1"})
    return xarray.Dataset(values, coordinates(setting))


def _trajectories(setting: Setting, learner: Learner, point, stiffness: float) -> np.ndarray:
    """Half the difference of the expected rewards of runs displaced both ways, over its first value [regime, step]."""
    rates = np.repeat([kappa / stiffness for kappa in vars(setting.trajectories).values()], 2)
    away = np.tile([[1.0, -1.0], [-1.0, 1.0]], (len(rates) // 2, 1)) * setting.displacement
    cells = _cells(rates, np.full(len(rates), setting.momentum), 0, setting)
    runs = run(
        learner, "mean_field", cells, steps=setting.steps, dtype=np.float64, initial=point.rest + away, summary=False
    )
    difference = runs.reward_mean[::2] - runs.reward_mean[1::2]
    return difference / difference[:, :1]


def _cells(rates: np.ndarray, mu: np.ndarray, lag: int, setting: Setting) -> Hyper:
    """Settings with a lag; without one the gradient is fresh at every step."""
    return Hyper(rates, mu, np.full(len(mu), max(lag, 1)), np.full(len(mu), setting.kl_weight))


def _critical(setting: Setting, values: dict) -> float:
    """Momentum at which the squared damping ratio, smooth through the transition, passes 1 on-policy."""
    from scipy.interpolate import CubicSpline

    mu, ratio = np.array([mu for _, mu in swept(setting, "momentum")]), values["damping_ratio_momentum"][1][0]
    fine = np.isfinite(ratio)
    roots = CubicSpline(mu[fine], ratio[fine] ** 2 - 1).roots(extrapolate=False)
    return float(roots[0]) if len(roots) else np.nan
