"""What all sides are told of experiments/complex_stiffness.py."""

from typing import Any, NamedTuple

import numpy as np

from bandit_lab.study.reproduce.experiment import Setting

RATE = {"units": "logits per unit gradient"}
DEGREES = {"units": "degrees", "long_name": "largest argument of a stiffness"}
SHARE = {"units": "1", "long_name": "share of the bandits whose fixed point attracts"}
ROUNDING = 1e-6
"""Imaginary parts up to this share of the largest stiffness count as none."""


class Problem(NamedTuple):
    """Numbers of one random bandit; logits [K] of the policy at its fixed point and of the reference."""

    rewards: np.ndarray
    logits: np.ndarray
    reference: np.ndarray
    kl_weight: float


def problems_of(setting: Setting, advantage: str, arms: int) -> list[Problem]:
    """The random bandits of one advantage and number of arms."""
    rng, (low, high) = np.random.default_rng([setting.seed, arms]), np.log(setting.kl_weight)
    problems = []
    for _ in range(setting.bandits):
        rewards = rng.uniform(setting.reward[0], setting.reward[1], arms)
        logits = rng.normal(0, setting.logit_std, arms)
        weight = float(np.exp(rng.uniform(low, high)))
        policy = np.exp(logits) / np.exp(logits).sum()
        advantages = rewards - policy @ rewards
        if advantage == "grpo":
            advantages = advantages / np.sqrt(policy @ advantages**2)
        problems.append(Problem(rewards, logits, logits - advantages / weight, weight))
    return problems


def attracts(spectrum: np.ndarray) -> bool:
    """Whether every stiffness [R] has a positive real part."""
    return bool(np.min(spectrum.real) > 0)


def argument(spectrum: np.ndarray) -> float:
    """Largest argument of a stiffness [R], degrees; 0 if all are real to rounding, NaN where the fixed point repels."""
    if not attracts(spectrum):
        return float("nan")
    turning = np.abs(spectrum.imag) > ROUNDING * np.abs(spectrum).max()
    return float(np.degrees(np.abs(np.angle(spectrum[turning])).max())) if turning.any() else 0.0


def shares(arguments: np.ndarray) -> tuple[float, float]:
    """Of the bandits that attract: (share with a complex stiffness, share without). arguments: [M], see `argument`."""
    known = arguments[np.isfinite(arguments)]
    return float(np.mean(known > 0)), float(np.mean(known == 0))


def chosen(setting: Setting, arguments: np.ndarray) -> np.ndarray:
    """Numbers of the bandits of the nonlinear runs: complex ones, evenly by the rank of their argument."""
    some = np.flatnonzero(np.nan_to_num(arguments) >= setting.least_argument)
    ranked = some[np.argsort(arguments[some], kind="stable")]
    return ranked[np.round(np.linspace(0, len(ranked) - 1, setting.cases)).astype(int)]


def loop_names(setting: Setting) -> list[str]:
    """One name for every loop."""
    letters = {"refresh": "A", "lag": "B", "pipeline": "C"}
    return [f"{letters[model]}: N = {interval}, mu = {momentum:g}" for model, interval, momentum in setting.loops]


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    none = {"units": "1"}
    return {
        "advantage": ("advantage", setting.advantages, {"units": ""}),
        "arms": ("arms", setting.arms, none),
        "loop": ("loop", loop_names(setting), {"units": ""}),
        "model": ("loop", [model for model, _, _ in setting.loops], {"units": ""}),
        "case": ("case", np.arange(setting.cases), none),
    }
