"""The traced settings, and the range of each."""

from typing import Any, NamedTuple

import jax
import numpy as np

from bandit_lab import _checks
from bandit_lab.grpo.staleness import Staleness


class Hyper(NamedTuple):
    """The traced settings: scalars, or arrays of one shape when a grid is vectorised.

    learning_rate: eta, logits per unit of gradient. momentum: mu. refresh_interval: N, steps (int; real where the
    staleness model says so). kl_weight: beta, reward units per nat.
    """

    learning_rate: Any
    momentum: Any
    refresh_interval: Any
    kl_weight: Any


def check_hyper(staleness: Staleness, hyper: Hyper) -> None:
    """Look at settings, scalars or arrays, that are not traced.

    Raises:
      ValueError: learning rate <= 0, momentum outside [0, 1), KL weight < 0, a refresh interval that the staleness
        model cannot have, anything that is no finite number.
    """
    least, whole = staleness.smallest_interval, staleness.whole_interval
    interval = f"an integer >= {least}" if whole else "a number >= 0"
    ranges = {
        "learning_rate": (f"a number > 0 and <= {_checks.LARGEST:g}", lambda x: (x > 0) & (x <= _checks.LARGEST)),
        "momentum": ("a number in [0, 1)", lambda x: (x >= 0) & (x < 1)),
        "refresh_interval": (interval, lambda x: (x >= least) & (x == np.floor(x)) if whole else x >= 0),
        "kl_weight": (f"a number >= 0 and <= {_checks.LARGEST:g}", lambda x: (x >= 0) & (x <= _checks.LARGEST)),
    }
    for name, value in hyper._asdict().items():
        if isinstance(value, jax.core.Tracer):
            continue
        column = np.asarray(value)
        number = np.issubdtype(column.dtype, np.integer) or np.issubdtype(column.dtype, np.floating)
        _checks.require(number, name, "a finite number", value)
        expected, inside = ranges[name]
        for what, good in (("a finite number", np.isfinite(column)), (expected, inside(column))):
            if not np.all(good):
                raise ValueError(f"{name}: expected {what}, got {column[~good].ravel()[0].item()!r}")
