"""Many runs at once: exact mean dynamics and sampled groups."""

from bandit_lab.simulation.dynamics import DYNAMICS, Drift, check_drift, drift_name, drift_of, mean_field
from bandit_lab.simulation.engine import PATHS, Route, Runs, Summary, Width, route, run, trajectories
from bandit_lab.simulation.finite_group import finite_group
from bandit_lab.simulation.results import UNIT, Moments, pool
from bandit_lab.simulation.sampled import sampled

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
    "mean_field",
    "pool",
    "route",
    "run",
    "sampled",
    "trajectories",
]
