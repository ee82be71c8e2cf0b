"""What all sides are told of experiments/adam.py."""

import numpy as np
import xarray

from bandit_lab.study.reproduce.experiment import Setting

OPTIMIZERS = ("adam", "sgd")
UNIT = "logits per unit of the update"


def dataset(setting: Setting, threshold, curves, more) -> xarray.Dataset:
    """What both sides have: thresholds [2, G], mean curves [G, P]."""
    threshold, curves = np.array(threshold), np.array(curves)
    factor = setting.sizes[-1] / setting.sizes[-2]
    values = {
        "threshold": (("optimizer", "group_size"), threshold, UNIT),
        "threshold_ratio": ("optimizer", threshold[:, -1] / threshold[:, 0], "1"),
        "threshold_slope": ("optimizer", np.log(threshold[:, -1] / threshold[:, -2]) / np.log(factor), "1"),
        "reward": (("curve_size", "step"), curves, "reward"),
        "spread": ((), np.abs(curves[0] - curves[1]).max(), "reward"),
        **more,
    }
    coords = {"optimizer": list(OPTIMIZERS), "group_size": setting.sizes, "curve_size": setting.curve_sizes}
    coords |= {"factor": setting.factors, "step": steps(setting)}
    return xarray.Dataset({k: (d, np.asarray(v, float), {"units": u}) for k, (d, v, u) in values.items()}, coords)


def steps(setting: Setting) -> np.ndarray:
    """Steps that are compared."""
    return np.arange(0, setting.curve.steps + 1, setting.curve.every)
