"""Training runs of the lab itself, as a logger would write them, with what `predict` says of their setting.

The policy follows the mean of its updates at this group size, as `predict` takes it; rewards are drawn. The noise
of updates on a single prompt swings a stable policy as far as an instability would, and no reward tells the two apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from grpo_clinic.readers import Curve, RewardScale, Series

import bandit_lab as bl

STEPS = 400
ANSWERS = (512, 64, 16)
"""Answers behind one logged reward."""
PROBLEMS: tuple[dict[str, Any], ...] = (
    {"bandit": {"name": "k_arm", "rewards": [0.9, 0.1]}, "group_size": 64, "staleness": "refresh"},
    {"bandit": {"name": "k_arm", "rewards": [0.9, 0.1]}, "group_size": 16, "staleness": "lag"},
    {"bandit": {"name": "k_arm", "rewards": [0.8, 0.3]}, "group_size": 64, "staleness": "refresh"},
    {"bandit": {"name": "k_arm", "rewards": [0.9, 0.5, 0.1]}, "group_size": 32, "staleness": "refresh"},
    {"bandit": {"name": "k_arm", "rewards": [0.7, 0.2, 0.1, 0.1]}, "group_size": 16, "staleness": "lag"},
    {"bandit": {"name": "k_arm", "rewards": [0.95, 0.3, 0.1, 0.05]}, "group_size": 8, "staleness": "pipeline"},
)  # fmt: skip
LEAST_GAIN, LEAST_TIMES = 0.2, 8.0
"""Share of the room above the uniform policy that the fixed point gains, and relaxation times in the run: less is a run
that does not learn, whatever its stability."""
CYCLE = 0.25
"""Peak to peak of the expected reward over the last half, were it a sine, from which a run cycles."""


@dataclass(frozen=True)
class LabRun:
    """A setting and the `mean` reward expected of the policy that each step begins with [T], which no log shows."""

    setting: dict[str, Any]
    verdict: str
    mean: np.ndarray

    def logged(self, answers: int, seed: int) -> Curve:
        """Shares of right answers among so many at each step."""
        rng = np.random.default_rng([seed, answers])
        return curve_of(rng.binomial(answers, self.mean) / answers)


def curve_of(reward: np.ndarray) -> Curve:
    series = Series(np.arange(1.0, len(reward) + 1), np.asarray(reward, float), "reward")
    return Curve("run", "lab", "test", "TRL", series, RewardScale.estimated(series.value))


def stable_runs(seed: int, count: int) -> Iterator[LabRun]:
    """Runs of settings that `predict` calls stable, without a share of runs that noise carries to the vertex."""
    return _runs(seed, count, True, (0.03, 0.9), (0.4, 1.5))


def unstable_runs(seed: int, count: int) -> Iterator[LabRun]:
    """Runs of settings that `predict` calls unstable and that go on swinging.

    Others run into the best arm and stay there, which no reward tells from a success. A large KL weight holds them.
    """
    return _runs(seed, count, False, (1.1, 2.0), (0.8, 2.5))


def _runs(
    seed: int, count: int, stable: bool, times: tuple[float, float], weights: tuple[float, float]
) -> Iterator[LabRun]:
    rng, number = np.random.default_rng([seed, stable]), 0
    while number < count:
        setting = {
            **PROBLEMS[rng.integers(len(PROBLEMS))],
            "momentum": float(rng.choice([0.0, 0.5, 0.9])),
            "refresh_interval": int(rng.choice([1, 2, 4, 8, 16])),
            "kl_weight": float(np.exp(rng.uniform(*np.log(weights)))),
        }
        ratio = float(np.exp(rng.uniform(*np.log(times))))
        prediction = bl.predict(**setting).to_dict()
        exact = prediction["thresholds"]["learning_rate"]["exact"]
        if not exact:
            continue
        setting["learning_rate"] = ratio * exact
        if stable and not _learns(setting, prediction):
            continue
        verdict = bl.predict(**setting).to_dict()["verdict"]
        if not verdict.startswith("stable: " if stable else "unstable: ") or "vertex" in verdict:
            continue
        runs = bl.simulate(dynamics="finite_group", steps=STEPS, **setting)
        mean = np.clip(runs.reward_mean.values[:-1], 0, 1)
        if not stable and _swing(mean) < CYCLE:
            continue
        number += 1
        yield LabRun(setting, verdict, mean)


def _learns(setting: dict[str, Any], prediction: dict[str, Any]) -> bool:
    start = float(np.mean(setting["bandit"]["rewards"]))
    gain = (prediction["fixed_point"]["expected_reward"] - start) / (1 - start)
    slowest = min(abs(complex(one)) for one in prediction["stiffness_spectrum"])
    times = slowest * setting["learning_rate"] * STEPS / (1 - setting["momentum"])
    return bool(gain >= LEAST_GAIN and times >= LEAST_TIMES)


def _swing(mean: np.ndarray) -> float:
    half = mean[mean.size // 2 :]
    x = np.arange(half.size)
    return float(2 * np.sqrt(2) * np.std(half - np.polyval(np.polyfit(x, half, 1), x)))
