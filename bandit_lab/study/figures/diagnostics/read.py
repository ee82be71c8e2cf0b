"""Numbers that the claims of experiments/diagnostics.py compare."""

import numpy as np
import xarray

from bandit_lab.curves.diagnose import FAILURES
from bandit_lab.study.figures.diagnostics.predict import BLIND
from bandit_lab.study.reproduce.experiment import Found


def recall(counts: xarray.DataArray, kind: str, runs: int) -> float:
    """Share of the runs of a kind whose verdict names it."""
    return float(counts.sel(kind=kind, verdict=kind) / runs)


def judged(found: Found) -> int:
    """Runs of each kind in the half that is judged."""
    return found.setting.runs // 2


def named(found: Found) -> float:
    """The same with the diagnostics, mean over the failures."""
    return float(np.mean([recall(found.measured.by_diagnostics, name, judged(found)) for name in FAILURES]))


def hidden(found: Found) -> float:
    """How many of the three failures the curve alone names at least a tenth less often than the diagnostics do."""
    n, seen = judged(found), found.measured
    alone, all_of_it = ([recall(table, name, n) for name in BLIND] for table in (seen.by_curve, seen.by_diagnostics))
    return float(sum(a <= b - 0.1 for a, b in zip(alone, all_of_it, strict=True)))
