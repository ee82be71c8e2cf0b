"""The results of `fit` as one labelled data set; runs of different lengths are padded with NaN."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.curves.fit.shapes import UNITS
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.fit.work import Fitted

if TYPE_CHECKING:
    import xarray

_PARTS = ("value", "low", "high", "standard_error")


def dataset(fitted: list[Fitted], settings: FitSettings) -> "xarray.Dataset":
    """Curves [run, point], laws [run, law], their curves [run, law, point], parameters [run, law, parameter]."""
    import xarray

    longest = max(one.fit.n_points for one in fitted)
    laws, names = list(settings.models), list(UNITS)
    coords: dict[str, Any] = {
        "run": ("run", [one.log.name for one in fitted]),
        "law": ("law", laws),
        "parameter": ("parameter", names, {"long_name": "units stand in the variable `unit`"}),
        "point": ("point", np.arange(longest), {"units": "1", "long_name": "place in the log, from 0"}),
    }

    def curves(values: Callable[[Fitted], np.ndarray]) -> np.ndarray:
        return np.stack([_padded(values(one), longest) for one in fitted])

    def by_law(values: Callable[[Fitted, str], float]) -> np.ndarray:
        return np.array([[values(one, law) for law in laws] for one in fitted], float)

    lines = np.stack([[_padded(one.fit.laws[law].fitted, longest) for law in laws] for one in fitted])
    variables: dict[str, Any] = {
        "step": (("run", "point"), curves(lambda one: one.curve.step), {"units": "steps"}),
        "reward": (("run", "point"), curves(lambda one: one.curve.reward), {"units": "reward"}),
        "fitted": (("run", "law", "point"), lines, {"units": "reward"}),
        "step_unit": (("run",), [one.curve.step_unit for one in fitted]),
        "model": (("run",), [one.best.law for one in fitted]),
        "unit": (("parameter",), [UNITS[name] for name in names]),
        "aicc": (("run", "law"), by_law(lambda one, law: one.fit.laws[law].aicc), {"units": "nats, times 2"}),
        "weight": (("run", "law"), by_law(lambda one, law: one.fit.weights[law]), {"units": "1"}),
        "r_squared": (("run", "law"), by_law(lambda one, law: one.fit.laws[law].r_squared), {"units": "1"}),
        "r_squared_explainable": (
            ("run", "law"),
            by_law(lambda one, law: one.fit.laws[law].r_squared_explainable),
            {"units": "1"},
        ),
    }
    for part in _PARTS:
        values = [[[_number(one, law, name, part) for name in names] for law in laws] for one in fitted]
        about = {"level": settings.level} if part in ("low", "high") else {}
        variables[f"parameter_{part}"] = (("run", "law", "parameter"), np.array(values, float), about)
    for name in ("predicted", "low", "high"):
        ahead = np.array([getattr(one.ahead.forecast_90, name) for one in fitted], float)
        variables[f"forecast_{name}"] = (("run",), ahead, {"units": "reward", "level": 0.9})
    horizon = np.array([one.ahead.horizon for one in fitted], float)
    variables["forecast_horizon"] = (("run",), horizon, {"units": "steps"})
    return xarray.Dataset(variables, coords, {"title": "bandit_lab fit", "from_fraction": settings.from_fraction})


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate((values, np.full(length - values.size, np.nan)))


def _number(one: Fitted, law: str, name: str, part: str) -> float:
    estimate = one.fit.laws[law].parameters.get(name)
    return np.nan if estimate is None else float(getattr(estimate, part))
