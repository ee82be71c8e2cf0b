"""Settings that several tests share: bandits that can see a mistake, and small builders."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, STALENESS, Hyper, Learner

INTERVALS = (1, 2, 3, 4, 8, 16, 32, 64)
MOMENTA = (0.0, 0.3, 0.5, 0.9, 0.95, 0.99)
MODELS = {"A": "refresh", "B": "lag", "C": "pipeline"}

STUDY_SETTINGS = {
    "default": ("grpo", two_arm((0.9, 0.1))),
    "two_fixed_arms": ("dr_grpo", two_arm((1.0, 0.0))),
    "five_arms": ("grpo", k_arm((0.85, 0.7, 0.45, 0.3, 0.1), reference_logits=(0.0, 0.3, -0.2, 0.1, 0.4))),
}
"""name -> (advantage, bandit), each with KL weight 1."""


def own(registry: Mapping[str, Any]) -> list[str]:
    """Names of a registry's variants that the package brings: an experiment that a test imports may register others."""
    return [name for name in registry if registry[name].__module__.startswith("bandit_lab.")]


def thinned(*axes: Iterable[Any]) -> list:
    """All combinations as parameters of a test: in `make test` a diagonal on which every value of every axis occurs,
    the others nightly. A value that is added to an axis stands on the diagonal too."""
    values = [list(axis) for axis in axes]
    length = max(map(len, values))
    chosen = {tuple(place % len(axis) for axis in values) for place in range(length)}
    every = list(product(*(range(len(axis)) for axis in values)))
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(values, places, strict=True)),
            marks=() if places in chosen else pytest.mark.nightly,
        )
        for places in every
    ]


def nightly_but(chosen: Iterable[Any], every: Iterable[Any]) -> list:
    """Parameters of a test (tuples if it has several): those of `kept`, all among `every`, in `make test`, the others
    nightly."""
    chosen, every = list(chosen), list(every)
    missing = [value for value in chosen if value not in every]
    assert not missing, f"representatives that are no variants: {missing}"
    values = [value if isinstance(value, tuple) else (value,) for value in every]
    marks = [() if value in chosen else pytest.mark.nightly for value in every]
    return [pytest.param(*value, marks=mark) for value, mark in zip(values, marks, strict=True)]


def learner(advantage="grpo", bandit=None, staleness="refresh", **options) -> Learner:
    """A learner from names; the default bandit has unequal noisy arms and a reference that is not uniform."""
    bandit = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3)) if bandit is None else bandit
    rule = STALENESS[staleness]() if isinstance(staleness, str) else staleness
    return Learner(bandit, advantage=ADVANTAGES[advantage](), staleness=rule, **options)


def cells(learning_rate, momentum=0.0, refresh_interval=1, kl_weight=1.0) -> Hyper:
    """A Hyper of equally long arrays [C]; scalars are repeated."""
    columns = np.broadcast_arrays(*np.atleast_1d(learning_rate, momentum, refresh_interval, kl_weight))
    return Hyper(*(np.array(column) for column in columns))
