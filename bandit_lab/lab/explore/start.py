"""The setting that the page begins with: checked as `predict` checks it, and within what the page can compute."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab._names import one_of
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.bandits import TabularBandit
from bandit_lab.lab.explore.settings import ExploreSettings
from bandit_lab.lab.predict import build
from bandit_lab.theory.conventions import OF_OPTIMIZER

KNOWN = {one.name: one.metadata["names"] for one in fields(ExploreSettings) if one.metadata.get("names")}
LARGEST = {"refresh_interval": 128, "learning_rate": 1e4, "momentum": 0.99, "kl_weight": 10, "group_size": 512}
ARMS = 6
SHARED = (*KNOWN, *LARGEST, "dynamics")
"""Settings that `explore` and `predict` share."""


def start(settings: Any) -> dict[str, Any]:
    """The page's names and values of these settings. Raises ValueError for what is wrong or beyond the page."""
    for group, names in KNOWN.items():
        name = getattr(settings, group).get("name", "")
        _checks.require(name in names, group, f"{one_of(name, names)} (predict has the others)", name)
    known = PredictSettings(**{key: getattr(settings, key) for key in SHARED})
    build.check_scalars(known)
    learner = build.build_learner(known, float(known.refresh_interval))
    for key, most in LARGEST.items():
        value = getattr(settings, key)
        least = 1 if key == "refresh_interval" else 1e-6 if key == "learning_rate" else 0
        _checks.require(least <= value <= most, key, f"{least:g} to {most:g} on the page", value)
    _plain_advantage(settings.advantage)
    bandit = learner.bandit
    assert isinstance(bandit, TabularBandit)
    values, chances = np.asarray(bandit.law.values), np.asarray(bandit.law.probabilities)[0]
    kind = settings.bandit.get("kind", "bernoulli")
    _checks.require(np.array_equal(values, [0.0, 1.0]), "bandit.kind", "bernoulli: rewards 0 and 1", kind)
    _checks.require(len(chances) <= ARMS, "bandit.rewards", f"at most {ARMS} arms on the page", len(chances))
    logits = np.asarray(bandit.reference_log_policy)[0]
    given = settings.bandit.get("reference_logits")
    initial = np.asarray(bandit.initial_parameters)
    return {
        "model": settings.staleness["name"],
        "convention": OF_OPTIMIZER[settings.optimizer["name"]],
        "estimator": settings.estimator["name"],
        "advantage": settings.advantage["name"],
        "interval": int(settings.refresh_interval),
        "rate": float(settings.learning_rate),
        "momentum": float(settings.momentum),
        "weight": float(settings.kl_weight),
        "size": None if settings.dynamics == "mean_field" else int(settings.group_size),
        "success": chances[:, 1].tolist(),
        "reference": [0.0] * len(chances) if given is None else [float(x) for x in (given or logits)],
        "initial": initial.tolist(),
        "steps": 300,
        "begin": "policy" if initial.any() else "point",
    }


def _plain_advantage(chosen: Mapping[str, Any]) -> None:
    for option in ("eps", "ddof"):
        _checks.require(not chosen.get(option, 0), f"advantage.{option}", "0 on the page", chosen.get(option))
