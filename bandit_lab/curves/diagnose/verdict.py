"""The whole diagnosis of one run: findings, what they mean for the run, traps of its configuration.

A finding is a failure, or a note where it has done no harm that shows. Hacking, instability and whatever a user's own
diagnostic looks for are harm by what they are. Lost entropy and silent groups are means to it: a policy that has
settled on the right answer is certain too, and a run in which most groups are silent may still learn from the rest.
Where they stand alone they are notes as long as neither the reward nor the held-out result has fallen from its best,
and

- concentration: the reward stands in the upper half of its scale, or still rises;
- degeneracy: the reward still rises.

These numbers grade a finding and say why; none of them decides whether there is one. Errors are those of white noise
from point to point.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from bandit_lab import _checks
from bandit_lab.curves.diagnose import concentration, coupling, degeneracy, divergence, outcomes, stability
from bandit_lab.curves.diagnose.evidence import FAILURES, OUTCOMES, DiagnoseSettings, Diagnosis, Finding
from bandit_lab.curves.diagnose.excursions import noise_level
from bandit_lab.curves.diagnose.registry import DIAGNOSTICS, register_diagnostic
from bandit_lab.curves.record import Curve, Floats

Severity = Literal["failure", "note"]
_MEANS = {"policy_concentration": "the entropy is lost", "advantage_degeneracy": "most groups are silent"}
_HARM = {"collapsed": "a collapse", "diverging": "divergence"}
_FALL, _Z = 0.1, 2.0
"""Share of the climb that a fall must have to be harm, and standard errors of a fall or rise."""
_HIGH, _CLIMB = 0.5, 0.25
"""Share of the scale above which a reward is high, if it climbed by so much of it."""
_FEWEST = 8
_ROUNDING = 1e-9
"""Share of the range that is no fall or rise."""
_NEAR_TOP = 0.85
"""Share of the reward's scale above which there is little left to learn."""


def severities(findings: Sequence[Finding], curve: Curve) -> dict[str, tuple[Severity, str]]:
    """(grade, reason) of every finding that is present, by failure; harm by itself needs no reason."""
    present = [finding.failure for finding in findings if finding.present]
    causes = [name for name in present if name not in _MEANS and name != "stalled"]
    harm = _HARM.get(causes[0], causes[0].replace("_", " ")) if causes else ""
    return {name: _grade(name, curve, harm) if name in _MEANS else ("failure", "") for name in present}


def _grade(failure: str, curve: Curve, harm: str) -> tuple[Severity, str]:
    what = _MEANS[failure]
    if harm:
        return "failure", f"{what}, and there is {harm}"
    if _fallen(curve.reward):
        return "failure", f"{what}, and the reward has fallen from its best"
    if curve.eval is not None and _fallen(curve.eval.value):
        return "failure", f"{what}, and the held-out result has fallen from its best"
    if _rising(curve.reward):
        return "note", f"{what}, but the reward still rises"
    if failure == "policy_concentration" and _high(curve):
        return "note", f"{what}, but the reward holds in the upper half of its scale"
    return "failure", f"{what}, and the reward does not rise any more"


def _fallen(values: Floats) -> bool:
    """Whether the mean of the last fifth (at most 40 points) is below the best running mean of as many."""
    if values.size < _FEWEST:
        return False
    values = values - values[0]
    width = int(np.clip(values.size // 5, 3, 40))
    means = np.convolve(values, np.ones(width) / width, mode="valid")
    peak = int(means.argmax())
    fall, climb = float(means[peak] - means[-1]), float(means[peak] - means[: peak + 1].min())
    return fall > max(
        _FALL * climb, _Z * noise_level(values) * float(np.sqrt(2 / width)), _ROUNDING * float(np.ptp(values))
    )


def _rising(reward: Floats) -> bool:
    """Whether a straight line through the last half rises."""
    half = reward[reward.size // 2 :] - reward[0]
    x = np.linspace(-0.5, 0.5, half.size)
    scatter = float(np.sum(x * x))
    return float(np.sum(x * half)) / scatter > max(
        _Z * noise_level(reward) / float(np.sqrt(scatter)), _ROUNDING * float(np.ptp(half))
    )


def _high(curve: Curve) -> bool:
    width = max(curve.reward.size // 10, 3)
    span = max(curve.scale.high - curve.scale.low, 1e-12)
    first, last = ((float(r.mean()) - curve.scale.low) / span for r in (curve.reward[:width], curve.reward[-width:]))
    return last > _HIGH and (curve.scale.given or last - first > _CLIMB)


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
