"""The numbers of the page: thresholds and onsets as `predict` has them, runs of the mean update, a sweep's rows."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab import _checks, simulation
from bandit_lab.app.folder.store import SUMMARY, manifest_of
from bandit_lab.app.settings.config import ExploreSettings, PredictSettings
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.fixed_point import linearise
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
    is none; the law's stiffness; example runs [intervals, ratios, steps + 1] from two starts, rounded for a picture."""
    momenta = sorted({*MOMENTA, float(settings.momentum)})
    content: dict[str, Any] = {"intervals": INTERVALS, "momenta": momenta, "models": {}}
    content |= {"run_intervals": RUN_INTERVALS, "ratios": RATIOS}
    for model in MODELS:
        chosen = predicted(settings)
        chosen.staleness = {"name": model}
        learner = build.build_learner(chosen, float(INTERVALS[-1]))
        dynamics = "finite_group" if chosen.dynamics == "sampled" else chosen.dynamics
        linear = linearise(learner, dynamics, chosen.kl_weight)
        if linear.policy is None:
            raise ValueError(f"kl_weight: expected a setting with a fixed point, got none ({linear.reason})")
        limits = [
            [linear.rate("threshold", interval, momentum).value for interval in INTERVALS] for momentum in momenta
        ]
        onsets = [[linear.rate("onset", interval, momentum).value for interval in INTERVALS] for momentum in momenta]
        curves = _runs(learner, dynamics, momenta, limits, chosen.kl_weight)
        rows = [
            dict(zip(("threshold", "onset", "runs", "untrained"), row, strict=True))
            for row in zip(limits, onsets, *curves, strict=True)
        ]
        content["models"][model] = rows
        content |= {"stiffness": float(linear.largest), "reward": float(linear.expected_reward or 0.0)}
    return content


def _runs(learner: Any, dynamics: str, momenta: list[float], limits: list[Any], kl_weight: float) -> list[Any]:
    """Expected reward [starts, momenta, intervals, ratios, steps + 1] of the mean update.

    It starts beside the fixed point, then at the untrained policy.
    """
    point = find_fixed_point(learner, dynamics, kl_weight).theta
    if point is None:
        raise ValueError("kl_weight: expected a setting with a fixed point, got none")
    at = [[row[INTERVALS.index(interval)] or 1.0 for interval in RUN_INTERVALS] for row in limits]
    rates = np.multiply.outer(np.array(at), RATIOS)
    momentum = np.broadcast_to(np.array(momenta)[:, None, None], rates.shape)
    intervals = np.broadcast_to(np.array(RUN_INTERVALS)[:, None], rates.shape)
    starts = (np.asarray(point) + BESIDE * np.eye(len(point))[0], np.asarray(learner.bandit.initial_parameters))
    cells = Hyper(*(np.tile(one.ravel(), 2) for one in (rates, momentum, intervals, np.full_like(rates, kl_weight))))
    initial = np.repeat(starts, rates.size, axis=0)
    run = simulation.run(learner, dynamics, cells, steps=STEPS, dtype=np.float64, initial=initial, path="reference")
    curves: list[Any] = run.reward_mean.reshape(2, *rates.shape, STEPS + 1).round(4).tolist()
    return curves


def measured(folder: Path) -> list[dict[str, Any]]:
    """Rows of a finished sweep that have a measured threshold. Raises ValueError for another folder."""
    manifest = manifest_of(folder)
    _checks.require(manifest is not None, "paths", "a finished sweep's folder", str(folder))
    command = (manifest or {}).get("command")
    _checks.require(command == "sweep", "paths", "the folder of a sweep", f"{folder}, a run of {command}")
    rows = json.loads((folder / SUMMARY).read_bytes())["threshold"]
    keys = ("drift", "momentum", "refresh_interval", "measured_learning_rate")
    return [{key: row.get(key) for key in keys} for row in rows if row.get("measured_learning_rate")]
