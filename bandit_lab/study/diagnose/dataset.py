"""The results of `diagnose` as one labelled data set; runs of different lengths are padded with NaN."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.curves.diagnose import Evidence, Finding
from bandit_lab.study.diagnose.settings import THRESHOLDS, DiagnosisSettings
from bandit_lab.study.diagnose.work import Run
from bandit_lab.study.document import Table
from bandit_lab.study.logs.runs import padded

if TYPE_CHECKING:
    import xarray


def dataset(table: Table[Run], settings: DiagnosisSettings) -> "xarray.Dataset":
    """Curves [run, point], what each diagnostic says [run, failure], every number it rests on [run, measure].

    A failure's statistic and threshold are those of its strongest evidence. A run without a measure has NaN there.
    """
    import xarray

    judged = [row for row in table.rows if row.result is not None]
    failures = list(dict.fromkeys(finding.failure for one in judged for finding in one.found.findings))
    measures = list(dict.fromkeys(_label(f, e) for one in judged for f in one.found.findings for e in f.evidence))
    step, reward = (padded([getattr(one.curve, name) for one in judged]) for name in ("step", "reward"))
    coords: dict[str, Any] = {
        "run": ("run", [one.log.name for one in judged]),
        "failure": ("failure", failures),
        "measure": ("measure", measures, {"long_name": "failure:number that it is told from"}),
        "point": ("point", np.arange(step.shape[1]), {"units": "1", "long_name": "place in the log, from 0"}),
    }
    variables: dict[str, Any] = {
        "step": (("run", "point"), step, {"units": "steps"}),
        "reward": (("run", "point"), reward, {"units": "reward"}),
        **table.variables("run", judged),
        "n_points": (("run",), [one.curve.reward.size for one in judged], {"units": "1"}),
        "verdict": (("run",), [", ".join(one.found.verdict) for one in judged]),
        "outcome": (("run",), [one.log.outcome for one in judged], {"long_name": "what the table of runs says"}),
        "gained": (("run",), [one.found.gained for one in judged], {"long_name": "the reward shows a gain"}),
    }
    findings = [{finding.failure: finding for finding in one.found.findings} for one in judged]
    variables |= _by_failure([[_about(found.get(name)) for name in failures] for found in findings])
    for place, finding in enumerate(findings):
        grades = judged[place].found.severity
        for column, name in enumerate(failures):
            variables["severity"][1][place, column] = grades[name][0] if name in grades else ""
            reason = grades[name][1] if name in grades else finding[name].missing if name in finding else ""
            variables["reason"][1][place, column] = reason
    variables |= _by_measure(judged, measures)
    about = {name: getattr(settings, name) for name in THRESHOLDS}
    return xarray.Dataset(variables, coords, {"title": "bandit_lab diagnose", **about})


_NUMBERS = ("score", "statistic", "threshold", "first_step", "last_step")


def _about(finding: Finding | None) -> dict[str, Any]:
    """One cell [run, failure]."""
    if finding is None or not finding.evidence:
        return {"judged": finding is not None and finding.score is not None, "fires": False, "metric": ""}
    best = max(finding.evidence, key=lambda evidence: evidence.score)
    return {
        "judged": finding.score is not None, "fires": finding.present, "metric": best.metric,
        "score": finding.score, "statistic": best.value, "threshold": best.threshold,
        "first_step": best.window[0], "last_step": best.window[1],
    }  # fmt: skip


def _by_failure(cells: list[list[dict[str, Any]]]) -> dict[str, Any]:
    dims = ("run", "failure")
    variables: dict[str, Any] = {
        name: (dims, np.array([[cell[name] for cell in row] for row in cells]))
        for name in ("judged", "fires", "metric")
    }
    for name in _NUMBERS:
        values = np.array([[cell.get(name, np.nan) for cell in row] for row in cells], float)
        variables[name] = (dims, values, {"units": "steps" if name.endswith("step") else "1"})
    for name in ("severity", "reason"):
        variables[name] = (dims, np.full(variables["judged"][1].shape, "", dtype=object))
    return variables


def _by_measure(judged: list[Run], measures: list[str]) -> dict[str, Any]:
    """Every piece of evidence, whether it decides or not."""
    shape = len(judged), len(measures)
    numbers = {name: np.full(shape, np.nan) for name in ("value", "limit", "evidence_score")}
    texts = np.full(shape, "", dtype=object)
    for row, one in enumerate(judged):
        for finding in one.found.findings:
            for evidence in finding.evidence:
                column = measures.index(_label(finding, evidence))
                for values, number in zip(
                    numbers.values(), (evidence.value, evidence.threshold, evidence.score), strict=True
                ):
                    values[row, column] = number
                texts[row, column] = evidence.text
    dims = ("run", "measure")
    return {name: (dims, values, {"units": "1"}) for name, values in numbers.items()} | {"evidence": (dims, texts)}


def _label(finding: Finding, evidence: Evidence) -> str:
    return f"{finding.failure}:{evidence.metric}"
