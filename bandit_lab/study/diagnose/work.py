"""What `diagnose` does to one run, and the row of `summary.json` that comes of it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandit_lab.curves import Curve
from bandit_lab.curves.diagnose import DiagnoseSettings, Diagnosis, Evidence, diagnose
from bandit_lab.curves.trainers import Setup
from bandit_lab.study.folder.store import with_reasons
from bandit_lab.study.logs.gather import Log


@dataclass(frozen=True)
class Judged:
    """One run with its diagnosis."""

    log: Log
    curve: Curve
    diagnosis: Diagnosis


def work(log: Log, settings: DiagnoseSettings, setup: Setup | None = None) -> Judged:
    """Judge one run that has a curve; a trainer's configuration tells G and K_ref where nobody else did."""
    assert log.curve is not None
    size, interval = log.group_size, log.refresh_interval
    extra: tuple[str, ...] = ()
    if setup is not None:
        known = setup.number("group_size")
        size = size or (int(known) if known else None)
        interval = interval or setup.loop.interval
        extra = tuple(f"{trap.text} ({trap.source})" for trap in setup.traps)
    found = diagnose(log.curve, settings, size, interval)
    return Judged(log, log.curve, replace(found, traps=(*dict.fromkeys((*found.traps, *extra)),)))


def row(log: Log, one: Judged | None) -> dict[str, Any]:
    """One log: verdict, scores, evidence, what is missing; or nulls with the reason."""
    about: dict[str, Any] = {"log": log.name, "path": log.path}
    outcome = {"outcome": log.outcome} if log.outcome else {}
    if one is None:
        empty = ("n_points", "verdict", "scores", "evidence", "missing")
        nothing = with_reasons(dict.fromkeys(empty), dict.fromkeys(empty, log.reason))
        return about | nothing | outcome | {"status": f"no curve: {log.reason}"}
    found, curve = one.diagnosis, one.curve
    reasons: dict[str, str] = {finding.failure: finding.missing for finding in found.findings}
    return (
        about
        | {
            "n_points": int(curve.step.size),
            "format": curve.format,
            "framework": curve.framework,
            "reward_key": curve.reward_series.key,
            "step_unit": curve.step_unit,
            "steps": [float(curve.step[0]), float(curve.step[-1])],
            "verdict": list(found.verdict),
            "severity": {name: grade for name, (grade, _) in found.severity.items()},
            "gained": found.gained,
            "scores": with_reasons(dict(found.scores), reasons),
            "evidence": [
                {"failure": finding.failure, **_evidence(evidence)}
                for finding in found.findings
                for evidence in finding.evidence
            ],
            "missing": list(found.missing),
            "traps": list(found.traps),
            "remarks": list(found.remarks),
            "recognised": list(curve.recognised),
        }
        | outcome
        | {"status": "ok"}
    )


def _evidence(one: Evidence) -> dict[str, Any]:
    bounded = np.isfinite(one.threshold)
    return {
        "metric": one.metric,
        "window": list(one.window),
        **with_reasons({"value": one.value, "threshold": one.threshold if bounded else None},
                       {"value": "not finite", "threshold": "told, not judged"}),
        "text": one.text,
    }  # fmt: skip
