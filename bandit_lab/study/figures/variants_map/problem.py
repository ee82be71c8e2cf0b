"""What all sides are told of experiments/variants_map.py."""

from collections.abc import Iterable

import numpy as np

from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS
from bandit_lab.study.reproduce.experiment import Setting

ONE, STEPS = {"units": "1"}, {"units": "steps"}


def axes(setting: Setting) -> dict:
    """Names of the variants that are compared."""
    known: dict[str, Iterable[str]] = {"advantages": ADVANTAGES, "estimators": ESTIMATORS, "staleness": STALENESS}
    names = {key: list(every) if setting[key] == "all" else setting[key] for key, every in known.items()}
    return dict(zip(("advantage", "estimator", "staleness"), names.values(), strict=True))


def intervals(setting: Setting, staleness: str) -> np.ndarray:
    """Refresh intervals that are tried; a model that the setting does not name is tried as the first."""
    spec = vars(setting.intervals).get(staleness, setting.intervals.refresh)
    return np.arange(spec[0], spec[1] + 1, spec[2])


def late_exponent(drifts, setting: Setting) -> float:
    """a of 1 - p ~ t^a from the drift f at two gaps: q' = -q f, f ~ q^b, hence a = -1/b."""
    slope = np.log(drifts[0] / drifts[1]) / (setting.late[1] - setting.late[0])
    return float(-1 / slope)
