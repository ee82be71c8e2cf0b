"""Many runs at once: exact mean dynamics and sampled groups.

The room can be called: `bandit_lab.simulate(seeds=1000, ...)` runs many seeds of one setting and returns a labelled
data set, see `bandit_lab.study.interface.simulate`.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

from bandit_lab.simulate.dynamics import DYNAMICS, Drift, check_drift, drift_name, drift_of
from bandit_lab.simulate.engine import PATHS, Route, Runs, Summary, Width, mean_curves, route, run, trajectories
from bandit_lab.simulate.finite_group import finite_group
from bandit_lab.simulate.mean_field import mean_field
from bandit_lab.simulate.moments import UNIT, Moments, pool
from bandit_lab.simulate.sampled import sampled

__all__ = [
    "DYNAMICS",
    "PATHS",
    "UNIT",
    "Drift",
    "Moments",
    "Route",
    "Runs",
    "Summary",
    "Width",
    "check_drift",
    "drift_name",
    "drift_of",
    "finite_group",
    "mean_curves",
    "mean_field",
    "pool",
    "route",
    "run",
    "sampled",
    "trajectories",
]


class _Callable(ModuleType):
    """The function of the Python interface has the name of this room; the class of a module may be replaced."""

    def __call__(self, **settings: Any) -> Any:
        """Many seeds of one setting as a labelled data set."""
        return importlib.import_module("bandit_lab.study.interface").simulate(**settings)


sys.modules[__name__].__class__ = _Callable
