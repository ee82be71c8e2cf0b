"""What all sides are told of experiments/estimators.py."""

import numpy as np

from bandit_lab.study.reproduce.experiment import Setting

RATE = {"units": "logits per unit gradient", "long_name": "threshold"}
STEPS = {"units": "steps"}
COUNT = {"units": "1", "long_name": "stable refresh intervals"}
MULTIPLIER = {"units": "1", "long_name": "multiplier per block"}


def mixed_bandit(policy: float, rho: float) -> tuple[float, float, float]:
    """(KL weight, logit gap of the reference, fresh stiffness) of two arms with rewards 1 and 0 and this fixed point.

    rho = (1 - 2p)/(2 beta sd), gap = logit p - 1/(beta sd), fresh stiffness 2 beta sd^2 with sd^2 = p (1 - p).
    """
    sd = np.sqrt(policy * (1 - policy))
    beta = abs(1 - 2 * policy) / (2 * rho * sd)
    return beta, np.log(policy / (1 - policy)) - 1 / (beta * sd), 2 * beta * sd**2


def side(setting: Setting, rho: float) -> float:
    """Probability of the good arm at the fixed point: below 1/2 for rho > 0."""
    return setting.long.policy if rho > 0 else 1 - setting.long.policy


def dataset_values(threshold, stable, radius, edges, limit) -> dict:
    return {
        "threshold": (("estimator", "refresh_interval"), np.array(threshold, float), RATE),
        "stable_intervals": ("estimator", stable, COUNT),
        "radius": (("rho", "length"), radius, MULTIPLIER),
        "island": ("edge", edges, STEPS),
        "limit": ("long_rho", limit, MULTIPLIER),
    }


def counted(setting: Setting) -> np.ndarray:
    return np.arange(1, setting.counted + 1)


def lengths(setting: Setting) -> np.ndarray:
    return np.arange(1, setting.islands.longest + 1)


def coordinates(setting: Setting) -> dict:
    return {
        "estimator": setting.estimators,
        "refresh_interval": setting.refresh_interval,
        "rho": setting.islands.rho,
        "length": lengths(setting),
        "edge": ["first", "last"],
        "long_rho": setting.long_rho,
    }
