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
