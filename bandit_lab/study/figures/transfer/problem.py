"""What all sides are told of experiments/transfer.py."""

import numpy as np

from bandit_lab.bandits.contextual import ContextualBandit, contextual
from bandit_lab.study.reproduce.experiment import Setting

REWARD = {"units": "reward"}


def problem(setting: Setting) -> ContextualBandit:
    """The prompts that are trained on, and after them the held-out tasks."""
    options = {"difficulty": setting.difficulty, "spread": setting.spread, "seed": 3000}
    return contextual(setting.contexts + setting.tasks, setting.arms, setting.overlap, **options)


def axes(setting: Setting) -> dict:
    """Coordinates of every curve."""
    time = np.arange(0, setting.steps, setting.every, dtype=float)
    return {"advantage": ["rloo", "grpo"], "group": setting.groups, "time": time, "task": np.arange(setting.tasks)}
