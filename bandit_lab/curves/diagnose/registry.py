"""Diagnostics by the name of the failure that they look for."""

from typing import Any, Protocol

from bandit_lab._registry import Registry
from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Finding
from bandit_lab.curves.record import Curve


class Diagnostic(Protocol):
    """One question put to a log.

    For developers. A new diagnostic is a function under `@register_diagnostic("its_failure")` in a module of yours (or
    a file of this folder that `verdict` imports). It takes the three arguments below and others with defaults, its
    options (`diagnose diagnostic.its_failure.option=...`), and gives a `Finding` with that failure: a score that is
    >= 1 where the failure is there, with evidence, or None with what is missing. It has to stand logs of any length
    and content; any randomness starts from `settings.seed`.

    All diagnostics are put to every log, ours first, so that there is none to choose, and no YAML in `conf/`: what can
    be set for ours are the settings of `diagnose`. A function may have an attribute `planted`, a function of a seed
    that gives a curve with the failure: `check` then asks whether it is found.
    """

    def __call__(self, curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
        """Judge one run. group_size: of the trainer, where known."""
        ...


Detector = Diagnostic  # its name in the first releases
DIAGNOSTICS: Registry[Any] = Registry("diagnostic", given=("curve", "settings", "group_size"))
register_diagnostic = DIAGNOSTICS.register
