"""The whole diagnosis of one run: findings, how grave they are, traps of its configuration."""

from dataclasses import replace

import numpy as np

from bandit_lab import _checks
from bandit_lab.curves.diagnose import concentration, coupling, degeneracy, divergence, outcomes, stability
from bandit_lab.curves.diagnose.evidence import FAILURES, OUTCOMES, DiagnoseSettings, Diagnosis, Finding
from bandit_lab.curves.diagnose.excursions import noise_level
from bandit_lab.curves.diagnose.registry import DIAGNOSTICS, register_diagnostic
from bandit_lab.curves.diagnose.severity import severities
from bandit_lab.curves.record import Curve

_NEAR_TOP = 0.85
"""Share of the reward's scale above which there is little left to learn."""


def traps(curve: Curve, group_size: int | None = None, refresh_interval: float | None = None) -> tuple[str, ...]:
    """One sentence per trap found; empty if none."""
    found = []
    size = group_size or int(curve.settings.get("group_size", 0))
    if size == 1:
        found.append(
            "group size 1: there is no group baseline; verl with adv_estimator=grpo takes the raw reward as advantage"
        )
    clip = curve.series.get("clip_frac")
    interval = refresh_interval or curve.settings.get("refresh_interval")
    if clip is not None and not np.any(clip.value):
        if interval == 1:
            found.append(
                "the clipped fraction is zero by construction: the refresh interval is 1, so the ratio is always 1"
            )
        elif interval is None:
            found.append(
                "the clipped fraction is always zero, as it must be if the refresh interval is 1 (no fault then)"
            )
    spread = curve.series.get("reward_std")
    if spread is not None and spread.framework == "TRL":
        found.append(
            "TRL's reward_std is the mean within-group std up to v0.24 and the std of the whole batch from v1.0"
        )
    if curve.step_unit == "unknown":
        found.append("the log does not tell whether a step is an optimiser step or a rollout cycle")
    return tuple(found)


def idle(curve: Curve) -> str:
    """That the reward shows nothing learned, or nothing.

    The reward of the last fifth is set against that of the first. The error is that of white noise, the smaller of
    its level from point to point and within the fifths, doubled, since rewards are more alike than that.
    """
    part = curve.reward.size // 5
    if part < 4:
        return ""
    first, last = curve.reward[:part], curve.reward[-part:]
    noise = min(noise_level(curve.reward), float(np.sqrt(0.5 * (first.var(ddof=1) + last.var(ddof=1)))))
    change, error = float(last.mean() - first.mean()), 2 * noise * float(np.sqrt(2 / part))
    height = (last.mean() - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    if abs(change) > 2 * error or height > _NEAR_TOP:
        return ""
    return f"nothing was learned that shows in the reward: {change:+.2g} from first to last fifth, error {error:.2g}"


register_diagnostic("reward_hacking")(coupling.judge)
register_diagnostic("policy_concentration")(concentration.judge)
register_diagnostic("dynamical_instability")(stability.judge)
register_diagnostic("advantage_degeneracy")(degeneracy.judge)
register_diagnostic("stalled")(outcomes.stalled)
register_diagnostic("diverging")(divergence.judge)


@register_diagnostic("collapsed")
def _collapsed(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    return outcomes.collapsed(curve, settings, stability.wave_of(curve, settings))


def _quiet(finding: Finding) -> Finding:
    """The same finding below its threshold."""
    evidence = tuple(replace(one, score=min(one.score, 0.99)) for one in finding.evidence)
    return replace(finding, score=0.99, evidence=evidence)


def diagnose(
    curve: Curve,
    settings: DiagnoseSettings | None = None,
    group_size: int | None = None,
    refresh_interval: float | None = None,
) -> Diagnosis:
    """Judge one run on the four failure modes and on what became of it; what the log cannot tell is said in `missing`.

    `group_size` and `refresh_interval` of the trainer, where known, allow bounds that the log alone does not.
    """
    settings = settings or DiagnoseSettings()
    known = (*FAILURES, *OUTCOMES)
    names = (*known, *(name for name in DIAGNOSTICS if name not in known))
    for name in settings.options:
        _checks.choice("diagnostic", name, DIAGNOSTICS)
    judges = [DIAGNOSTICS.build(name, settings.options.get(name, {})) for name in names]
    findings = tuple(judge(curve, settings, group_size=group_size) for judge in judges)
    if any(one.failure == "collapsed" and one.present for one in findings):  # then it is no standstill
        findings = tuple(_quiet(one) if one.failure == "stalled" and one.present else one for one in findings)
    grades, nothing = severities(findings, curve), idle(curve)
    remarks = [*curve.notes, *([nothing] if nothing else []), *(why for _, why in grades.values() if why)]
    return Diagnosis(
        curve.name, findings, traps(curve, group_size, refresh_interval), tuple(remarks), grades, not nothing
    )
