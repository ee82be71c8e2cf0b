"""The whole diagnosis of one run: findings, how grave they are, traps of its configuration."""

from dataclasses import replace
from functools import partial

import numpy as np

from grpo_clinic import _checks
from grpo_clinic.diagnosis import (
    concentration,
    coupling,
    degeneracy,
    divergence,
    format_only,
    length,
    mismatch,
    outcomes,
    plumbing,
    stability,
    truncation,
)
from grpo_clinic.diagnosis.evidence import (
    CONTROL,
    FAILURES,
    NO_REWARD,
    OUTCOMES,
    WITHOUT_REWARD,
    DiagnoseSettings,
    Diagnosis,
    Finding,
)
from grpo_clinic.diagnosis.registry import DIAGNOSTICS, register_diagnostic
from grpo_clinic.diagnosis.severity import severities
from grpo_clinic.readers.record import Curve

_NEAR_TOP = 0.85
"""Share of the reward's scale above which there is little left to learn."""


def traps(curve: Curve, group_size: int | None = None, refresh_interval: float | None = None) -> tuple[str, ...]:
    """One sentence per trap found; empty if none."""
    found = []
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
    """That the reward shows nothing learned (`outcomes.gain_of`), or nothing."""
    part = curve.reward.size // 5
    if part < 4:
        return ""
    gain = outcomes.gain_of(curve.reward)
    change, error = float(gain.change[0]), float(gain.error[0])
    height = (curve.reward[-part:].mean() - curve.scale.low) / max(curve.scale.high - curve.scale.low, 1e-12)
    if gain.shows or change < -2 * error or height > _NEAR_TOP:
        return ""
    at = gain.clearest
    seen = f"{gain.change[at]:+.2g} from the first {gain.start(at)} to the last fifth, error {gain.error[at]:.2g}"
    return f"nothing was learned that shows in the reward: {seen}"


register_diagnostic("reward_hacking")(coupling.judge)
register_diagnostic("policy_concentration")(concentration.judge)
register_diagnostic("dynamical_instability")(stability.judge)
register_diagnostic("advantage_degeneracy")(degeneracy.judge)
register_diagnostic("stalled")(outcomes.stalled)
register_diagnostic("diverging")(divergence.judge)
register_diagnostic("truncated_answers")(truncation.judge)


@register_diagnostic("collapsed")
def _collapsed(curve: Curve, settings: DiagnoseSettings, group_size: int | None = None) -> Finding:
    return outcomes.collapsed(curve, settings, stability.wave_of(curve, settings))


def _below_threshold(finding: Finding) -> Finding:
    evidence = tuple(replace(one, score=min(one.score, 0.99)) for one in finding.evidence)
    return replace(finding, score=0.99, evidence=evidence)


_UNJUDGED = ("clip_frac", "age")
"""Quantities that are read and that no rule judges."""


def _looked_at(curve: Curve) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(quantities that were judged, columns that are logged and were not)."""
    judged = [name.replace("_", " ") for name in curve.series if name not in (*_UNJUDGED, "lr")]
    judged = ["reward"] * bool(curve.reward.size) + judged + ["held-out results"] * (curve.eval is not None)
    return tuple(judged), (*(curve.series[name].key for name in _UNJUDGED if name in curve.series), *curve.unread)


def _without_reward(failure: str) -> Finding:
    missing = f"no reward is logged: {failure.replace('_', ' ')} cannot be judged"
    return Finding(failure, None, missing=missing, wanted="the reward")


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
    judges = {name: partial(DIAGNOSTICS[name], **settings.options.get(name, {})) for name in names}
    findings = tuple(
        judge(curve, settings, group_size=group_size)
        if curve.reward.size or name in WITHOUT_REWARD
        else _without_reward(name)
        for name, judge in judges.items()
    )
    unlike = CONTROL if plumbing.is_short_control(curve) else "" if curve.reward.size else NO_REWARD
    if unlike or any(one.failure == "collapsed" and one.present for one in findings):  # then it is no standstill
        findings = tuple(_below_threshold(one) if one.failure == "stalled" and one.present else one for one in findings)
    asked = (plumbing.judge(curve), mismatch.judge(curve), format_only.judge(curve), length.judge(curve))
    findings = (*(one for one in asked if one is not None), *findings)
    grades, nothing = severities(findings, curve), "" if unlike else idle(curve)
    remarks = [*curve.notes, *([nothing] if nothing else []), *(why for _, why in grades.values() if why)]
    remarks += [one.remark for one in findings if one.remark]
    return Diagnosis(
        curve.name,
        findings,
        traps(curve, group_size, refresh_interval),
        tuple(remarks),
        grades,
        not unlike and not nothing and curve.reward.size >= outcomes.FEWEST,
        float(curve.leading.step[0]),
        unlike,
        plumbing.not_in_order(curve) if unlike == CONTROL else (),
        *_looked_at(curve),
    )
