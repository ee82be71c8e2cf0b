"""Diagnostics by the name of the failure that they look for."""

from typing import Any, Protocol

import numpy as np

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab.runs.diagnose.evidence import DiagnoseSettings, Finding
from bandit_lab.runs.read.record import Curve, RewardScale, Series

_POINTS = 24  # of the log that a diagnostic from outside is first shown


class Diagnostic(Protocol):
    """One question put to a log.

    For developers. A new diagnostic is a function under `@register_diagnostic("its_failure")` in a module of yours (or
    a file of this folder that `verdict` imports). It takes the three arguments below and others with defaults, its
    options (`diagnose diagnostic.its_failure.option=...`), and gives a `Finding` with that failure: a score that is
    >= 1 where the failure is there, with evidence, or None with what is missing. It has to stand logs of any length
    and content; any randomness starts from `settings.seed`.

    All diagnostics are put to every log, ours first, so that there is none to choose: what can
    be set for ours are the settings of `diagnose`. A function may have an attribute `planted`, a function of a seed
    that gives a curve with the failure: `check` then asks whether it is found.
    """

    def __call__(self, curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
        """Judge one run. group_size: of the trainer, where known."""
        ...


def probe(judge: Any) -> None:
    """Raise ValueError unless a diagnostic gives a `Finding` for a short log."""
    method = f"{judge.func.__name__}(curve of {_POINTS} points, settings, group_size)"
    step = np.arange(float(_POINTS))
    rising = Series(step, 0.2 + 0.6 * step / _POINTS, "reward")
    curve = Curve("a short log", "", "csv", "unknown", rising, RewardScale(0.0, 1.0, True))
    try:
        found = judge(curve, DiagnoseSettings(), group_size=None)
    except Exception as error:
        raise ValueError(f"{method}: expected a Finding, got {_checks.described(error)}") from error
    if not isinstance(found, Finding):
        raise ValueError(f"{method}: expected a Finding, got {type(found).__name__}")


DIAGNOSTICS: Registry[Any] = Registry("diagnostic", given=("curve", "settings", "group_size"), probe=probe)
register_diagnostic = DIAGNOSTICS.register
