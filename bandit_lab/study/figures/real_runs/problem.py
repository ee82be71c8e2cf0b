"""What all sides are told of experiments/real_runs.py."""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray

from bandit_lab.curves import Curve
from bandit_lab.curves.fit import SHAPES
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.logs.gather import gather
from bandit_lab.study.reproduce.experiment import Found, Setting

LAWS = ("oscillator", "softmax_law", "single_exponential", "sigmoid", "constant")
NAMES = ("oscillator", "softmax", "exponential", "sigmoid", "constant")
NUMBERS = ("plateau", "amplitude", "delay", "damping_ratio", "start", "speed", "sigma", "rho")
FACTORS = {"learning_rate": -1.0, "refresh_interval": -1.0, "group_size": 0.0}
ONE, SCORE = {"units": "1"}, {"units": "nats, times 2"}


class Run(NamedTuple):
    """One log that has a reward curve."""

    name: str
    family: str
    curve: Curve


@lru_cache(maxsize=1)
def _all_runs() -> tuple[Run, ...]:
    index = str(Path(os.environ["BANDIT_LAB_LOGS"]) / "index.csv")
    logs = gather(FitSettings(logs_index=index), lambda done, total: None)
    return tuple(Run(log.name, log.family, log.curve) for log in logs if log.curve is not None)


def read_logs(setting: Setting) -> list[Run]:
    """Runs that are short enough."""
    return [run for run in _all_runs() if run.curve.step.size <= setting.longest]


def fitted_curve(fit: xarray.Dataset, step: np.ndarray) -> np.ndarray:
    """The chosen law's curve of one run at its steps."""
    value = dict(zip(NUMBERS, fit.fitted.values, strict=True))
    law = LAWS[int(fit.chosen)]
    if law == "constant":
        return np.full(step.size, value["plateau"])
    if law == "oscillator":
        theta = [np.log(value["delay"] * (1 + 0.5 / value["damping_ratio"])), np.log(value["damping_ratio"])]
    else:
        theta = [np.log(value["delay"])] if law == "single_exponential" else [value["start"], np.log(value["speed"])]
    return value["plateau"] + value["amplitude"] * (SHAPES[law].growth(step - step[0], np.array([theta])) - 1)


def softmax_gain(found: Found) -> xarray.DataArray:
    return found.measured.aicc.sel(law="oscillator") - found.measured.aicc.sel(law="softmax_law")
