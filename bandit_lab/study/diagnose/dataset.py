"""The results of `diagnose` as one labelled data set; runs of different lengths are padded with NaN."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandit_lab.curves.diagnose import Diagnosis, Evidence
from bandit_lab.study.diagnose.work import Run
from bandit_lab.study.document import Table
from bandit_lab.study.logs.runs import curves_of
from bandit_lab.study.settings.log import THRESHOLDS, DiagnosisSettings

if TYPE_CHECKING:
    import xarray


class Cell(NamedTuple):
    """What one diagnostic says of one run: its strongest evidence, the grade of what was found, and why."""

    judged: bool = False
    fires: bool = False
    metric: str = ""
    score: float | None = None
    statistic: float = np.nan
    threshold: float = np.nan
    first_step: float = np.nan
    last_step: float = np.nan
    severity: str = ""
    reason: str = ""


def dataset(table: Table[Run], settings: DiagnosisSettings) -> "xarray.Dataset":
    """Curves [run, point], what each diagnostic says [run, failure], every number it rests on [run, measure].

    A failure's statistic and threshold are those of its strongest evidence. A run without a measure has NaN there.
    """
    import xarray

    rows = [row for row in table.rows if row.result is not None]
    failures = list(dict.fromkeys(finding.failure for row in rows for finding in row.found.findings))
    seen = [_seen(row.found) for row in rows]
    measures = list(dict.fromkeys(name for evidence in seen for name in evidence))
    curves, coords = curves_of(rows)
    coords |= {
        "failure": ("failure", failures),
        "measure": ("measure", measures, {"long_name": "failure:number that it is told from"}),
    }
    variables: dict[str, Any] = {
        **curves,
        **table.variables("run", rows),
        "n_points": (("run",), [row.curve.reward.size for row in rows], {"units": "1"}),
        "verdict": (("run",), [", ".join(row.found.verdict) for row in rows]),
        "outcome": (("run",), [row.log.outcome for row in rows], {"long_name": "what the table of runs says"}),
        "gained": (("run",), [row.found.gained for row in rows], {"long_name": "the reward shows a gain"}),
        **_by_failure([[_cell(row.found, name) for name in failures] for row in rows]),
        **_by_measure([[evidence.get(name) for name in measures] for evidence in seen]),
    }
    about = {name: getattr(settings, name) for name in THRESHOLDS}
    return xarray.Dataset(variables, coords, {"title": "bandit_lab diagnose", **about})


def _cell(found: Diagnosis, failure: str) -> Cell:
    finding = next((one for one in found.findings if one.failure == failure), None)
    if finding is None:
        return Cell()
    severity, reason = found.severity.get(failure, ("", finding.missing))
    if not finding.evidence:
        return Cell(finding.score is not None, severity=severity, reason=reason)
    best = max(finding.evidence, key=lambda evidence: evidence.score)
    return Cell(finding.score is not None, finding.present, best.metric, finding.score, best.value, best.threshold,
                *best.window, severity, reason)  # fmt: skip


def _by_failure(cells: Sequence[Sequence[Cell]]) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    for place, (name, kind) in enumerate(Cell.__annotations__.items()):
        number, wide = kind not in (bool, str), name in ("severity", "reason")
        values = np.array(
            [[cell[place] for cell in row] for row in cells], float if number else object if wide else None
        )
        units = {"units": "steps" if name.endswith("step") else "1"} if number else {}
        variables[name] = (("run", "failure"), values, units)
    return variables


def _seen(found: Diagnosis) -> dict[str, Evidence]:
    """Every piece of evidence by `failure:metric`, whether it decides or not."""
    return {f"{finding.failure}:{one.metric}": one for finding in found.findings for one in finding.evidence}


def _by_measure(rows: Sequence[Sequence[Evidence | None]]) -> dict[str, Any]:
    dims, variables = ("run", "measure"), {}
    for name, key in {"value": "value", "limit": "threshold", "evidence_score": "score"}.items():
        values = [[np.nan if one is None else getattr(one, key) for one in row] for row in rows]
        variables[name] = (dims, np.array(values, float), {"units": "1"})
    texts = [["" if one is None else one.text for one in row] for row in rows]
    return variables | {"evidence": (dims, np.array(texts, object))}
