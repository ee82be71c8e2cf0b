"""What all sides are told of experiments/slow_start.py."""

import numpy as np

from bandit_lab.study.reproduce.experiment import Setting

ONE, STEPS, FLOW = {"units": "1"}, {"units": "steps"}, {"units": "logits^2 per reward"}
GOOD = 0.91
SHOWN = 121


def logged(steps: int, points: int) -> np.ndarray:
    return np.linspace(0, steps, points).round().astype(int)


def origins(curves: Setting) -> list[str]:
    """Softmax curves without inertia by their initial gap, and the one with inertia and without geometry."""
    return [*curves.start_gap, "inertia"]


def rival_law(origin: str) -> str:
    """The law that is wrong for a curve of this origin."""
    return "softmax_law" if origin == "inertia" else "oscillator"


def coordinates(setting: Setting) -> dict[str, list]:
    sweep, curves = setting.sweep, setting.curves
    return {
        "rate": sweep.rate,
        "momentum": sweep.momentum,
        "origin": origins(curves),
        "answers": curves.answers,
    }
