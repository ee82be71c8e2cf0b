"""Prediction of experiments/normalisation.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.normalisation.problem import dataset, policies, steps
from bandit_lab.study.reproduce.experiment import Setting
from bandit_lab.theory.two_arm import late_decay_rate, late_law


def predict(setting: Setting) -> xarray.Dataset:
    """The flow, its late law, curvature as a covariance with its bounds."""
    time = steps(setting) * setting.learning_rate
    laws = [theory.GroupLaw(c["advantage"], c["group_size"]) for c in setting.curves]
    exact = [1 - theory.group_curve(time, 0.0, law) for law in laws]
    late = np.array([late_law(time, law) for law in laws])
    exponent = [-2.0 if c["advantage"] == "grpo" and c["group_size"] is None else -1.0 for c in setting.curves]
    rates = [late_decay_rate(c["group_size"]) if c["advantage"] == "dapo" else np.nan for c in setting.curves]
    exponent = [np.nan if c["advantage"] == "dapo" else e for c, e in zip(setting.curves, exponent, strict=True)]
    rows: dict[str, list[float]] = {"curvature": [], "bound": [], "uniform_bound": []}
    for logits, rewards, u in policies(setting):
        policy = np.exp(logits - np.logaddexp.reduce(logits))
        half = 0.5 * np.ptp(u)
        rows["curvature"].append(theory.directional_curvature(policy, rewards, u))
        rows["bound"].append(theory.spread_bound(policy, rewards, u))
        rows["uniform_bound"].append(theory.uniform_bound(policy, rewards, half))
    found = dataset(setting, exact, {"exponent": exponent, "rate": rates}, rows)
    found = found.assign(largest_ratio=((), 1.0, {"units": "1"}), spread_at_largest=((), 0.125, {"units": "1"}))
    return found.assign(late_law=(("curve", "time"), late, {"units": "1 - p", "long_name": "leading late-time law"}))
