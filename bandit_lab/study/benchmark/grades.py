"""Do the grades of findings say what became of the run? Counted against the true reward, which no diagnostic sees.

A finding is graded `failure` or `note` from what the log shows. Beside how many get each grade stands what such runs
lack at the end of the largest true reward, and how often, of a run graded failure and one graded note, the former
lacks more (1/2 by chance). There is no threshold in it, and no grade was tuned on it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandit_lab.curves.diagnose import FAILURES
from bandit_lab.study.benchmark.score import Diagnosis
from bandit_lab.study.benchmark.simulate import Simulated
from bandit_lab.study.document import Value
from bandit_lab.study.document.as_json import entries


def lacking(run: Simulated) -> float:
    """Share of the largest true reward that a run lacks over its last tenth."""
    count = max(run.true.size // 10, 3)
    return 1 - float(run.true[-count:].mean()) / float(run.planted.true.max())


def grades(judged: Sequence[Diagnosis]) -> dict[str, Any]:
    """`failures`: one row each, of the runs that reach the demanded size and were found; `healthy_graded_failure`."""
    healthy = [one for one in judged if one.healthy]
    return {
        "failures": [_row(judged, failure) for failure in FAILURES],
        "healthy_graded_failure": sum(bool(one.harmful) for one in healthy),
        "healthy": len(healthy),
    }


def _row(judged: Sequence[Diagnosis], failure: str) -> dict[str, Any]:
    found = [one for one in judged if one.labels[failure] == "present" and failure in one.found]
    harm = np.array([one.lacking for one in found if failure in one.harmful])
    note = np.array([one.lacking for one in found if failure not in one.harmful])
    numbers = {
        "lacking_as_failure": float(np.median(harm)) if harm.size else None,
        "lacking_as_note": float(np.median(note)) if note.size else None,
        "in_order": float(np.mean(harm[:, None] > note)) if harm.size and note.size else None,
    }
    counts = {"failure": failure, "found": len(found), "graded_failure": harm.size, "graded_note": note.size}
    return counts | entries({key: Value.of(number, "no run has this grade") for key, number in numbers.items()})
