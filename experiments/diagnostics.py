"""What tells four failures of training apart whose reward curves look the same?

Prediction (written before the run). All five kinds of runs rise from 0.2 to 0.3 and level off between 0.4 and 0.6.
Reward hacking, advantage degeneracy and policy concentration leave no trace in such a curve; the held-out result, the
share of silent groups and the entropy show one each. Dynamical instability shows in the curve itself: in model A
without momentum stability is lost by a flip at the end of a block (bandit_lab/theory/thresholds.py), a cycle of 2 N
steps.
Setting: experiments/diagnostics.yaml. Measured: runs of sampled groups, written as the log of a trainer and
diagnosed with the thresholds of `diagnose`; a classifier sees the reward curves of half of them and judges the others.
Drawn: one run of each kind, what its log holds besides, and the verdicts by both.
"""

import numpy as np
import xarray
from grpo_clinic.report import FAILURES, report
from grpo_clinic.rules import Case
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.grading.reward_only import among, features
from experiments.shared import sheet
from experiments.shared.oscillation import oscillation_test
from experiments.shared.sick_runs.logs import as_curve
from experiments.shared.sick_runs.plant import plant_one
from experiments.shared.sick_runs.simulate import simulate_all

TITLE = "Four failures, one shape of reward curve"
FINDING = "The logged metrics name {named:.0%} of the runs of four failures; the reward curve alone hides two"

# Prediction: theory alone.

BLIND = FAILURES[:3]


def predict(setting: Setting) -> xarray.Dataset:
    """What the diagnostics and the curve should tell, and the period of the cycle."""
    interval = setting.recipes.cycles.refresh_interval
    flips = theory.exact("refresh", interval, setting.training.momentum).bifurcation == "flip"
    one = {"units": "share of runs"}
    return xarray.Dataset(
        {
            "named": ((), 1.0, one),
            "healthy": ((), 1.0, one),
            "hidden_from_curve": ((), float(len(BLIND)), {"units": "failures"}),
            "period": ((), 2.0 * interval if flips else np.nan, {"units": "steps"}),
        }
    )


# Measurement: simulation alone.

KINDS = ("healthy", *FAILURES)
RECIPE = dict(zip(KINDS, ("healthy", "exploit", "split_prompts", "early_certainty", "cycles"), strict=True))


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Simulated logs of all kinds, judged with everything and by the reward curve alone."""
    ranges = setting.as_dict()
    planted = [plant_one(ranges, RECIPE[kind], setting.seed, i) for kind in KINDS for i in range(setting.runs)]
    curves = [as_curve(run) for run in simulate_all(planted)]
    kind = np.repeat(np.arange(len(KINDS)), setting.runs)
    verdict, seen, called = [], [], 0
    for done, curve in enumerate(curves, start=1):
        diagnosis = report(Case(curve))
        named = {"dynamical_instability" if name == "collapsed" else name for name in diagnosis.verdict}
        failures = [name in named for name in FAILURES]
        verdict.append([not any(failures), *failures])
        called += not diagnosis.verdict and diagnosis.outcome.what == "rose" and done <= setting.runs
        seen.append(features(curve))
        lab.progress(done, len(curves))
    judged = np.arange(len(curves)) % 2 == 1
    by_curve = among(np.array(seen)[~judged], kind[~judged], len(KINDS))(np.array(seen)[judged])
    alone = by_curve[:, None] == np.arange(len(KINDS))
    cycles = [curves[i] for i in np.flatnonzero(judged & (kind == KINDS.index("dynamical_instability")))]
    periods = [oscillation_test(c.step, c.reward, 19).period for c in cycles]
    shown = [curves[k * setting.runs + setting.show] for k in range(len(KINDS))]
    counts, several = {"units": "runs"}, {"long_name": "runs with this in the verdict, which may name several failures"}
    verdicts = {
        "by_diagnostics": (("kind", "verdict"), _counts(kind[judged], np.array(verdict)[judged]), counts | several),
        "by_curve": (("kind", "verdict"), _counts(kind[judged], alone), counts),
        "called_healthy": (
            (),
            float(called),
            counts | {"long_name": "healthy runs whose reward rose and in which nothing was found, of all"},
        ),
        "period": ((), float(np.median(periods)), {"units": "steps", "long_name": "median over the unstable runs"}),
    }
    step, held = shown[0].step, shown[0].eval.step
    coords = {"kind": list(KINDS), "verdict": list(KINDS), "step": step, "evaluation": held}
    return xarray.Dataset(verdicts | _examples(shown), coords)


def _counts(truth: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Runs of each kind with each verdict [5, 5], from the kind [N] and the verdicts [N, 5]."""
    return np.stack([named[truth == k].sum(axis=0) for k in range(len(KINDS))])


def _examples(shown: list) -> dict:
    """One log of each kind: reward, held-out result, silent groups, entropy."""
    over = ("kind", "step")
    return {
        "reward": (over, np.stack([c.reward for c in shown]), {"units": "reward"}),
        "held_out": (("kind", "evaluation"), np.stack([c.eval.value for c in shown]), {"units": "reward"}),
        "silent": (over, np.stack([c.series["zero_std_frac"].value for c in shown]), {"units": "share of groups"}),
        "entropy": (over, np.stack([c.series["entropy"].value for c in shown]), {"units": "nats"}),
    }


# Numbers that the claims compare.


def recall(counts: xarray.DataArray, kind: str, runs: int) -> float:
    """Share of the runs of a kind whose verdict names it."""
    return float(counts.sel(kind=kind, verdict=kind) / runs)


def judged(results: Results) -> int:
    """Runs of each kind in the half that is judged."""
    return results.setting.runs // 2


def named(results: Results) -> float:
    """The same with the diagnostics, mean over the failures."""
    return float(np.mean([recall(results.measured.by_diagnostics, name, judged(results)) for name in FAILURES]))


def hidden(results: Results) -> float:
    """How many of the three failures the curve alone names at least a tenth less often than the diagnostics do."""
    n, seen = judged(results), results.measured
    alone, all_of_it = ([recall(table, name, n) for name in BLIND] for table in (seen.by_curve, seen.by_diagnostics))
    return float(sum(a <= b - 0.1 for a, b in zip(alone, all_of_it, strict=True)))


# Picture.

DARK = 0.6  # share from which a field is too dark for black digits
SHORT = ("healthy", "hacking", "degeneracy", "concentration", "instability")
SPLIT = ("none of\nthese", "hacking", "degen-\neracy", "concen-\ntration", "insta-\nbility")
COLOURS = (s.BLACK, s.VERMILION, s.ORANGE, s.PURPLE, s.BLUE)


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        "simulated runs",
        "GRPO with std; SGD; model A (refresh)",
        kl_weight=_kl_weights(setting),
        drift="groups of 8",
    )


def _kl_weights(setting: Setting) -> list[float]:
    """The smallest and the largest of all kinds of runs."""
    given = [setting.training.kl_weight, *(vars(one).get("kl_weight", []) for one in vars(setting.recipes).values())]
    return [float(end(np.concatenate([np.atleast_1d(one) for one in given]))) for end in (np.min, np.max)]


def draw(figure: Figure, results: Results) -> None:
    """Reward of all five, what separates each, and both tables of verdicts."""
    measured = results.measured
    figure.set_figheight(8.2)
    panels = figure.subplot_mosaic([["curve", "curve"], ["held", "silent"], ["entropy", "late"], ["diag", "diag"],
                                    ["only", "only"]], height_ratios=[1.5, 0.9, 0.9, 1.6, 1.6])  # fmt: skip
    for place, colour in enumerate(COLOURS):
        one = measured.isel(kind=place)
        panels["curve"].plot(*_smooth(measured.step.values, one.reward.values), color=colour, linewidth=1.3)
        sheet.note(panels["curve"], 0.98, 0.31 - 0.07 * place, SHORT[place], color=colour, ha="right")  # fmt: skip
    panels["curve"].set(ylabel="training reward", xlabel="step", ylim=(-0.05, 1.0))
    panels["curve"].set_title("what the curve shows (means of 9 steps)", fontsize=8)
    _beside(panels, measured)
    _table(panels["diag"], measured.by_diagnostics.values, "runs, with diagnostics (may name several)")
    _table(panels["only"], measured.by_curve.values, "runs, from the reward curve alone")


def _beside(panels: dict[str, Axes], measured: xarray.Dataset) -> None:
    """Held-out result, silent groups, entropy, raw reward: the failing run against the healthy one."""
    steps = measured.step.values
    drawn = {
        "held": ("held_out", 1, "held-out result (reward)"),
        "silent": ("silent", 2, "silent groups (share)"),
        "entropy": ("entropy", 3, "entropy (nats)"),
        "late": ("reward", 4, "raw reward"),
    }
    for name, (variable, place, label) in drawn.items():
        x = measured.evaluation.values if variable == "held_out" else steps
        for kind in (0, place):
            panels[name].plot(x, measured[variable].isel(kind=kind), color=COLOURS[kind], linewidth=0.9)
        panels[name].set_title(label, fontsize=7.5)
        panels[name].set_ylim(bottom=0)
        panels[name].set_xlim(0, steps[-1] + 1)
        panels[name].set_xlabel("step", fontsize=7)
        panels[name].tick_params(labelsize=6.5)


def _smooth(step: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ones = np.ones(9) / 9
    return np.convolve(step, ones, mode="valid"), np.convolve(values, ones, mode="valid")


def _table(axis: Axes, counts: np.ndarray, title: str) -> None:
    shares = counts / np.maximum(counts.max(), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > DARK else "black"
            axis.text(column, row, str(count), color=colour, ha="center", va="center", fontsize=7)
    axis.set_xticks(range(len(SHORT)), SPLIT, fontsize=6.5)
    axis.set_yticks(range(len(SHORT)), SHORT, fontsize=6.5)
    axis.set_xlabel("named", fontsize=7)
    axis.set_ylabel("true", fontsize=7)
    axis.tick_params(length=0)
    axis.set_title(title, fontsize=8)


# Claims.

LOOKED = "the ranges of the runs were chosen with results in sight"
WISHED = "what a perfect diagnosis would give"
SOURCE = "arXiv 2606.30789 (four diagnostics); detectors: grpo_clinic"


# Of n runs of each kind in the half that is judged, one is 1/n: 8 at draft, 50 for the paper; some runs are mild. With
# 8 runs of each, one of the three failures may come out either way.
CLAIMS = (
    Claim(
        "diagnostics.named",
        "Mean share of the runs of each failure whose verdict names it",
        SOURCE,
        predicted=lambda f: float(f.predicted.named),
        measured=named,
        tolerance=lambda f: f.setting.tolerance.named,
        fails_if="a detector missed the failure in more than one run in twenty",
        post_hoc=LOOKED,
        constant=WISHED,
    ),
    Claim(
        "diagnostics.healthy",
        "Share of the healthy runs in which none of the four failures is found",
        SOURCE,
        predicted=lambda f: float(f.predicted.healthy),
        measured=lambda f: recall(f.measured.by_diagnostics, "healthy", judged(f)),
        tolerance=lambda f: f.setting.tolerance.healthy,
        fails_if="a detector took noise for a failure in more than one run in twenty",
        post_hoc=LOOKED,
        constant=WISHED,
    ),
    Claim(
        "diagnostics.hidden_from_curve",
        "Of hacking, degeneracy and concentration, how many the reward curve alone names clearly less often",
        SOURCE,
        predicted=lambda f: float(f.predicted.hidden_from_curve),
        measured=hidden,
        tolerance=lambda f: f.setting.tolerance.hidden,
        unit="failures",
        fails_if="a reward curve betrayed one of them to a trained classifier, as hacking does",
        post_hoc=LOOKED,
        constant="the number of failures that a reward curve cannot show",
        explanation="a classifier trained on 250 labelled curves of these very kinds knows hacking by its small second "
        "rise as often as the held-out result does; for a real task nobody has such labels",
    ),
    Claim.same(
        "diagnostics.period",
        "The unstable runs oscillate with the period of a flip at the end of a refresh block, 2 N steps",
        "derived in bandit_lab/theory/thresholds.py",
        lambda d: d.period,
        tolerance=lambda f: f.setting.tolerance.period,
        relative=True,
        unit="steps",
        fails_if="stability were lost by a complex pair, or the cycle of noisy runs were another",
    ),
)
