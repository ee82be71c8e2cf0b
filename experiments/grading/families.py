"""From X, would `advise` have permitted Y, and what became of Y: families of public runs in which one setting varies.

    python experiments/grading/families.py            # the table
    python experiments/grading/families.py --write    # figures/advice_families.json

BANDIT_LAB_RUN_CORPUS and BANDIT_LAB_LOGS name the folders, as in `clinic.py`. Nobody chose the families: runs of one
repository belong together where their index says the same of everything but the learning rate, the updates per batch
or the group size. Of every ordered pair of a family with two values of that setting, the first is given to `advise`,
its log and what the index says of its settings. The second is a collapse, or worked, or neither (stalled, not clear),
by its label.

Goal, written before: no permitted setting collapsed, and at most half of the settings that worked are forbidden. Asked
with the divisor as it is shipped, and with one that is chosen for each repository on all the others: the least that
forbids there every change that collapsed to a run that had gone well. A change downwards is permitted by any rule to a
run that went well, so that what counts is counted for changes upwards alone, too.
"""

import argparse
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab.runs import advise, trainers
from bandit_lab.runs.advise.evidence import look, with_logged_ages
from bandit_lab.runs.advise.work import work
from bandit_lab.runs.logs.gather import Log, gather
from bandit_lab.runs.logs.index import _leading_number
from bandit_lab.runs.logs.settings import AdviseSettings, DiagnosisSettings
from bandit_lab.runs.read.limits import FEWEST_POINTS
from experiments.grading.clinic import FIGURES, FOLDERS, _folder, _rows, labelled

VARIED = {"learning_rate": "learning_rate", "K_ref": "refresh_interval", "G": "group_size"}
"""Column of the index -> setting of `advise`."""
ALIKE = ("repository", "framework", "model", "task", "optimizer_betas", "kl_beta", "clip_eps", "std_normalised")
"""Columns that are the same in a family."""
FURTHER = (
    "no_baseline",
    "reinforce_baseline",
    "len_norm",
    "std_dev",
    "masked_normalize",
    "question_only",
    "leaderboard",
    "batch_token_mean",
)
"""Parts of a run's name that tell of a second change, which the index has in no column: such runs are left out."""
COLLAPSED = ("collapsed", "dynamical_instability")
SAFETY = AdviseSettings().safety


@dataclass(frozen=True)
class Pair:
    """From one run to another: the `change` of the setting in heat, what was said, and what became of the second.

    `margin` is the smaller of law and exact margin at the stiff end (infinite where neither is known and nothing is
    permitted by a curve), `well` whether the first run went well.
    """

    repository: str
    setting: str
    first: str
    second: str
    change: float
    permitted: bool
    margin: float
    well: bool
    basis: str
    outcome: str


def families() -> list[tuple[str, str, dict[str, float]]]:
    """(repository, column, run -> its value) of every family with two values."""
    groups: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for folder in map(_folder, FOLDERS):
        for row in _rows(folder):
            values = {column: _leading_number(row[column]) for column in VARIED}
            for column, value in values.items():
                rest = tuple(values[other] for other in VARIED if other != column)
                if value is not None and None not in rest and not any(one in row["run_id"] for one in FURTHER):
                    alike = tuple(_plain(row[one]) for one in ALIKE)
                    groups[(column, *alike, *rest)][row["run_id"]] = value
    found = [(key[1], key[0], runs) for key, runs in groups.items() if len({*runs.values()}) > 1]
    return sorted(found, key=lambda one: one[:2])


def _plain(text: str) -> str:
    """The text without what stands in brackets: remarks on the same setting differ."""
    return re.sub(r"\s*\(.*?\)", "", text).strip().lower()


def permission(log: Log) -> "PermitWithMargin | None":
    """What `advise` says of a run with the settings in its index, and the margin that this rests on; None where the log
    is too short for a curve."""
    if log.curve is None or log.curve.reward.size < FEWEST_POINTS:
        return None
    given = {"learning_rate": log.learning_rate, "refresh_interval": log.refresh_interval,
             "group_size": log.group_size}  # fmt: skip
    known = {key: int(value) if key != "learning_rate" else value for key, value in given.items() if value}
    setup = with_logged_ages(trainers.understand(None, {}, known, late_columns=log.curve.late_columns), log)
    advice = work(setup, look(log, setup), AdviseSettings())
    worst = advice.margin_upper
    margin = float("inf") if worst is None else min(worst.law or float("inf"), worst.exact)
    return PermitWithMargin(**vars(advice.permit), margin=margin)


@dataclass(frozen=True)
class PermitWithMargin(advise.Permit):
    """A permission with the margin of the curve."""

    margin: float = float("inf")


def pairs() -> Iterator[Pair]:
    """Every question."""
    logs: dict[str, Log] = {}
    for folder in map(_folder, FOLDERS):
        read = gather(DiagnosisSettings(logs_index=str(folder / "index.csv")), lambda done, total: None)
        logs |= {log.name: log for log in read if log.curve is not None}
    labels = {run.name: run.label for run in labelled()}
    found = families()
    told = {name: permission(logs[name]) for name in {run for _, _, runs in found for run in runs} if name in logs}
    for repository, column, runs in found:
        for (first, value), (second, other) in itertools.permutations(runs.items(), 2):
            permit = told.get(first)
            if value == other or permit is None:
                continue
            label = labels.get(second, "")
            outcome = "collapsed" if label in COLLAPSED else "worked" if label == "healthy" else "neither"
            change = value / other if column == "G" else other / value
            yield Pair(repository, VARIED[column], first, second, change, _allows(permit, column, value, other),
                       permit.margin, permit.basis != "failed run", permit.basis, outcome)  # fmt: skip


def _allows(permit: advise.Permit, column: str, value: float, other: float) -> bool:
    if column == "G":
        return permit.group(int(value), int(other), adaptive=True)
    if column == "K_ref":
        return other <= permit.interval
    return other / value <= permit.factor * (1 + 1e-9)


def by_divisor(pair: Pair, divisor: float) -> bool:
    """Whether the rule would permit it with another divisor: what does not rest on a curve stays as it is."""
    if pair.basis != "response time" or pair.setting == "group_size":
        return pair.permitted
    return pair.change <= min(max(pair.margin / divisor, 1.0), advise.REACH) * (1 + 1e-9)


def divisor_without(every: Sequence[Pair], repository: str) -> float:
    """The least divisor that forbids what collapsed in all other repositories to runs that had gone well."""
    asked = [one.margin / one.change for one in every
             if one.repository != repository and one.outcome == "collapsed" and one.basis == "response time"
             and one.change > 1]  # fmt: skip
    return max([SAFETY, *(value * 1.001 for value in asked)])


def counts(every: Sequence[Pair], allowed: Mapping[Pair, bool], upward: bool) -> dict[str, int]:
    """Collapsed and permitted of the collapsed, worked and forbidden of what worked."""
    asked = [one for one in every if one.change > 1 or not upward]
    lost = [one for one in asked if one.outcome == "collapsed"]
    well = [one for one in asked if one.outcome == "worked"]
    return {
        "collapsed_permitted": sum(allowed[one] for one in lost),
        "collapsed": len(lost),
        "worked_forbidden": sum(not allowed[one] for one in well),
        "worked": len(well),
        "neither": len(asked) - len(lost) - len(well),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the counts in figures")
    asked = parser.parse_args()
    every = list(pairs())
    repositories = sorted({one.repository for one in every})
    divisors = {name: divisor_without(every, name) for name in repositories}
    rules = {
        "as shipped": {one: one.permitted for one in every},
        "divisor of the others": {one: by_divisor(one, divisors[one.repository]) for one in every},
        "keep what you have": {one: one.change <= 1 and one.well for one in every},
        "the law's margin": {one: one.change <= max(one.margin, 1.0) for one in every},
    }
    results: dict[str, Any] = {"divisors": {name: round(value, 2) for name, value in divisors.items()}}
    for name, allowed in rules.items():
        results[name] = {"all": counts(every, allowed, False), "upwards": counts(every, allowed, True)}
        results[name]["by_repository"] = {
            one: counts([pair for pair in every if pair.repository == one], allowed, True) for one in repositories
        }
        print(f"\n{name}")
        for which in ("all", "upwards"):
            _show(which, results[name][which])
        for one, row in results[name]["by_repository"].items():
            _show(f"  {one}, upwards", row)
    shipped = rules["as shipped"]
    wrong = [one for one in every if one.outcome == "collapsed" and shipped[one]]
    results["permitted_and_collapsed"] = [f"{one.setting}: {one.first} to {one.second}" for one in wrong]
    print("\npermitted and collapsed:", *results["permitted_and_collapsed"] or ["none"], sep="\n    ")
    print("\ndivisor by all other repositories:", results["divisors"])
    if asked.write:
        path = FIGURES / "advice_families.json"
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _show(name: str, row: Mapping[str, int]) -> None:
    forbidden = row["worked_forbidden"] / row["worked"] if row["worked"] else np.nan
    print(f"{name:60} collapsed and permitted {row['collapsed_permitted']} of {row['collapsed']}, worked and forbidden "
          f"{row['worked_forbidden']} of {row['worked']} = {forbidden:.0%}, neither {row['neither']}")  # fmt: skip


if __name__ == "__main__":
    main()
