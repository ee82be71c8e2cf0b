"""Four failure modes and the outcome of a real or simulated log, with evidence and with what could not be judged."""

import importlib
from typing import TYPE_CHECKING, Any

from grpo_clinic.diagnosis.evidence import FAILURES, OUTCOMES, DiagnoseSettings, Diagnosis, Evidence, Finding
from grpo_clinic.diagnosis.registry import Diagnostic, register_diagnostic

if TYPE_CHECKING:
    from grpo_clinic.diagnosis.oscillation import Oscillation, oscillation_test, oscillation_tests
    from grpo_clinic.diagnosis.registry import DIAGNOSTICS
    from grpo_clinic.diagnosis.verdict import diagnose

_LATER = {
    "Oscillation": "oscillation",
    "oscillation_test": "oscillation",
    "oscillation_tests": "oscillation",
    "DIAGNOSTICS": "verdict",
    "diagnose": "verdict",
}


def __getattr__(name: str) -> Any:
    """What needs JAX is imported when it is asked for: settings and help texts need the thresholds alone."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
