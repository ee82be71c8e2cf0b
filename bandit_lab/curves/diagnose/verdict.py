"""The whole diagnosis of one run."""

from bandit_lab import _checks
from bandit_lab.curves.diagnose import concentration, coupling, degeneracy, stability
from bandit_lab.curves.diagnose.evidence import FAILURES, DiagnoseSettings, Diagnosis, Finding
from bandit_lab.curves.diagnose.registry import DIAGNOSTICS, register_diagnostic
from bandit_lab.curves.diagnose.severity import severities
from bandit_lab.curves.diagnose.traps import idle, traps
from bandit_lab.curves.record import Curve


@register_diagnostic("reward_hacking")
def _hacking(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    return coupling.judge(curve, settings)


@register_diagnostic("policy_concentration")
def _concentration(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    return concentration.judge(curve, settings)


@register_diagnostic("dynamical_instability")
def _instability(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    return stability.judge(curve, settings)


register_diagnostic("advantage_degeneracy")(degeneracy.judge)


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
    names = (*FAILURES, *(name for name in DIAGNOSTICS if name not in FAILURES))
    for name in settings.options:
        _checks.choice("diagnostic", name, DIAGNOSTICS)
    judges = [DIAGNOSTICS.build(name, settings.options.get(name, {})) for name in names]
    findings = tuple(judge(curve, settings, group_size=group_size) for judge in judges)
    grades, nothing = severities(findings, curve), idle(curve)
    remarks = [*curve.notes, *([nothing] if nothing else []), *(why for _, why in grades.values() if why)]
    return Diagnosis(
        curve.name, findings, traps(curve, group_size, refresh_interval), tuple(remarks), grades, not nothing
    )
