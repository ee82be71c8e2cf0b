"""Sizes of the failures of a simulated run, read off its hidden state (`experiments/grading/effects.yaml`)."""

from typing import Any

import numpy as np
from grpo_clinic.report import FAILURES

from experiments.shared.sick_runs.simulate import Simulated


def effects(run: Simulated, about: dict[str, Any]) -> dict[str, float]:
    """Failure -> size of its effect."""
    count = max(run.trained.size // 10, 3)
    trained, true = _running(run.trained, count), _running(run.true, count)
    late = run.silent_mean.size * 4 // 5
    solved = trained[-1] > about["advantage_degeneracy"]["solved"] * run.planted.best
    swing = 2 * np.sqrt(2) * float(np.std(_detrended(run.trained[run.trained.size // 2 :])))
    return {
        "reward_hacking": float(np.max(true - true[-1] - np.maximum(trained - trained[-1], 0))),
        "advantage_degeneracy": 0.0 if solved else float(run.silent_mean[late:].mean()),
        "policy_concentration": 1 - float(run.entropy[-count:].mean() / run.entropy[0]),
        "dynamical_instability": max(swing, float(np.max(trained - trained[-1]))),
    }


def label(sizes: dict[str, float], about: dict[str, Any]) -> dict[str, str]:
    """Failure -> `absent`, `weak` (between healthy and demanded) or `present`."""
    names: dict[str, str] = {}
    for failure in FAILURES:
        size, bounds = sizes[failure], about[failure]
        names[failure] = "present" if size >= bounds["demanded"] else "weak" if size > bounds["healthy"] else "absent"
    return names


def _running(values: np.ndarray, count: int) -> np.ndarray:
    return np.convolve(values, np.ones(count) / count, mode="valid")


def _detrended(values: np.ndarray) -> np.ndarray:
    time = np.arange(values.size)
    return np.asarray(values - np.polyval(np.polyfit(time, values, 1), time))
