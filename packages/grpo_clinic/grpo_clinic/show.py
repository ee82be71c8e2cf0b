"""What is said of a run: the first screen, the rest, and a row of JSON."""

import math
from typing import Any

from grpo_clinic.diagnosis.decide import decide
from grpo_clinic.diagnosis.evidence import Diagnosis, Evidence
from grpo_clinic.fitting.reading import StiffnessReading
from grpo_clinic.fitting.results import FittedNumber
from grpo_clinic.fitting.work import Fitted
from grpo_clinic.logs.findings import caveat_lines, measure, verdict_lines, verdict_text
from grpo_clinic.readers import Curve

_FIRST = 3
"""Numbers of the evidence on the first screen."""


def diagnosis_text(name: str, curve: Curve, found: Diagnosis, whole: bool) -> str:
    """Verdict, its evidence, what to do next; `whole`: every number, what was not judged, what was read."""
    sentences = verdict_lines(found)
    above = [one for one in found.evidence if one.above]
    count = f"{curve.reward.size or 'no'} reward{'s' if curve.reward.size != 1 else ''}"
    lines = [f"{name}, {count}: {verdict_text(found, False)}.", sentences[0]]
    lines += [f"  {_evidence(one)}" for one in (found.evidence if whole else above[:_FIRST])]
    lines += sentences[1:] if whole else sentences[-1:]
    caveats = caveat_lines(found)
    if whole:
        lines += [*decide(found), *caveats, f"Read: {'; '.join(curve.recognised)}."]
    elif caveats:
        lines.append(f"{len(caveats)} more notes: what was not judged, and what to beware of (-v).")
    return "\n".join(lines)


def _evidence(one: Evidence) -> str:
    window = f"steps {one.window[0]:g} to {one.window[1]:g}"
    limit = f", limit {one.threshold:.3g} {one.also}".rstrip() if math.isfinite(one.threshold) else ""
    return f"{measure(one.metric)} {one.value:.3g}{limit}, {window}: {one.text}"


def diagnosis_row(name: str, curve: Curve, found: Diagnosis) -> dict[str, Any]:
    """The same as numbers; what is no finite number is null."""
    evidence = [
        {
            "failure": finding.failure,
            "metric": one.metric,
            "window": [finite(end) for end in one.window],
            "value": finite(one.value),
            "threshold": finite(one.threshold),
            "text": one.text,
        }
        for finding in found.findings
        for one in finding.evidence
    ]
    return {
        "log": name,
        "path": curve.source,
        "reward_key": curve.reward_series.key or None,
        "n_points": int(curve.reward.size),
        "verdict": list(found.verdict),
        "severity": {name: grade for name, (grade, _) in found.severity.items()},
        "next": found.next,
        "scores": {failure: finite(score) for failure, score in found.scores.items()},
        "evidence": evidence,
        "traps": list(found.traps),
        "remarks": list(found.remarks),
        "not_logged": list(found.missing),
        "logged_and_not_judged": list(found.not_judged),
        "recognised": list(curve.recognised),
    }


def fit_text(found: Fitted, level: float, whole: bool) -> str:
    """The law with the smallest AICc, its numbers with their intervals; `whole`: every law, what was read."""
    best = found.best
    lines = [
        f"{found.name}, {found.curve.step.size} rewards: {best.law.replace('_', ' ')}, R2 = {best.r_squared:.2f} "
        f"({best.r_squared_explainable:.2f} of what is explainable). {found.status}.",
        *(f"  {name:14} {_number(one, level)}" for name, one in best.parameters.items()),
    ]
    if isinstance(reading := found.reading, StiffnessReading):
        lines.append(
            f"Effective stiffness {reading.stiffness:.3g} [{reading.low:.3g}, {reading.high:.3g}] reward per logit^2; "
            f"momentum would give a damping ratio of {reading.damping_ratio_of_momentum:.3g}."
        )
    if whole:
        laws, smallest = found.fit.laws, min(one.aicc for one in found.fit.laws.values())
        lines += [f"  {law:20} AICc +{laws[law].aicc - smallest:.3g}: {laws[law].status}" for law in found.fit.ranked]
        lines.append(f"Read: {'; '.join(found.curve.recognised)}.")
    return "\n".join(lines)


def _number(one: FittedNumber, level: float) -> str:
    ends = "not bounded" if not one.bounded else f"{100 * level:g} % [{one.low:.4g}, {one.high:.4g}]"
    return f"{one.value:.4g} {ends} {'' if one.unit == '1' else one.unit}".rstrip()


def fit_row(found: Fitted) -> dict[str, Any]:
    """The same as numbers; an end that the curve does not bound is null."""
    best, reading = found.best, found.reading
    return {
        "log": found.name,
        "path": found.curve.source,
        "n_points": int(found.curve.step.size),
        "model": best.law,
        "parameters": {
            name: {
                "value": finite(one.value),
                "low": finite(one.low),
                "high": finite(one.high),
                "standard_error": finite(one.standard_error),
                "unit": one.unit,
            }
            for name, one in best.parameters.items()
        },
        "r_squared": finite(best.r_squared),
        "r_squared_explainable": finite(best.r_squared_explainable),
        "aicc": finite(best.aicc),
        "models": {law: {"aicc": finite(one.aicc), "status": one.status} for law, one in found.fit.laws.items()},
        "effective_stiffness": reading if isinstance(reading, str) else finite(reading.stiffness),
        "status": found.status,
    }


def finite(value: float | None) -> float | None:
    """`value`, None where it is no finite number: JSON has no other."""
    return None if value is None or not math.isfinite(value) else float(value)
