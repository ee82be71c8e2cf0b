"""The benchmark as a whole: simulate, judge, score, with the classifier that sees only the reward curve beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab.app.terminal.progress import Progress, ProgressCallback
from bandit_lab.runs.benchmark import score as scoring
from bandit_lab.runs.benchmark.logs import as_curve
from bandit_lab.runs.benchmark.plant import SPLITS, load, plant
from bandit_lab.runs.benchmark.reward_only import RewardOnly, features, train
from bandit_lab.runs.benchmark.score import ScoredRun, effects, grades, label, lacking
from bandit_lab.runs.benchmark.simulate import Simulated, simulate_all
from bandit_lab.runs.diagnose import FAILURES, OUTCOMES, DiagnoseSettings, diagnose

__all__ = ["SPLITS", "Panel", "judge", "score", "trained_on"]


@dataclass(frozen=True)
class Panel:
    """Runs [N] with the verdicts of the diagnostics, and the features [N, F] of their reward curves."""

    judged: list[ScoredRun]
    features: np.ndarray

    def by(self, classifier: RewardOnly) -> list[ScoredRun]:
        """The same runs with the verdicts of the classifier that sees only the reward curve."""
        found = classifier.found(self.features)
        return [ScoredRun(a.sizes, a.labels, f, a.planted_healthy) for a, f in zip(self.judged, found, strict=True)]


def judge(runs: Sequence[Simulated], limits: DiagnoseSettings, advance: ProgressCallback) -> Panel:
    """Diagnose every run's log. The four planted failures are scored; what became of a run (`OUTCOMES`) is not."""
    about, judged, numbers = load("effects"), [], []
    for run in runs:
        curve, sizes = as_curve(run), effects(run, about)
        found = diagnose(curve, limits)
        verdict = tuple(name for name in found.verdict if name not in (*OUTCOMES, "healthy", "not_judged"))
        harmful = tuple(name for name in verdict if name not in found.notes)
        healthy = run.planted.recipe == "healthy"
        judged.append(ScoredRun(sizes, label(sizes, about), verdict, healthy, harmful, lacking(run)))
        numbers.append(features(curve, found))
        advance(len(judged), len(runs))
    return Panel(judged, np.array(numbers))


def trained_on(panel: Panel) -> RewardOnly:
    """The classifier fitted to these runs."""
    number = {"present": 1.0, "weak": np.nan, "absent": 0.0}
    present = np.array([[number[one.labels[name]] for name in FAILURES] for one in panel.judged])
    healthy = np.array([one.healthy for one in panel.judged])
    return train(panel.features, present, healthy, load("effects")["targets"]["false_alarms"])


def score(split: str, runs: int | None, limits: DiagnoseSettings, progress: Progress) -> dict[str, Any]:
    """The numbers of `diagnose simulated=...`. On `training` the classifier is fitted to the runs themselves."""
    ranges, about = load(split), load("effects")
    with progress.stage("simulated runs") as advance:
        simulated = simulate_all(plant(ranges, runs or int(ranges["runs"])), advance)
    with progress.stage("verdicts") as advance:
        panel = judge(simulated, limits, advance)
    classifier = trained_on(panel) if split == "training" else RewardOnly.load()
    found = {
        "split": split,
        "seed": int(ranges["seed"]),
        "runs": len(simulated),
        "targets": about["targets"],
        "demanded": {name: about[name]["demanded"] for name in FAILURES},
        "diagnose": _scores(panel.judged, about) | {"grades": grades(panel.judged)},
        "reward_only": _scores(panel.by(classifier), about),
    }
    if split == "training":
        found["reward_only"]["classifier"] = {k: np.round(v, 6).tolist() for k, v in vars(classifier).items()}
    return found


def _scores(judged: Sequence[ScoredRun], about: dict[str, Any]) -> dict[str, Any]:
    alarms, healthy = scoring.false_alarms(judged)
    curves = {
        name: [dict(zip(("low", "high", "found", "runs"), row, strict=True))
               for row in scoring.recall_curve(judged, name, about[name]["bins"])]
        for name in FAILURES
    }  # fmt: skip
    return {
        "failures": scoring.table(judged),
        "macro_recall": scoring.macro_recall(judged),
        "false_alarms": alarms,
        "healthy": healthy,
        "recall_by_effect": curves,
        "confusion": {"rows": ["healthy", *FAILURES], "counts": scoring.confusion(judged).tolist()},
    }
