"""How often `diagnose` finds failures planted in simulated runs, beside a classifier that sees the reward curve alone.

    python experiments/grading/diagnoses.py                                  # 1,500 held-out runs: half an hour
    python experiments/grading/diagnoses.py runs=60 'limits={entropy_lost: 0.2}'
    python experiments/grading/diagnoses.py split=training                   # on these thresholds may be chosen

Ranges of the runs are in `training.yaml` and `held_out.yaml`, sizes that count in `effects.yaml`. The stored numbers
are `figures/held_out.*`; `make figures` computes them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from grpo_clinic.report import FAILURES, report
from grpo_clinic.rules import Case, rules
from matplotlib.figure import Figure as Drawn
from matplotlib.lines import Line2D
from scipy.stats import beta

from bandit_lab import _checks
from bandit_lab.app.plots import style as s
from bandit_lab.app.plots.style import put_above
from bandit_lab.app.progress import Progress, ProgressCallback
from bandit_lab.app.result import Figure, Result, Table
from bandit_lab.app.settings.config import RunSettings, setting
from experiments.grading import scores as scoring
from experiments.grading.reward_only import RewardOnly, features, train
from experiments.grading.scores import ScoredRun, grades, lacking
from experiments.shared import script
from experiments.shared.sick_runs.effects import effects, label
from experiments.shared.sick_runs.logs import as_curve
from experiments.shared.sick_runs.plant import load, plant
from experiments.shared.sick_runs.simulate import Simulated, simulate_all

SPLITS = ("training", "held_out")
UNSTABLE = "dynamical_instability"
NAMED = (*FAILURES, "sampler_mismatch", "misreported_probabilities")
"""Verdicts that are scored; what became of a run is not, but for a fall."""
_UNITS = {
    "reward_hacking": "fall of the true reward",
    "advantage_degeneracy": "share of silent groups",
    "policy_concentration": "share of the entropy lost",
    "dynamical_instability": "swing of the reward",
}


@dataclass
class PlantedSettings(RunSettings):
    """Settings of this script."""

    split: str = setting("held_out", "", "training | held_out: the ranges that runs are drawn from")
    runs: int | None = setting(None, "runs", "null: as the ranges say")
    limits: dict[str, Any] = setting({}, "", "limits of rules: {silent_groups: 0.9}")
    seed: int | None = setting(None, "", "root of all random numbers; null: that of the ranges")


@dataclass(frozen=True)
class Panel:
    """Runs [N] with the verdicts of the diagnostics, and the features [N, F] of their reward curves."""

    judged: list[ScoredRun]
    features: np.ndarray

    def by(self, classifier: RewardOnly) -> list[ScoredRun]:
        """The same runs with the verdicts of the classifier that sees only the reward curve."""
        named = classifier.failures_in(self.features)
        return [ScoredRun(a.sizes, a.labels, f, a.planted_healthy) for a, f in zip(self.judged, named, strict=True)]


def judge(runs: Sequence[Simulated], limits: dict[str, float], advance: ProgressCallback) -> Panel:
    """Diagnose every run's log. The four planted failures are scored; what became of a run is not, but for a fall."""
    about, judged, numbers = load("effects"), [], []
    for run in runs:
        curve, sizes = as_curve(run), effects(run, about)
        diagnosis = report(Case(curve), limits=limits)
        verdict = tuple(name for name in NAMED if name in diagnosis.verdict)
        if "collapsed" in diagnosis.verdict and UNSTABLE not in verdict:
            verdict = (*verdict, UNSTABLE)  # as sizes have it: a fall is one of the ways to be unstable
        harmful = tuple(name for name in verdict if name not in diagnosis.notes)
        healthy = run.planted.recipe == "healthy"
        judged.append(ScoredRun(sizes, label(sizes, about), verdict, healthy, harmful, lacking(run)))
        numbers.append(features(curve))
        advance(len(judged), len(runs))
    return Panel(judged, np.array(numbers))


def trained_on(panel: Panel) -> RewardOnly:
    """The classifier fitted to these runs."""
    number = {"present": 1.0, "weak": np.nan, "absent": 0.0}
    present = np.array([[number[one.labels[name]] for name in FAILURES] for one in panel.judged])
    healthy = np.array([one.healthy for one in panel.judged])
    return train(panel.features, present, healthy, load("effects")["targets"]["false_alarms"])


def score(
    split: str, runs: int | None, limits: dict[str, float], progress: Progress, seed: int | None = None
) -> dict[str, Any]:
    """All numbers; seed None: that of the ranges. On `training` the classifier is fitted to the runs themselves."""
    ranges, about = load(split), load("effects")
    ranges["seed"] = int(ranges["seed"]) if seed is None else seed
    with progress.stage("simulated runs") as advance:
        simulated = simulate_all(plant(ranges, runs or int(ranges["runs"])), advance)
    with progress.stage("verdicts") as advance:
        panel = judge(simulated, limits, advance)
    classifier = trained_on(panel) if split == "training" else RewardOnly.load()
    scores = {
        "split": split,
        "seed": ranges["seed"],
        "runs": len(simulated),
        "targets": about["targets"],
        "demanded": {name: about[name]["demanded"] for name in FAILURES},
        "diagnose": _scores(panel.judged, about) | {"grades": grades(panel.judged)},
        "reward_only": _scores(panel.by(classifier), about),
    }
    if split == "training":
        scores["reward_only"]["classifier"] = {k: np.round(v, 6).tolist() for k, v in vars(classifier).items()}
    return scores


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


def _table(scores: dict[str, Any]) -> Table:
    """One row per failure: the diagnostics, and what sees only the reward curve."""
    rows = [
        {
            "failure": ours["failure"].replace("_", " "),
            "runs": ours["present"],
            "found: diagnose": share_text(ours["found"], ours["present"]),
            "reward curve only": share_text(curve["found"], curve["present"]),
            "added where absent": share_text(ours["added"], ours["absent"]),
            "by reward curve only": share_text(curve["added"], curve["absent"]),
        }
        for ours, curve in zip(scores["diagnose"]["failures"], scores["reward_only"]["failures"], strict=True)
    ]
    return Table(f"{scores['runs']} simulated runs, {scores['split']}", rows)


def _lines(scores: dict[str, Any]) -> list[str]:
    lines = []
    for key, name in (("diagnose", "diagnose"), ("reward_only", "reward curve only")):
        one = scores[key]
        lines.append(
            f"{name}: mean recall {one['macro_recall']:.3f}, "
            f"false alarms on healthy runs {share_text(one['false_alarms'], one['healthy'])}"
        )
    lines += _grade_lines(scores["diagnose"]["grades"])
    targets = scores["targets"]
    lines.append(f"Targets: mean recall >= {targets['recall']:g}, false alarms <= {100 * targets['false_alarms']:g} %.")
    return lines


def _grade_lines(scores: dict[str, Any]) -> list[str]:
    """How findings were graded, and whether the true reward, which nobody saw, agrees."""
    lines = []
    for row in scores["failures"]:
        name = row["failure"].replace("_", " ")
        line = f"{name}, found: {share_text(row['graded_failure'], row['found'])} graded failure, the others note"
        if row["in_order"] is not None:
            line += (
                f"; at the end {row['lacking_as_failure']:.0%} of the true reward is missing in the former, "
                f"{row['lacking_as_note']:.0%} in the latter (medians; more in {row['in_order']:.0%} of pairs)"
            )
        lines.append(f"{line}.")
    return [*lines, f"Healthy runs with a failure: {share_text(scores['healthy_graded_failure'], scores['healthy'])}."]


def share_text(part: int, whole: int) -> str:
    """`part of whole (percent)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "-"


def finding(scores: dict[str, Any]) -> str:
    """What `diagnose` finds of large failures and says of healthy runs, beside what sees only the reward curve."""
    ours, curve = scores["diagnose"], scores["reward_only"]
    wrong = ours["false_alarms"] / ours["healthy"]
    recall = f"diagnose finds {ours['macro_recall']:.0%} of large planted failures, at {wrong:.1%} false alarms"
    return f"{recall}; the reward curve alone {curve['macro_recall']:.0%}"


def recall_figure(scores: dict[str, Any]) -> Drawn:
    """Four panels; `scores` is the `benchmark` of summary.json. Bars are 95 % Clopper-Pearson intervals."""
    with s.column():
        return _panels(scores)


def _panels(scores: dict[str, Any]) -> Drawn:
    figure, axes = plt.subplots(2, 2, figsize=(s.COLUMN, 3.8), sharey=True)
    looks = (("diagnose", s.BLUE, "o", "diagnose"), ("reward_only", s.ORANGE, "s", "reward curve alone"))
    for axis, (failure, unit) in zip(axes.flat, _UNITS.items(), strict=True):
        for place, (key, colour, marker, name) in enumerate(looks):
            rows = [row for row in scores[key]["recall_by_effect"][failure] if row["runs"]]
            low, high, hits, runs = (
                np.array([row[k] for row in rows], float) for k in ("low", "high", "found", "runs")
            )
            middle = 0.5 * (low + high) + (place - 0.5) * 0.12 * (high - low)
            ends = np.nan_to_num(beta.ppf(0.025, hits, runs - hits + 1)), beta.ppf(0.975, hits + 1, runs - hits)
            share = hits / runs
            bars = np.array([share - ends[0], np.where(hits < runs, ends[1], 1.0) - share])
            axis.errorbar(middle, share, np.maximum(bars, 0), color=colour, marker=marker, markersize=3, capsize=1.5,
                          linewidth=1, label=name)  # fmt: skip
        axis.axvline(scores["demanded"][failure], color=s.GREY, linestyle=(0, (4, 3)), linewidth=1)
        axis.set(xlabel=unit, ylim=(-0.03, 1.05))
        axis.set_title(failure.replace("_", " "))
    for axis in axes[:, 0]:
        axis.set_ylabel("share of runs found")
    handles = [*axes[0, 0].get_legend_handles_labels()[0], Line2D([], [], color=s.GREY, linestyle=(0, (4, 3)))]
    names = [*axes[0, 0].get_legend_handles_labels()[1], "large: demanded from here on"]
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    split = scores["split"].replace("_", " ")
    put_above(figure, finding(scores), f"{scores['runs']:,} simulated runs, {split}; bars: 95 % Clopper-Pearson")
    return figure


def prepare(settings: PlantedSettings, explicit: frozenset[str]) -> script.ScriptPlan:
    """Check every setting. Raises ValueError."""
    _checks.choice("split", settings.split, SPLITS)
    if settings.runs is not None:
        _checks.integer("runs", settings.runs, 20)
    rules(settings.limits)
    seed = int(load(settings.split)["seed"]) if settings.seed is None else settings.seed
    _checks.integer("seed", seed, 0)
    return script.ScriptPlan(replace(settings, seed=seed), dict(settings.limits), "float32")


def compute(plan: script.ScriptPlan, progress: Progress) -> Result:
    """Simulate, judge and score."""
    settings = plan.settings
    scores = score(settings.split, settings.runs, plan.given, progress, settings.seed)
    figures = [Figure("recall", lambda: recall_figure(scores))]
    return Result(
        "Diagnoses of simulated runs", {"benchmark": scores}, [_table(scores), *_lines(scores)], figures=figures
    )


def main(arguments: Sequence[str]) -> int:
    """Run the script. Returns the exit code."""
    return script.run(arguments, "diagnoses", __doc__, PlantedSettings, prepare, compute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
