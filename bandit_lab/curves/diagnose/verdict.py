"""The whole diagnosis of one run."""

from bandit_lab.curves.diagnose import concentration, coupling, degeneracy, stability
from bandit_lab.curves.diagnose.evidence import DiagnoseSettings, Diagnosis
from bandit_lab.curves.diagnose.traps import remarks, traps
from bandit_lab.curves.record import Curve


def diagnose(
    curve: Curve,
    settings: DiagnoseSettings | None = None,
    group_size: int | None = None,
    refresh_interval: float | None = None,
) -> Diagnosis:
    """Judge one run on the four failure modes; what the log cannot tell is said in `missing`.

    `group_size` and `refresh_interval` of the trainer, where known, allow bounds that the log alone does not.
    """
    settings = settings or DiagnoseSettings()
    findings = (
        coupling.judge(curve, settings),
        degeneracy.judge(curve, settings, group_size),
        concentration.judge(curve, settings),
        stability.judge(curve, settings),
    )
    return Diagnosis(curve.name, findings, traps(curve, group_size, refresh_interval), remarks(curve))
