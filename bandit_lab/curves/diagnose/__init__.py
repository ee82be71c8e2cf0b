"""The four failure modes on a real or simulated log, with evidence and with what could not be judged."""

from bandit_lab.curves.diagnose.evidence import FAILURES, DiagnoseSettings, Diagnosis, Evidence, Finding
from bandit_lab.curves.diagnose.oscillation import Oscillation, oscillation_test
from bandit_lab.curves.diagnose.registry import DIAGNOSTICS, Detector, register_diagnostic
from bandit_lab.curves.diagnose.verdict import diagnose

__all__ = [
    "DIAGNOSTICS",
    "FAILURES",
    "Detector",
    "DiagnoseSettings",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Oscillation",
    "diagnose",
    "oscillation_test",
    "register_diagnostic",
]
