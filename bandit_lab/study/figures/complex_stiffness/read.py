"""Numbers that the claims of experiments/complex_stiffness.py compare."""

from typing import Any

from bandit_lab.study.reproduce.experiment import Found


def half_a_bandit(found: Found) -> float:
    """Share of the bandits drawn: not one may be told otherwise."""
    return 0.5 / found.setting.bandits


def least_over_law(found: Found, side: Any, model: str) -> float:
    """Smallest threshold over law of all cases of a staleness model; side: what was predicted or measured."""
    return float((side.threshold / found.predicted.law).isel(loop=found.predicted.model.values == model).min())
