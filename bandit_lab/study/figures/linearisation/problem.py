"""What all sides are told of experiments/linearisation.py."""

import numpy as np

from bandit_lab.study.reproduce.experiment import Setting

RATE = {"units": "logits per unit gradient"}
GAP = {"units": "logits", "long_name": "amplitude of the logit gap"}
LETTERS = {"refresh": "A", "lag": "B", "pipeline": "C"}
ALONG = np.array([1.0, -1.0])


def coordinates(setting: Setting) -> dict:
    loop = [f"{LETTERS[model]}, N = {n}, mu = {mu:g}" for model, n, mu in setting.loops]
    return {"loop": loop, "displacement": setting.displacement, "steps": setting.steps, "excess": setting.excess}


FAR = 10.0  # logits from the fixed point: a run farther out stays for long where the policy hardly moves
RETURNS, CYCLES, THROWN = 0, 1, 2
BASIN = {"units": "1", "long_name": "0: returns, 1: stays within 10 logits, 2: farther out"}


def basin_axes(setting: Setting) -> dict[str, np.ndarray]:
    """Learning rates over the linear threshold, and displacements of the logit gap at the start."""
    scans = {"ratio": setting.basins.ratio, "start": setting.basins.start}
    return {name: np.linspace(scan.start, scan.stop, scan.num) for name, scan in scans.items()}
