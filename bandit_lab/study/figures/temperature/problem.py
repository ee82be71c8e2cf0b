"""What all sides are told of experiments/temperature.py."""

import numpy as np
import xarray

from bandit_lab._readings import crossing
from bandit_lab.study.reproduce.experiment import Setting

REWARDS = (1.0, 0.0)


def dataset(setting: Setting, threshold, variance, fresh, reused, more=None) -> xarray.Dataset:
    """What both sides have: threshold [L], mean variance over steps [L, S], at block points fresh and reused [L, R]."""
    shares = np.array(setting.shares)
    growth = variance / shares / (variance[:, :1] / shares[0])
    lead = [1 - np.exp(crossing(np.log(shares), np.log(row), np.log(setting.warning))) for row in growth]
    intervals = np.array(setting.loops.refresh_interval)
    values = {
        "threshold": ("loop", threshold, "logits per unit gradient"),
        "variance": (("loop", "share"), variance, "reward^2"),
        "growth": (("loop", "share"), growth, "1"),
        "lead": ("loop", lead, "share of the threshold"),
        "reuse_over_fresh": (("loop", "reused_share"), reused / fresh, "1"),
        "reuse_per_interval": (("loop", "reused_share"), reused / fresh / intervals[:, None], "1"),
        **(more or {}),
    }
    coords = {"share": shares, "reused_share": setting.reused_shares, "loop": np.arange(len(intervals))}
    coords |= {"refresh_interval": ("loop", intervals), "momentum": ("loop", setting.loops.momentum)}
    return xarray.Dataset({k: (d, np.asarray(v, float), {"units": u}) for k, (d, v, u) in values.items()}, coords)
