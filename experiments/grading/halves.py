"""What `diagnose` says of public runs of known outcome: designed on one half, scored on the other.

    python experiments/grading/halves.py                # the first half: on it rules may be designed
    python experiments/grading/halves.py --second --write   # once, at the end: figures/halves.json
    python experiments/grading/halves.py --second --others PYTHON --write   # what other programs say of the same files

Repositories are split by a hash of their names: SHA-256 of `owner/name` in lower case, even: the first half. A run is
named if a verdict that is accepted for its label was given as more than a note (`real_runs.yaml`). A
healthy run with any verdict that is more than a note is accused. A repository counts once: its runs count together as
one. Intervals are 95 % of the bootstrap over repositories. Labels that leave it open are not counted.

BANDIT_LAB_RUN_CORPUS_ABROAD, BANDIT_LAB_RUN_CORPUS and BANDIT_LAB_LOGS name folders with an index.csv and its logs,
BANDIT_LAB_PASTED_CASES one of pasted rows; none of them is in this repository.
"""

import argparse
import csv
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from grpo_clinic import diagnose
from grpo_clinic.clinic import diagnosed
from grpo_clinic.logs.settings import DiagnosisSettings
from grpo_clinic.outcome import Outcome
from grpo_clinic.readers import Curve
from grpo_clinic.report import Report

from experiments.grading import other_programs
from experiments.shared.sick_runs.plant import load

FIGURES = Path(__file__).parents[2] / "figures"
FOLDERS = ("BANDIT_LAB_RUN_CORPUS_ABROAD", "BANDIT_LAB_RUN_CORPUS", "BANDIT_LAB_LOGS")
DRAWS, SEED = 2000, 0
HOSTS = ("https://", "http://", "github.com/", "gitlab.com/", "huggingface.co/")


@dataclass(frozen=True)
class Run:
    """One labelled run of a repository."""

    name: str
    label: str
    repository: str
    path: Path
    report: Report
    curve: Curve | None


def half(repository: str) -> int:
    """1 or 2 by the repository's name, without its host."""
    for host in HOSTS:
        repository = repository.removeprefix(host)
    return 1 + int(hashlib.sha256(repository.strip("/").lower().encode()).hexdigest(), 16) % 2


def labelled(which: int) -> list[Run]:
    """The labelled runs of one half that could be read."""
    about = load("real_runs")
    older: dict[str, str] = about["development"] | about["scoring"]
    runs: list[Run] = []
    for variable in FOLDERS:
        folder = Path(os.environ.get(variable) or "nowhere")
        if not (folder / "index.csv").is_file():
            raise SystemExit(f"{variable}: expected a folder with index.csv, got {os.environ.get(variable, 'nothing')}")
        rows = [row for row in _rows(folder) if half(row["repository"]) == which]
        labels = {row["run_id"]: row.get("label") or older.get(row["run_id"], "left out") for row in rows}
        runs += _judged(folder, rows, {name: one for name, one in labels.items() if one in _known(about)})
    folder = Path(os.environ.get("BANDIT_LAB_PASTED_CASES") or "nowhere")
    for name, label in about["pasted"].items():
        if half(name) == which and (path := folder / f"{name}.jsonl").is_file():
            try:
                run = diagnose(str(path))[0]
                runs.append(Run(name, label, name, path, run.report, run.curve))
            except ValueError as error:  # nothing that is read: nothing named
                nothing = Report(name, Outcome("not logged", 0.0, 0.0, 1.0, str(error)))
                runs.append(Run(name, label, name, path, nothing, None))
    return runs


def _known(about: Mapping[str, Any]) -> set[str]:
    return {"healthy", *about["accepted"]}


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "index.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _judged(folder: Path, rows: Sequence[Mapping[str, str]], labels: Mapping[str, str]) -> Iterable[Run]:
    """Runs by an index that holds them alone, so that nothing of the other half is read."""
    labelled_rows = [row for row in rows if row["run_id"] in labels]
    if not labelled_rows:
        return []
    index = Path(os.environ.get("TMPDIR", "/tmp")) / f"halves_{os.getpid()}.csv"
    with index.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(labelled_rows[0]))
        writer.writeheader()
        for row in labelled_rows:
            further = "; ".join(_absolute(folder, one.strip()) for one in (row.get("eval_curve") or "").split(";"))
            writer.writerow({**row, "file": _absolute(folder, row["file"]), "eval_curve": further})
    try:
        runs, _ = diagnosed(DiagnosisSettings(logs_index=str(index)))
    finally:
        index.unlink()
    of = {row["run_id"]: (row["repository"], folder / row["file"]) for row in labelled_rows}
    return [Run(one.name, labels[one.name], *of[one.name], one.report, one.curve) for one in runs if one.name in labels]


def _absolute(folder: Path, name: str) -> str:
    return str((folder / name).resolve()) if name and (folder / name).is_file() else name


def score(runs: Sequence[Run], answers: Mapping[str, Iterable[str] | None] | None = None) -> dict[str, Any]:
    """Shares of failures named and of healthy runs accused, a repository counting once, with their intervals.

    answers: what another program names, by run; None where it read nothing.
    """
    accepted = load("real_runs")["accepted"]
    named, accused = defaultdict(list), defaultdict(list)
    for run in runs:
        harms = {*(run.report.harms if answers is None else answers.get(run.name) or ())}
        if run.label == "healthy":
            accused[run.repository].append(bool(harms))
        else:
            named[run.repository].append(bool(harms & {*accepted[run.label]}))
    return {"named": _share(named), "accused": _share(accused)}


def _share(by_repository: Mapping[str, list[bool]]) -> dict[str, Any]:
    shares = np.array([np.mean(one) for one in by_repository.values()])
    rng = np.random.default_rng(SEED)
    drawn = shares[rng.integers(0, shares.size, (DRAWS, shares.size))].mean(axis=1) if shares.size else np.zeros(1)
    everything = [one for runs in by_repository.values() for one in runs]
    return {
        "share": float(shares.mean()) if shares.size else None,
        "interval": [float(end) for end in np.quantile(drawn, [0.025, 0.975])],
        "repositories": int(shares.size),
        "runs": len(everything),
        "found": int(sum(everything)),
    }


def main() -> None:
    """Print the score of one half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--second", action="store_true", help="the half on which nothing may be designed")
    parser.add_argument("--others", metavar="PYTHON", help="that of an environment with rldoctor, rlprobe and rlwatch")
    parser.add_argument("--write", action="store_true", help="store the numbers: figures/halves.json")
    asked = parser.parse_args()
    runs = labelled(2 if asked.second else 1)
    if asked.others:
        curves = {run.name: run.curve for run in runs if run.curve is not None}
        answers, _ = other_programs.asked(asked.others, {run.name: run.path for run in runs}, curves)
        scores = {title: score(runs, named) for title, named in answers.items()}
    else:
        scores = score(runs)
    if not asked.second and not asked.others:
        for run in runs:
            print(f"{run.label:24} {run.report.outcome.what:10} {', '.join(run.report.harms) or '-':50} {run.name}")
    print(json.dumps(scores, indent=1))
    if asked.write:
        path = FIGURES / "halves.json"
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        stored[("second" if asked.second else "first") + (": other programs" if asked.others else "")] = scores
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
