"""Verdicts on runs whose failures are known: sizes of the failures, recall, false alarms, and whether grades are right.

Sizes are read off a run's hidden state (`effects.yaml`). A finding is graded `failure` or `note` from
what the log shows. Do the grades say what became of the run? They are counted against the true reward, which no
diagnostic sees. Beside each grade's count stands what such runs lack at the end of the largest true reward. Of a run
graded failure and one graded note, how often does the former lack more (1/2 by chance)? There is no threshold in it,
and no grade was tuned on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from grpo_clinic.report import FAILURES

from bandit_lab.app.result import Value, plain
from experiments.shared.sick_runs.simulate import Simulated


@dataclass(frozen=True)
class ScoredRun:
    """One run: the `sizes` of its failures, and their labels (`absent`, `weak`, `present`). `named`: the failures in
    the verdict. `harmful`: those graded as more than a note. `planted_healthy`: by the recipe of
    healthy runs. `lacking`: share of the largest true reward that it lacks at the end."""

    sizes: dict[str, float]
    labels: dict[str, str]
    named: tuple[str, ...]
    planted_healthy: bool
    harmful: tuple[str, ...] = ()
    lacking: float = float("nan")

    @property
    def healthy(self) -> bool:
        """Planted as healthy, and every effect below its limit."""
        return self.planted_healthy and set(self.labels.values()) == {"absent"}


def recall(judged: Sequence[ScoredRun], failure: str) -> tuple[int, int]:
    """(runs in which the failure was found, runs in which its effect reaches the demanded size)."""
    present = [one for one in judged if one.labels[failure] == "present"]
    return sum(failure in one.named for one in present), len(present)


def macro_recall(judged: Sequence[ScoredRun]) -> float:
    """Mean recall of the failures that occur."""
    counts = [recall(judged, failure) for failure in FAILURES]
    return float(np.mean([named / runs for named, runs in counts if runs]))


def false_alarms(judged: Sequence[ScoredRun]) -> tuple[int, int]:
    """(healthy runs with any failure in the verdict, healthy runs)."""
    healthy = [one for one in judged if one.healthy]
    return sum(bool(one.named) for one in healthy), len(healthy)


def wrongly_added(judged: Sequence[ScoredRun], failure: str) -> tuple[int, int]:
    """(runs with the failure in the verdict, runs) among those in which its effect is absent, healthy or not."""
    absent = [one for one in judged if one.labels[failure] == "absent"]
    return sum(failure in one.named for one in absent), len(absent)


def recall_curve(
    judged: Sequence[ScoredRun], failure: str, bins: Sequence[float]
) -> list[tuple[float, float, int, int]]:
    """(low, high, found, runs) for each bin of the effect's size; the last bin is closed."""
    rows = []
    for low, high in pairwise(bins):
        last = high == bins[-1]
        inside = [one for one in judged if low <= one.sizes[failure] < high or (last and one.sizes[failure] >= high)]
        rows.append((float(low), float(high), sum(failure in one.named for one in inside), len(inside)))
    return rows


def confusion(judged: Sequence[ScoredRun]) -> np.ndarray:
    """Counts [5, 5]: rows the single failure present (or healthy first), columns the verdict's failures.

    Runs with several failures, or with a weak one, are left out; a verdict of several counts in each of its columns.
    """
    names = ("healthy", *FAILURES)
    counts = np.zeros((len(names), len(names)), int)
    for one in judged:
        present = [name for name in FAILURES if one.labels[name] == "present"]
        if one.healthy:
            row = 0
        elif len(present) == 1 and "weak" not in one.labels.values():
            row = names.index(present[0])
        else:
            continue
        for name in one.named or ("healthy",):
            counts[row, names.index(name)] += 1
    return counts


def table(judged: Sequence[ScoredRun]) -> list[dict[str, Any]]:
    """One row per failure: recall where demanded, share added where absent."""
    rows = []
    for failure in FAILURES:
        named, runs = recall(judged, failure)
        added, absent = wrongly_added(judged, failure)
        rows.append({"failure": failure, "found": named, "present": runs, "added": added, "absent": absent})
    return rows


def lacking(run: Simulated) -> float:
    """Share of the largest true reward that a run lacks over its last tenth."""
    count = max(run.true.size // 10, 3)
    return 1 - float(run.true[-count:].mean()) / float(run.planted.true.max())


def grades(judged: Sequence[ScoredRun]) -> dict[str, Any]:
    """`failures`: one row each, of the runs that reach the demanded size and were found; `healthy_graded_failure`."""
    healthy = [one for one in judged if one.healthy]
    return {
        "failures": [_row(judged, failure) for failure in FAILURES],
        "healthy_graded_failure": sum(bool(one.harmful) for one in healthy),
        "healthy": len(healthy),
    }


def _row(judged: Sequence[ScoredRun], failure: str) -> dict[str, Any]:
    named = [one for one in judged if one.labels[failure] == "present" and failure in one.named]
    harm = np.array([one.lacking for one in named if failure in one.harmful])
    note = np.array([one.lacking for one in named if failure not in one.harmful])
    numbers = {
        "lacking_as_failure": float(np.median(harm)) if harm.size else None,
        "lacking_as_note": float(np.median(note)) if note.size else None,
        "in_order": float(np.mean(harm[:, None] > note)) if harm.size and note.size else None,
    }
    counts = {"failure": failure, "found": len(named), "graded_failure": harm.size, "graded_note": note.size}
    return counts | plain({key: Value.of(number, "no run has this grade") for key, number in numbers.items()})
