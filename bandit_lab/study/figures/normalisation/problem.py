"""What all sides are told of experiments/normalisation.py."""

import numpy as np
import xarray

from bandit_lab.study.reproduce.experiment import Setting

EDGE = 0.5 * (1 + np.sqrt(0.5))  # p (1 - p) = 1/8


def name(curve: dict) -> str:
    """`grpo G = 8`."""
    return f"{curve['advantage']} G = {curve['group_size'] or 'infinity'}"


def steps(setting: Setting) -> np.ndarray:
    """Log-spaced steps [P]."""
    last = round(setting.time / setting.learning_rate)
    return np.unique(np.round(np.geomspace(0.3 / setting.learning_rate, last, setting.points)).astype(int))


def policies(setting: Setting) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(logits, rewards, direction) of random policies, and of the two with the largest curvature, last."""
    rng = np.random.default_rng(setting.seed)
    sizes = rng.choice(setting.arms, setting.policies)
    drawn = [(2 * rng.normal(size=k), rng.uniform(-1, 1, k), rng.uniform(-1, 1, k)) for k in sizes]
    return drawn + [
        (np.array([np.log(p / (1 - p)), 0.0]), np.array([1.0, 0.0]), np.eye(2)[0]) for p in (EDGE, 1 - EDGE)
    ]


def dataset(setting: Setting, loss: list, end: dict, curvature: dict) -> xarray.Dataset:
    """What both sides have: losses [C, P] (nan below the smallest), numbers per curve, curvatures [R]."""
    seen = np.array(loss, float)
    coords = {"curve": [name(c) for c in setting.curves], "time": steps(setting) * setting.learning_rate}
    values = {"loss": (("curve", "time"), np.where(seen > setting.smallest_loss, seen, np.nan), {"units": "1 - p"})}
    values |= {k: ("curve", np.array(v, float), {"units": "1"}) for k, v in end.items()}
    values |= {k: ("policy", np.array(v, float), {"units": "reward per logit^2"}) for k, v in curvature.items()}
    return xarray.Dataset(values, coords)
