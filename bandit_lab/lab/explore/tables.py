"""The numbers of the page: thresholds and onsets as `predict` has them, example runs of the mean update, a sweep's rows."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab import _checks, simulation
from bandit_lab.app.folder.store import SUMMARY, manifest_of
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper
from bandit_lab.lab.explore.settings import ExploreSettings
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.linear import LinearTheory, linearise
from bandit_lab.measure import find_fixed_point

MODELS = {"refresh": "A", "lag": "B", "pipeline": "C"}
MOMENTA = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
INTERVALS = tuple(range(1, 65))
RUN_INTERVALS, RATIOS = (1, 4, 16), (0.05, 0.3, 0.7, 0.95, 1.1, 1.4)
"""Of the example runs: refresh intervals, and learning rates over the exact threshold."""
STEPS, BESIDE = 200, 0.1
"""Of an example run: updates, and logits beside the fixed point where it begins."""


def predicted(settings: ExploreSettings) -> PredictSettings:
    """The same setting for `predict`."""
    shared = {one.name for one in fields(settings)} & {one.name for one in fields(PredictSettings)}
    return PredictSettings(**{name: getattr(settings, name) for name in shared})


def tables(settings: ExploreSettings) -> dict[str, Any]:
    """By staleness model and momentum: exact threshold and onset of oscillation [64] over N = 1..64, null where there
    is none; the law's stiffness; example runs [intervals, ratios, steps + 1], rounded to what a picture shows."""
    momenta = sorted({*MOMENTA, float(settings.momentum)})
    found: dict[str, Any] = {"intervals": INTERVALS, "momenta": momenta, "models": {}}
    for model in MODELS:
        chosen = predicted(settings)
        chosen.staleness = {"name": model}
        learner = build.build_learner(chosen, float(INTERVALS[-1]))
        dynamics = "finite_group" if chosen.dynamics == "sampled" else chosen.dynamics
        linear = linearise(learner, chosen, dynamics, chosen.kl_weight)
        if linear.policy is None:
            raise ValueError(f"kl_weight: expected a setting with a fixed point, got none ({linear.reason})")
        rows = [
            {
                "threshold": [linear.threshold(interval, momentum).value for interval in INTERVALS],
                "onset": [linear.onset(interval, momentum).value for interval in INTERVALS],
                "runs": _runs(learner, dynamics, linear, momentum, chosen.kl_weight),
            }
            for momentum in momenta
        ]
        found["models"][model] = rows
        found |= {"stiffness": float(linear.largest), "reward": float(linear.expected_reward or 0.0)}
    return found


def _runs(learner: Any, dynamics: str, linear: LinearTheory, momentum: float, kl_weight: float) -> list[Any]:
    """Expected reward of the mean update that begins beside the fixed point."""
    limits = [linear.threshold(interval, momentum).value or 1.0 for interval in RUN_INTERVALS]
    rates = np.array([[limit * ratio for ratio in RATIOS] for limit in limits])
    intervals = np.broadcast_to(np.array(RUN_INTERVALS)[:, None], rates.shape)
    cells = Hyper(rates.ravel(), np.full(rates.size, momentum), intervals.ravel(), np.full(rates.size, kl_weight))
    point = find_fixed_point(learner, dynamics, kl_weight)
    start = np.asarray(point.theta) + BESIDE * np.eye(len(point.theta))[0]
    initial = np.tile(start, (rates.size, 1))
    run = simulation.run(learner, dynamics, cells, steps=STEPS, dtype=np.float64, initial=initial, path="reference")
    curves = run.reward_mean.reshape(*rates.shape, STEPS + 1)
    return [[[round(float(value), 4) for value in curve] for curve in row] for row in curves]


def measured(folder: Path) -> list[dict[str, Any]]:
    """Rows of a finished sweep that have a measured threshold. Raises ValueError for another folder."""
    manifest = manifest_of(folder)
    _checks.require(manifest is not None, "paths", "a finished sweep's folder", str(folder))
    command = (manifest or {}).get("command")
    _checks.require(command == "sweep", "paths", "the folder of a sweep", f"{folder}, a run of {command}")
    rows = json.loads((folder / SUMMARY).read_bytes())["threshold"]
    keys = ("drift", "momentum", "refresh_interval", "measured_learning_rate")
    return [{key: row.get(key) for key in keys} for row in rows if row.get("measured_learning_rate")]
