"""What all sides are told of experiments/three_phases.py."""

import numpy as np

from bandit_lab._readings import crossing
from bandit_lab.bandits.contextual import ContextualBandit, contextual
from bandit_lab.study.reproduce.experiment import Setting

STEPS, NONE = {"units": "steps"}, {"units": "1"}
NAMES = {0.0: "dr_grpo", 1.0: "grpo"}


def random_problems(setting: Setting) -> list[ContextualBandit]:
    """Problems with random overlap, difficulty and spread."""
    problems = []
    for i in range(setting.problems):
        draw = np.random.default_rng(i)
        options = {"overlap": draw.uniform(), "difficulty": draw.uniform(*setting.difficulty)}
        spread = draw.uniform(*setting.spread)
        problems.append(contextual(setting.contexts, setting.arms, spread=spread, seed=1000 + i, **options))
    return problems


def planned(setting: Setting, part: Setting, draws: int) -> list[ContextualBandit]:
    """Problems of every draw of difficulties under every condition (overlap, conflict), draw by draw."""
    same = {"difficulty": part.difficulty, "spread": part.spread, "high": part.high, "low": part.low}
    pairs = list(zip(part.overlap, part.conflict, strict=True))
    size = (setting.contexts, setting.arms)
    return [contextual(*size, *pair, seed=2000 + draw, **same) for draw in range(draws) for pair in pairs]


def clock(setting: Setting) -> np.ndarray:
    """Observed steps [T]."""
    return np.arange(0, setting.steps, setting.every, dtype=float)


def std_until(success: np.ndarray, last: float, every: int) -> float:
    """Within-prompt std, averaged over prompts and the steps up to `last`. success: [..., T, X]."""
    count = max(int(np.nan_to_num(last, nan=0.0) // every), 1)
    return float(np.mean(np.sqrt(success * (1 - success))[..., :count, :]))


def speed_ratio(setting: Setting, plain: np.ndarray, normalised: np.ndarray) -> np.ndarray:
    """Time of the plain curve [T] over that of the normalised one in each stage [M]."""
    levels = plain[0] + (setting.stages.last - plain[0]) * np.linspace(0.02, 1, setting.stages.bins + 1)
    times = [[crossing(clock(setting), curve, level) for level in levels] for curve in (plain, normalised)]
    return np.diff(times[0]) / np.diff(times[1])


def stage_axes(setting: Setting) -> dict:
    """Conditions, and the middle of every stage as a share of the way."""
    edges = np.linspace(0.02, 1, setting.stages.bins + 1)
    return {"overlap": setting.stages.overlap, "stage": (edges[1:] + edges[:-1]) / 2}
