"""What `diagnose` says of public runs whose outcome somebody wrote down, beside rldoctor.

    python experiments/grading/clinic.py                    # the table
    python experiments/grading/clinic.py --others PYTHON    # beside it what rldoctor, rlprobe and rlwatch say
    python experiments/grading/clinic.py --write            # figures/clinic.json

BANDIT_LAB_RUN_CORPUS and BANDIT_LAB_LOGS name the folders: each has an index.csv and its logs, none of which is in this
repository. BANDIT_LAB_PASTED_CASES may name a folder of pasted rows. A failure is named if a verdict that is accepted
for its label was given as more than a note (`conf/benchmark/real_runs.yaml`). A false alarm is a healthy run with any
failure that is more than a note. Labels that leave it open are not counted. A repository is one family: its runs count
together as one.

People who chose limits have seen these runs. So the score is told three times: with the limits as they are shipped, and
with limits that are chosen anew for each repository on all the others, twice. A limit is chosen where another
repository holds a failure that the finding answers, and where it is none of `BEFOREHAND`. It is the factor on the
finding's scores at which the share of failures named less the share of false alarms, both by repository, is largest. Of
equal factors the one nearest to the shipped limit is taken (`near`), or the one that names least (`careful`).

The number of rewards below which a standstill is a note is chosen otherwise: as the first of `LENGTHS` at which healthy
runs that are cut off there are rarely called stalled. It is the same without any one repository.
"""

import argparse
import csv
import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from grpo_clinic.diagnosis import DiagnoseSettings, Diagnosis, diagnose
from grpo_clinic.diagnosis.outcomes import stalled
from grpo_clinic.diagnosis.severity import severities
from grpo_clinic.diagnosis.work import work
from grpo_clinic.logs.gather import gather
from grpo_clinic.logs.settings import DiagnosisSettings
from grpo_clinic.monitor import Monitor
from grpo_clinic.readers import Curve, RewardScale, Series
from scipy import stats

from bandit_lab._version import __version__
from experiments.grading import other_programs
from experiments.shared.sick_runs.plant import load

FIGURES = Path(__file__).parents[2] / "figures"
FOLDERS = ("BANDIT_LAB_RUN_CORPUS", "BANDIT_LAB_LOGS")
ACCEPTED: dict[str, list[str]] = load("real_runs")["accepted"]
"""Label -> findings that name it."""
BEFOREHAND = {
    "plumbing": "what cannot happen",
    "sampler_mismatch": "distances in healthy and in broken engines, none of them in these folders",
    "truncated_answers": "simulated runs",
    "answer_length": "the factor of an entropy; it answers no label",
    "advantage_degeneracy": "simulated runs",
    "policy_concentration": "simulated runs",
    "dynamical_instability": "simulated runs",
    "reward_hacking": "simulated runs; one nat per token, as for a KL to the reference",
}
"""Findings whose limits were not chosen on public runs, and what they were chosen by."""
FACTORS = np.geomspace(0.5, 2, 13)
"""Factors on a limit that are tried; the middle one is the shipped limit."""
DRAWS, SEED = 2000, 0
LENGTHS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150)
"""Rewards after which healthy runs are cut off, to see from where on a standstill means something."""
PARTS = (0.25, 0.5, 0.75)
"""Shares of a healthy run after which it may end without an alarm."""
RARE = 0.05
"""Share of repositories whose healthy runs, cut off, may be called stalled."""


@dataclass(frozen=True)
class Run:
    """One labelled run; `family` is its repository."""

    name: str
    label: str
    family: str
    framework: str
    path: Path


def labelled() -> list[Run]:
    """The runs of both folders whose label says what they are."""
    corpus, logs = (_folder(name) for name in FOLDERS)
    found = [_run(row, row["label"], corpus) for row in _rows(corpus)]
    table = load("real_runs")
    older = table["development"] | table["scoring"]
    found += [_run(row, older.get(row["run_id"], "left out"), logs) for row in _rows(logs)]
    return [run for run in found if run.label == "healthy" or run.label in ACCEPTED]


def _folder(name: str) -> Path:
    """The folder that a variable of the environment names. One line and the end where it names none."""
    folder = Path(os.environ.get(name) or "nowhere")
    if not (folder / "index.csv").is_file():
        raise SystemExit(f"{name}: expected a folder with index.csv, got {os.environ.get(name, 'nothing')}")
    return folder


def _rows(folder: Path) -> Iterable[dict[str, str]]:
    with (folder / "index.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _run(row: dict[str, str], label: str, folder: Path) -> Run:
    framework = row["framework"].split(" (")[0].split(",")[0]
    return Run(row["run_id"], label, row["repository"], framework, folder / row["file"])


@dataclass(frozen=True, eq=False)
class Judged:
    """One run that was read: its diagnosis, and its curve."""

    found: Diagnosis
    curve: Curve

    @lru_cache  # noqa: B019 - as many as there are runs, and the program ends
    def grave(self, above: frozenset[tuple[str, str]]) -> frozenset[str]:
        """The findings but notes, where these pieces of evidence (finding, metric) are above their limits."""
        findings = []
        for one in self.found.findings:
            evidence = [
                replace(e, score=1.0 if (one.failure, e.metric) in above else min(e.score, 0.5)) for e in one.evidence
            ]
            score = one.score if one.score is None else max((e.score for e in evidence), default=0.0)
            findings.append(replace(one, evidence=tuple(evidence), score=score))
        grades = severities(findings, self.curve)
        named = frozenset(name for name, (grade, _) in grades.items() if grade != "note")
        return named - {"stalled"} if "collapsed" in grades else named

    def named(self, limits: Mapping[str, float]) -> frozenset[str]:
        """The findings but notes with these factors on their limits. What lies beyond a limit and is no failure for
        another reason has a score of .99: no factor makes it one."""
        return self.grave(
            frozenset(
                (one.failure, e.metric)
                for one in self.found.findings
                if one.score is not None and (one.present or one.score != _NO_FAILURE)
                for e in one.evidence
                if e.score != _NO_FAILURE and e.score >= limits.get(one.failure, 1.0)
            )
        )


_NO_FAILURE = 0.99


def judgements() -> dict[str, Judged]:
    """Every run of both folders that can be read, by name."""
    found: dict[str, Judged] = {}
    for name in FOLDERS:
        logs = gather(DiagnosisSettings(logs_index=str(_folder(name) / "index.csv")))
        found |= {log.name: Judged(work(log, DiagnoseSettings()), log.curve) for log in logs if log.curve is not None}
    return found


def pasted() -> dict[str, Any] | None:
    """What is said of pasted rows whose cause is known; None without the folder. One to 280 rows each: no share."""
    folder = Path(os.environ.get("BANDIT_LAB_PASTED_CASES") or "nowhere")
    if not folder.is_dir():
        return None
    rows = []
    for name, label in load("real_runs")["pasted"].items():
        run = Run(name, label, name, "", folder / f"{name}.jsonl")
        try:
            (log,) = gather(DiagnosisSettings(paths=(str(run.path),)))
        except ValueError:
            log = None
        said = None if log is None or log.curve is None else _grave(work(log, DiagnoseSettings()))
        rows.append(
            {
                "case": name,
                "label": label,
                "said": _said(said),
                "right": said is not None and hit(run, said) != (label == "healthy"),
            }
        )
    return {"right": sum(row["right"] for row in rows), "cases": len(rows), "each": rows}


def ours(runs: Sequence[Run], judged: Mapping[str, Judged]) -> dict[str, frozenset[str] | None]:
    """Run -> failures that are more than notes, as shipped; None where nothing could be read."""
    return {run.name: _grave(judged[run.name].found) if run.name in judged else None for run in runs}


def _grave(found: Diagnosis) -> frozenset[str]:
    return frozenset(found.severity) - frozenset(found.notes)


def refitted(
    runs: Sequence[Run], judged: Mapping[str, Judged], careful: bool
) -> tuple[dict[str, frozenset[str] | None], dict[str, dict[str, float]]]:
    """(run -> failures that are more than notes, with limits chosen without its repository; repository -> the factors
    that are not 1)."""
    said: dict[str, frozenset[str] | None] = {}
    chosen = {}
    for family in sorted({run.family for run in runs}):
        others = [run for run in runs if run.family != family and run.name in judged]
        limits = _chosen(others, judged, careful)
        chosen[family] = {name: round(float(factor), 3) for name, factor in limits.items() if factor != 1}
        for run in runs:
            if run.family == family:
                said[run.name] = judged[run.name].named(limits) if run.name in judged else None
    return said, {family: factors for family, factors in chosen.items() if factors}


def cut_off(runs: Sequence[Run], judged: Mapping[str, Judged]) -> dict[int, dict[str, float]]:
    """Length -> repository -> share of its healthy runs that are called stalled if they are cut off there."""
    found: dict[int, dict[str, list[bool]]] = {length: defaultdict(list) for length in LENGTHS}
    for run in runs:
        if run.label != "healthy" or run.name not in judged:
            continue
        curve = judged[run.name].curve
        for length in LENGTHS:
            if length <= curve.reward.size:
                start = replace(curve.reward_series, step=curve.step[:length], value=curve.reward[:length])
                short = stalled(replace(curve, reward_series=start), DiagnoseSettings())
                found[length][run.family].append(short.present)
    return {length: {family: float(np.mean(one)) for family, one in by.items()} for length, by in found.items()}


def early(runs: Sequence[Run], judged: Mapping[str, Judged]) -> dict[int, dict[str, Any]]:
    """Length -> share of the healthy runs that are called anything but healthy if they are cut off there."""
    healthy = [run for run in runs if run.label == "healthy" and run.name in judged]
    found = {}
    for length in LENGTHS:
        long = [run for run in healthy if judged[run.name].curve.reward.size >= length]
        said = {run.name: _grave(diagnose(_start(judged[run.name].curve, length))) for run in long}
        if long:
            found[length] = share(long, said)
    return found


def prefixes(runs: Sequence[Run], judged: Mapping[str, Judged]) -> dict[str, Any]:
    """Share of the run -> healthy runs that are called anything else if they end there; `any` of these shares;
    `watched`: healthy runs with an alarm at any row."""
    healthy = [run for run in runs if run.label == "healthy" and run.name in judged]
    said: dict[float, dict[str, frozenset[str] | None]] = {part: {} for part in PARTS}
    alarmed: dict[str, frozenset[str] | None] = {}
    for run in healthy:
        curve = judged[run.name].curve
        for part in PARTS:
            said[part][run.name] = _grave(diagnose(_start(curve, int(np.ceil(part * curve.reward.size)))))
        alarmed[run.name] = _alarms(curve)
    every = [replace(run, name=f"{run.name} {part}") for run in healthy for part in PARTS]
    told = {f"{name} {part}": names for part, one in said.items() for name, names in one.items()}
    found: dict[str, Any] = {str(part): share(healthy, one) for part, one in said.items()}
    wrong = {name: _said(names) for name, names in told.items() if names}
    late = {name: _said(names) for name, names in alarmed.items() if names}
    return found | {
        "all": share(every, told) | {"wrong": wrong},
        "watched": share(healthy, alarmed) | {"wrong": late},
    }


def _alarms(curve: Curve) -> frozenset[str]:
    """What a monitor of this run, fed row by row, would have raised."""
    scale = (curve.scale.low, curve.scale.high) if curve.scale.given else None
    monitor = Monitor(scale=scale, reward_key=curve.reward_series.key, eval_key="eval/reward")
    for step, row in rows_of(curve):
        monitor.feed(step, row)
    return frozenset(one.failure for one in monitor.alarms)


def rows_of(curve: Curve) -> list[tuple[float, dict[str, float]]]:
    """A curve's rows under the names of the log, in the order of their steps."""
    rows: dict[float, dict[str, float]] = {}
    series = [curve.reward_series, *curve.series.values(), *([curve.eval] if curve.eval is not None else [])]
    for one in series:
        key = "eval/reward" if one is curve.eval else one.key
        for step, value in zip(one.step.tolist(), one.value.tolist(), strict=True):
            rows.setdefault(step, {})[key] = value
    for step in curve.nonfinite_steps.tolist():
        rows.setdefault(step, {})[curve.reward_series.key] = float("nan")
    return sorted(rows.items(), key=lambda item: item[0])


def _start(curve: Curve, length: int) -> Curve:
    """The first rewards of a run, and what was logged up to the last of them."""
    last = curve.step[length - 1]

    def until(one: Series) -> Series:
        return replace(one, step=one.step[one.step <= last], value=one.value[one.step <= last])

    reward = until(curve.reward_series)
    return replace(
        curve,
        reward_series=reward,
        scale=curve.scale if curve.scale.given else RewardScale.estimated(reward.value),
        series={key: until(one) for key, one in curve.series.items() if one.step[0] <= last},
        parts={key: until(one) for key, one in curve.parts.items() if one.step[0] <= last},
        eval=None if curve.eval is None or curve.eval.step[0] > last else until(curve.eval),
        gradient_lost=np.zeros(0),
        nonfinite_steps=curve.nonfinite_steps[curve.nonfinite_steps <= last],
    )


def shortest(found: Mapping[int, Mapping[str, float]], without: str = "") -> int:
    """The first length at which a standstill is rare among healthy runs cut off there, one repository left out."""
    means = {n: np.mean([one for family, one in by.items() if family != without] or [1.0]) for n, by in found.items()}
    return next((n for n, mean in sorted(means.items()) if mean <= RARE), max(found))


def _chosen(runs: Sequence[Run], judged: Mapping[str, Judged], careful: bool) -> dict[str, float]:
    """Finding -> the factor on its limit, one finding after the other, twice."""
    labels = {run.label for run in runs}
    free = sorted({name for label in labels & set(ACCEPTED) for name in ACCEPTED[label]} - set(BEFOREHAND))
    limits = dict.fromkeys(free, 1.0)
    for name in free * 2:
        worth = [_worth(runs, judged, limits | {name: factor}) for factor in FACTORS]
        equal = [factor for factor, one in zip(FACTORS, worth, strict=True) if one >= max(worth) - 1e-9]
        nearest: Callable[[float], float] = lambda factor: abs(np.log(factor))  # noqa: E731
        limits[name] = max(equal) if careful else min(equal, key=nearest)
    return limits


def _worth(runs: Sequence[Run], judged: Mapping[str, Judged], limits: Mapping[str, float]) -> float:
    """Share of failures named less share of false alarms, by family."""
    hits: dict[tuple[bool, str], list[bool]] = defaultdict(list)
    for run in runs:
        hits[run.label == "healthy", run.family].append(hit(run, judged[run.name].named(limits)))
    shares: dict[bool, list[float]] = defaultdict(list)
    for (healthy, _), one in hits.items():
        shares[healthy].append(float(np.mean(one)))
    return float(np.mean(shares[False]) - np.mean(shares[True] or [0.0]))


def hit(run: Run, said: frozenset[str] | None) -> bool:
    """Of a troubled run: its failure was named. Of a healthy one: a failure was."""
    return bool(said) if run.label == "healthy" else bool(said and said & set(ACCEPTED[run.label]))


def share(runs: list[Run], said: Mapping[str, frozenset[str] | None]) -> dict[str, Any]:
    """By run with the exact interval, by family with the bootstrap's over families (95 %)."""
    hits = defaultdict(list)
    for run in runs:
        hits[run.family].append(hit(run, said.get(run.name)))
    number, whole = sum(map(sum, hits.values())), len(runs)
    each = np.array([np.mean(one) for one in hits.values()])
    drawn = np.random.default_rng(SEED).choice(each, (DRAWS, each.size)).mean(axis=1)
    ends = stats.binomtest(number, whole).proportion_ci(0.95, "exact")
    return {
        "found": number,
        "runs": whole,
        "share": round(number / whole, 3),
        "interval_95": [round(float(ends.low), 3), round(float(ends.high), 3)],
        "by_family": round(float(each.mean()), 3),
        "by_family_interval_95": [round(float(x), 3) for x in np.quantile(drawn, (0.025, 0.975))],
        "families": int(each.size),
    }


def reason(run: Run, judged: Judged | None) -> str:
    """Why a failure was missed, or a healthy run called one: the strongest evidence of the finding, or what lacks."""
    if judged is None:
        return "not read"
    wanted = ACCEPTED.get(run.label) or sorted(_grave(judged.found))
    findings = [one for name in wanted for one in judged.found.findings if one.failure == name]
    evidence = max((e for one in findings for e in one.evidence), key=lambda e: e.score, default=None)
    lacking = next((one.missing for one in findings if one.score is None), "")
    if lacking or evidence is None:
        return lacking or "the log holds nothing that it is told from"
    metric = evidence.metric.replace("_", " ")
    also = f" {evidence.also}" if evidence.also else ""
    return f"{metric} {evidence.value:.3g}, limit {evidence.threshold:.3g}{also}: {evidence.text}"


def score(
    runs: list[Run], said: dict[str, frozenset[str] | None], judged: Mapping[str, Judged] | None = None
) -> dict[str, Any]:
    """All shares of one program, and what it missed and raised wrongly."""
    troubled = [run for run in runs if run.label != "healthy"]
    healthy = [run for run in runs if run.label == "healthy"]
    wrong = [run for run in runs if hit(run, said.get(run.name)) == (run.label == "healthy")]
    return {
        "named": share(troubled, said),
        "false_alarms": share(healthy, said),
        "troubled_and_told_anything": sum(bool(said.get(run.name)) for run in troubled),
        "not_read": sum(said.get(run.name) is None for run in runs),
        "by_failure": {
            one: share([run for run in troubled if run.label == one], said) for one in _values(troubled, "label")
        },
        "by_framework": {
            one: share([run for run in troubled if run.framework == one], said)
            for one in _values(troubled, "framework")
        },
        "false_alarms_by_framework": {
            one: share([run for run in healthy if run.framework == one], said) for one in _values(healthy, "framework")
        },
        "wrong": [
            {"run": run.name, "label": run.label, "said": _said(said.get(run.name))}
            | ({} if judged is None else {"why": reason(run, judged.get(run.name))})
            for run in wrong
        ],
    }


def _values(runs: list[Run], key: str) -> list[str]:
    return sorted({getattr(run, key) for run in runs})


def _said(found: frozenset[str] | None) -> list[str] | str:
    return "not read" if found is None else sorted(found)


def show(name: str, result: dict[str, Any]) -> None:
    """The table of one program."""
    print(f"\n{name}: {result['not_read']} runs not read")
    rows = {"failures named": result["named"], "false alarms on healthy runs": result["false_alarms"]}
    rows |= {f"  {one}": found for one, found in result["by_failure"].items()}
    rows |= {f"  {one}": found for one, found in result["by_framework"].items()}
    rows |= {f"  {one}, false alarms": found for one, found in result.get("false_alarms_by_framework", {}).items()}
    for title, one in rows.items():
        low, high = one["by_family_interval_95"]
        runs = f"{one['found']} of {one['runs']}"
        print(f"{title:55} {runs:>9} = {one['share']:4.0%}   by family {one['by_family']:4.0%} [{low:.0%}, {high:.0%}]")
    for one in result["wrong"]:
        said = ", ".join(one["said"]) if isinstance(one["said"], list) else one["said"]
        print(f"    {one['run'][:60]:60} {one['label']:22} said {said or 'nothing'}")
        print(f"        {one['why']}" if "why" in one else "", end="\n" if "why" in one else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", help="the Python of an environment with rldoctor, rlprobe and rlwatch")
    parser.add_argument("--write", action="store_true", help="store the counts in figures and in the package")
    asked = parser.parse_args()
    runs, judged = labelled(), judgements()
    said = ours(runs, judged)
    stored = json.loads((FIGURES / "clinic.json").read_text(encoding="utf-8"))
    results = {"diagnose": score(runs, said, judged)}
    for name, careful in (("near", False), ("careful", True)):
        without, limits = refitted(runs, judged, careful)
        chosen = {key: sorted({one.get(key, 1.0) for one in limits.values()}) for one in limits.values() for key in one}
        results[f"refitted, {name}"] = score(runs, without) | {"factors": chosen}
    if asked.others:
        paths = {run.name: run.path for run in runs}
        curves = {run.name: judged[run.name].curve for run in runs if run.name in judged}
        told, versions = other_programs.asked(asked.others, paths, curves)
        results |= {title: score(runs, one) for title, one in told.items()}
        results["versions"] = versions | {"bandit_lab": __version__, "python": platform.python_version()}
    else:
        results |= {name: stored[name] for name in (*other_programs.TITLES, "versions") if name in stored}
    for name, result in results.items():
        if name != "versions":
            show(name, result)
    print("\nversions:", results.get("versions"))
    results["limits chosen beforehand"] = BEFOREHAND
    short = cut_off(runs, judged)
    results["shortest standstill"] = {
        "called_stalled_by_family": {n: round(float(np.mean(list(by.values()))), 3) for n, by in short.items()},
        "families": {n: len(by) for n, by in short.items()},
        "chosen": shortest(short),
        "chosen_without_one": sorted({shortest(short, run.family) for run in runs}),
    }
    print("\nhealthy runs cut off and called stalled, by repository:", results["shortest standstill"])
    begun = early(runs, judged)
    results["early false alarms"] = {str(length): one for length, one in begun.items()}
    print("\nhealthy runs cut off after so many rewards: false alarms, by repository")
    for length, one in begun.items():
        print(f"    {length:4} {one['found']} of {one['runs']} = {one['share']:.0%}   {one['by_family']:.0%}")
    results["prefixes"] = prefixes(runs, judged)
    print("\nhealthy runs that end early, and those that are watched to their end: false alarms, by repository")
    for name, one in results["prefixes"].items():
        print(f"    {name:8} {one['found']} of {one['runs']} = {one['share']:.1%}   {one['by_family']:.1%}")
        print("".join(f"        {run}: {', '.join(said)}\n" for run, said in one.get("wrong", {}).items()), end="")
    if (few := pasted()) is not None:
        results["pasted"] = few
        print(f"\npasted rows: {few['right']} of {few['cases']} right", *few["each"], sep="\n    ")
    elif "pasted" in stored:
        results["pasted"] = stored["pasted"]
    if asked.write:
        (FIGURES / "clinic.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
