"""Diagnostics by the name of the failure that they look for."""

from typing import Any, Protocol

from grpo_clinic._registry import Registry
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Finding
from grpo_clinic.readers.record import Curve


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


DIAGNOSTICS: Registry[Any] = Registry("diagnostic")
register_diagnostic = DIAGNOSTICS.register
