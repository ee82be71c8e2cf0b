"""Detectors by the name of the failure that they look for."""

from typing import Protocol

from bandit_lab._registry import Registry
from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Finding
from bandit_lab.curves.record import Curve


class Detector(Protocol):
    """One question put to a log.

    For developers. A new detector is a function under `@register_diagnostic("its_failure")` in a module of yours (or a
    file of this folder that `verdict` imports). It gives a `Finding` with that failure: a score that is >= 1 where the
    failure is there, with evidence, or None with what is missing. `diagnose` runs it after the four of the package.
    """

    def __call__(self, curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
        """Judge one run. group_size: of the trainer, where known."""
        ...


DIAGNOSTICS: Registry[Finding] = Registry("diagnostic")
register_diagnostic = DIAGNOSTICS.register
