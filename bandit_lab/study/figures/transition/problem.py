"""What all sides are told of experiments/transition.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Setting

RATIO = {"units": "1", "long_name": "damping ratio"}
FREQUENCY = {"units": "radians per step", "long_name": "frequency"}
KAPPA = {"units": "1", "long_name": "learning rate times stiffness"}
SHAPE = {"units": "of the first displacement", "long_name": "displacement of the expected reward"}
REGIMES = {
    "over_damped": ("over-damped", s.BLUE),
    "critical": ("critical", s.GREEN),
    "oscillatory": ("oscillatory", s.VERMILION),
}


def from_poles(poles: np.ndarray) -> tuple[float, float]:
    """Damping ratio and frequency of the two dominant poles."""
    if len(poles) < 2:
        return np.nan, np.nan
    first, second = np.log(np.asarray(poles[:2], complex))
    return float(np.real(-(first + second) / (2 * np.sqrt(first * second)))), float(abs(first.imag))


def swept(setting: Setting, name: str):
    """(kappa, momentum) of every point of a sweep."""
    if name == "kappa":
        scan = setting.kappa_sweep
        return ((float(k), setting.momentum) for k in np.geomspace(scan.start, scan.stop, scan.num))
    scan = setting.momentum_sweep
    return ((setting.fixed_kappa, float(mu)) for mu in np.linspace(scan.start, scan.stop, scan.num))


def coordinates(setting: Setting) -> dict:
    return {
        "regime": list(vars(setting.trajectories)),
        "step": np.arange(setting.steps + 1),
        "lag": setting.lags,
        "kappa": [kappa for kappa, _ in swept(setting, "kappa")],
        "momentum": [mu for _, mu in swept(setting, "momentum")],
        "onset_momentum": setting.onset_momentum,
    }
