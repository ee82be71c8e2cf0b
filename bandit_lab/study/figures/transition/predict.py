"""Prediction of experiments/transition.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.transition.problem import FREQUENCY, KAPPA, RATIO, SHAPE, coordinates, from_poles, swept
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Trajectories, damping ratio, frequency and onset: exact, and of the oscillator."""
    values: dict = {}
    curves = [
        [theory.pole_response(t, kappa, setting.momentum) for t in range(setting.steps + 1)]
        for kappa in vars(setting.trajectories).values()
    ]
    values["trajectory"] = (("regime", "step"), curves, SHAPE)
    for sweep in ("kappa", "momentum"):
        cells = list(swept(setting, sweep))
        rows = [[_exact(kappa, mu, lag) for kappa, mu in cells] for lag in setting.lags]
        law = [[_oscillator(kappa, mu, lag) for kappa, mu in cells] for lag in setting.lags]
        for name, table in (("", np.array(rows)), ("oscillator_", np.array(law))):
            values[f"{name}damping_ratio_{sweep}"] = (("lag", sweep), table[..., 0], RATIO)
            values[f"{name}frequency_{sweep}"] = (("lag", sweep), table[..., 1], FREQUENCY)
    onset = [[theory.oscillation_onset("lag", lag, mu) for mu in setting.onset_momentum] for lag in setting.lags]
    plain = [(1 - mu) ** 2 / (4 * mu) for mu in setting.onset_momentum]
    values["onset"] = (("lag", "onset_momentum"), onset, KAPPA)
    values["oscillator_onset"] = ("onset_momentum", plain, KAPPA)
    values["critical_momentum"] = ((), (1 - np.sqrt(setting.fixed_kappa)) ** 2, {"units": "1"})
    return xarray.Dataset(values, coordinates(setting))


def _exact(kappa: float, mu: float, lag: int) -> tuple[float, float]:
    loop = theory.LinearLoop(0.0, 1.0, mu, "lag") if lag else theory.LinearLoop(1.0, 0.0, mu, "refresh")
    return from_poles(theory.multipliers(loop, kappa, lag if lag else 1)[:2])


def _oscillator(kappa: float, mu: float, lag: int) -> tuple[float, float]:
    osc = theory.oscillator(kappa, mu, 1.0, lag)
    return osc.damping_ratio, abs(osc.rates[0].imag)
