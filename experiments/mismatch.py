"""Answers drawn by another law than the policy: where does training rest, when does it collapse, what is repaired?

Prediction (written before the run). Derived in bandit_lab/theory/sampler.py; no source is known to us. Without a
correction the reward's part of the update is the sampler's. So a hot sampler (tau > 1) collapses mean-only training
below a critical KL weight, of which the policy's own answers have none: .5294 at tau = 1.25 for two arms, e (1 - 1/tau)
as tau -> 1. With M other arms it is that of two arms whose reference is -ln M: .385 for ten arms, .173 for a hundred,
highest at a tau that comes nearer to 1. Weights pi/b repair the direction and not the std, which stays the sampler's.
So with the std they divide the critical KL weight by tau: a cold sampler (tau = .7) that held down to .81 collapses
below 2.16 once it is "corrected", below 1.60 with weights of at most 2. Mean-only they are a full repair; truncated at
C it ends where pi/b = C; IcePop's mask stops the run at that edge. A static error of the logits moves the plateau by
its own factor, and larger groups leave it there.
With the std a finite group has a fixed point at every weight, where nearly all groups are silent: its runs end beyond
those of their own answers.
Setting: experiments/mismatch.yaml. Measured: fixed points and critical weights of the exact mean update, and where
sampled runs end. Drawn: critical weights; ends of hot and of cold runs; the end against the bound of the weights.
"""

from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.grpo import LogitNoise, Temperature
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting, labelled
from bandit_lab.measure.fixed_point import find_fixed_point
from experiments.shared import sheet
from experiments.shared.mismatch_axes import bounds, hot_weights, number
from experiments.shared.mismatch_panels import draw_cold, draw_critical, draw_hot, draw_repair
from experiments.shared.readings import where_any
from experiments.shared.sampled_arms import ends, gaps, held, learner, measured_critical

TITLE = "Answers drawn by another law"
FINDING = "Hot samplers collapse training at small KL weights; importance weights for cold ones do so, too"

# What prediction and measurement are both told.

KL = "reward per nat"
RULES = {"mean-only": ("dr_grpo", "none"), "std": ("grpo", "none"), "std, weights": ("grpo", "importance")}
"""Label -> (advantage, correction)."""
COLD = {"none": "none", "pi/b": "importance", "truncated": "tis"}
LINE = 61
"""Points of a drawn line."""


def axes(setting: Setting) -> dict[str, Any]:
    """Coordinates of both sides."""
    return {
        "rule": list(RULES),
        "temperature": setting.temperatures,
        "arms": setting.arms,
        "hot_arms": [int(one) for one in setting.hot.kl_weight],
        "hot_weight": np.arange(len(hot_weights(setting)[0])),
        "cold_correction": list(COLD),
        "cold_weight": setting.cold.kl_weight,
        "correction": ["tis", "icepop"],
        "bound": setting.bounds,
        "error": setting.static.errors,
        "group": setting.static.group_sizes,
    }


def columns(setting: Setting, values: dict[str, Any], more: dict[str, Any] | None = None) -> xarray.Dataset:
    """What both sides have; gaps are log-odds of the good arm, NaN for none (collapse, or no critical weight)."""
    dims = {
        "critical": (("rule", "temperature"), KL),
        "critical_arms": (("arms", "temperature"), KL),
        "hot": (("hot_arms", "hot_weight"), "nats"),
        "hot_gone": (("hot_arms", "hot_weight"), "1"),
        "cold": (("cold_correction", "cold_weight"), "nats"),
        "repair": (("correction", "bound"), "nats"),
        "repair_runs": (("correction", "bound"), "nats"),
        "static": (("group", "error"), "nats"),
    }
    variables = {name: (dims[name][0], value, dims[name][1]) for name, value in values.items()}
    return labelled(variables | (more or {}), axes(setting))


# Prediction: theory alone.


def arms(advantage: str, tau: float, correction: str = "none", **more: Any) -> theory.SampledTwoArms:
    """One good arm; more: `others`, `size`, `bound`, `xi`."""
    limits = bounds(correction, more.get("bound", 1.0))
    low, high = limits.get("low", 0.0), limits.get("high", limits.get("largest", np.inf))
    acting = theory.ActingLaw(tau, more.get("xi", 0.0), correction, low, high)
    return theory.one_good_arm(theory.GroupLaw(advantage, more.get("size")), more.get("others", 1), acting)


def predict(setting: Setting) -> xarray.Dataset:
    """Closed forms of two arms, and of one good arm among many."""
    hot, cold, repair, static = setting.hot, setting.cold, setting.repair, setting.static
    fine = np.linspace(0.65, 2.1, LINE)

    def critical(temperatures: Any) -> tuple[list, list]:
        rules = [[number(arms(a, tau, c).critical_kl_weight()) for tau in temperatures] for a, c in RULES.values()]
        many = [
            [number(arms("dr_grpo", tau, others=k - 1).critical_kl_weight()) for tau in temperatures]
            for k in setting.arms
        ]
        return rules, many

    def of_hot(k: int, weights: Any) -> list[float]:
        two = arms("dr_grpo", hot.tau, others=k - 1, size=hot.group_size)
        return [number(two.rest(weight)) for weight in weights]

    def of_cold(correction: str, weights: Any) -> list[float]:
        two = arms("grpo", cold.tau, correction, size=cold.group_size, bound=cold.truncation)
        return [number(two.rest(weight)) for weight in weights]

    def of_repair(correction: str, size: int | None, over: Any) -> list[float]:
        return [
            number(arms("dr_grpo", repair.tau, correction, size=size, bound=one).rest(repair.kl_weight)) for one in over
        ]

    rules, many = critical(setting.temperatures)
    rule_lines, arm_lines = critical(fine)
    names = [int(one) for one in hot.kl_weight]
    ends = np.array([of_hot(k, weights) for k, weights in zip(names, hot_weights(setting), strict=True)])
    kinds = axes(setting)["correction"]
    fine_weight, fine_bound = np.geomspace(0.2, 3.2, 2 * LINE), np.linspace(1.02, 3.1, LINE)
    values = {
        "critical": rules,
        "critical_arms": many,
        "hot": ends,
        "hot_gone": np.isnan(ends),
        "cold": [of_cold(one, cold.kl_weight) for one in COLD.values()],
        "repair": [of_repair(one, None, setting.bounds) for one in kinds],
        "repair_runs": [of_repair(one, repair.group_size, setting.bounds) for one in kinds],
        "static": [
            [number(arms("dr_grpo", 1.0, xi=xi, size=size).rest(static.kl_weight)) for xi in static.errors]
            for size in static.group_sizes
        ],
    }
    own = {"dr_grpo": hot.group_size, "grpo": cold.group_size}
    uncorrected, repaired = (arms("dr_grpo", tau).rest(repair.kl_weight) for tau in (repair.tau, 1.0))
    lines = {
        "critical_line": (("rule", "fine_temperature"), rule_lines, KL),
        "critical_arms_line": (("arms", "fine_temperature"), arm_lines, KL),
        "hot_line": (("hot_arms", "fine_weight"), [of_hot(k, fine_weight) for k in names], "nats"),
        "own_line": (
            ("advantage", "fine_weight"),
            [[number(arms(one, 1.0, size=size).rest(w)) for w in fine_weight] for one, size in own.items()],
            "nats",
        ),
        "cold_line": (("cold_correction", "fine_weight"), [of_cold(c, fine_weight) for c in COLD.values()], "nats"),
        "repair_line": (("correction", "fine_bound"), [of_repair(one, None, fine_bound) for one in kinds], "nats"),
        "repair_ends": (("end",), [number(uncorrected), number(repaired)], "nats"),
    }
    predicted = columns(setting, values, lines)
    return predicted.assign_coords(
        fine_temperature=fine, fine_weight=fine_weight, fine_bound=fine_bound, advantage=list(own)
    )


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Fixed points of the exact mean update, then ends of sampled runs."""
    parts = {
        "exact": lambda: exact(setting),
        "hot": lambda: hot_runs(setting),
        "cold": lambda: cold_runs(setting),
        "repair": lambda: repair_runs(setting),
        "static": lambda: static_runs(setting),
    }
    return xarray.merge(lab.keep_each(parts).values())


def exact(setting: Setting) -> xarray.Dataset:
    """Critical weights, and ends of a cold sampler's corrected training."""
    repair = setting.repair
    rules = [
        [measured_critical(setting, a, Temperature(tau), c) for tau in setting.temperatures] for a, c in RULES.values()
    ]
    many = [
        [measured_critical(setting, "dr_grpo", Temperature(tau), others=k - 1) for tau in setting.temperatures]
        for k in setting.arms
    ]
    rest = [
        [
            gaps(
                find_fixed_point(
                    learner("dr_grpo", Temperature(repair.tau), one, bound=bound), "mean_field", repair.kl_weight
                ).policy[0]
            )
            for bound in setting.bounds
        ]
        for one in axes(setting)["correction"]
    ]
    return columns(setting, {"critical": rules, "critical_arms": many, "repair": rest})


def hot_runs(setting: Setting) -> xarray.Dataset:
    """Mean-only under a hot sampler."""
    hot, last = setting.hot, []
    for k, weights in zip(axes(setting)["hot_arms"], hot_weights(setting), strict=True):
        trained = learner("dr_grpo", Temperature(hot.tau), others=k - 1, size=hot.group_size)
        last.append(ends(setting, trained, weights, hot.learning_rate, setting.steps.hot))
    log_odds = np.array(last)
    return columns(setting, {"hot": held(setting, log_odds), "hot_gone": np.mean(log_odds > setting.gone, axis=-1)})


def cold_runs(setting: Setting) -> xarray.Dataset:
    """With the std under a cold sampler. No run is called gone: a finite group's silence stops it before a vertex."""
    cold, last = setting.cold, []
    for one in COLD.values():
        trained = learner("grpo", Temperature(cold.tau), one, size=cold.group_size, bound=cold.truncation)
        last.append(ends(setting, trained, cold.kl_weight, cold.learning_rate, setting.steps.cold))
    return columns(setting, {"cold": np.median(last, axis=-1)})


def repair_runs(setting: Setting) -> xarray.Dataset:
    """Mean-only under a cold sampler, truncated or masked."""
    repair = setting.repair

    def end(one: str, bound: float) -> float:
        trained = learner("dr_grpo", Temperature(repair.tau), one, size=repair.group_size, bound=bound)
        last = ends(setting, trained, [repair.kl_weight], repair.learning_rate, setting.steps.repair)
        return float(np.mean(last))

    return columns(
        setting, {"repair_runs": [[end(one, b) for b in setting.bounds] for one in axes(setting)["correction"]]}
    )


def static_runs(setting: Setting) -> xarray.Dataset:
    """Mean-only with an error of the logits that stands still, in small and in large groups."""
    static = setting.static

    def end(size: int, error: float) -> float:
        trained = learner("dr_grpo", LogitNoise((error, 0.0)), size=size)
        return float(np.mean(ends(setting, trained, [static.kl_weight], static.learning_rate, setting.steps.static)))

    return columns(setting, {"static": [[end(size, one) for one in static.errors] for size in static.group_sizes]})


# Numbers that the claims compare.


def at_most_a_twentieth(results: Results) -> float:
    """Share of the KL weights at which the predicted share of runs is gone, to a twentieth."""
    return float((abs(results.measured.hot_gone - results.predicted.hot_gone) <= 0.05).mean())


def held_gaps(data: xarray.Dataset) -> Any:
    """Ends of the hot runs at the KL weights that are well above the critical one: the last three."""
    return data.hot[:, -3:]


def of_correction(name: str, one: str) -> Any:
    """A variable at one correction."""
    return lambda data: data[name].sel(correction=one)


def weights_less_none(data: xarray.Dataset) -> Any:
    """Critical KL weight with weights pi/b less that without, at the coldest sampler."""
    return data.critical.sel(rule="std, weights")[0] - data.critical.sel(rule="std")[0]


def spread(data: xarray.Dataset) -> Any:
    """Plateaus between the smallest and the largest error, in the largest groups."""
    return data.static[-1, 0] - data.static[-1, -1]


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        "one arm of reward 1, the others 0",
        "SGD, on-policy",
        kl_weight=[0.22, 3.0],
        drift=f"b, c: groups of {setting.hot.group_size}",
    )


def draw(figure: Figure, results: Results) -> None:
    """Four panels: critical weights, hot runs, cold runs, repair."""
    parts = (draw_critical, draw_hot, draw_cold, draw_repair)
    sheet.fill(figure, results, parts, height=7.9, across=1)


# Claims.

SAMPLER = "bandit_lab/theory/sampler.py"
NOISE = "the noise of groups carries runs over the ridge beside the fixed point, which the mean update does not"
CLAIMS = (
    Claim.one(
        "mismatch.critical",
        "Critical KL weight of two arms, exact mean update over closed form: farthest ratio over rules and "
        "temperatures; none where none is predicted",
        SAMPLER,
        where_any("critical"),
        tolerance=lambda f: 3 * f.setting.kl_accuracy,
        fails_if="the fixed point depended on more than the sampler's push, or another branch were reached",
    ),
    Claim.one(
        "mismatch.critical_arms",
        "Critical KL weight of one good arm among K, mean-only: two arms whose reference is that of one in K",
        SAMPLER,
        where_any("critical_arms"),
        tolerance=lambda f: 3 * f.setting.kl_accuracy,
        fails_if="K - 1 equal arms did not act as one, or the sampler's log-odds were shifted otherwise",
    ),
    Claim.one(
        "mismatch.hot_runs",
        "Hot sampler, mean-only, sampled groups: share of the KL weights (two and ten arms, on both sides of the "
        "critical one) at which all runs run away, or none, as predicted",
        SAMPLER,
        at_most_a_twentieth,
        tolerance=1e-9,
        fails_if="one run in twenty ended on the other side",
        explanation=NOISE + ": at the first weight above the critical one",
    ),
    Claim.ratio(
        "mismatch.hot_gap",
        "Where they stay: median of the log-odds at the end, farthest ratio over the three largest KL weights",
        SAMPLER,
        held_gaps,
        tolerance=lambda f: f.setting.tolerance.runs,
        fails_if="the fixed point of the mean update at this G were not where sampled runs stay",
    ),
    Claim.ratio(
        "mismatch.cold_runs",
        "Cold sampler, std: median of the log-odds at the end, farthest ratio, uncorrected and truncated",
        SAMPLER,
        lambda data: data.cold.sel(cold_correction=["none", "truncated"]),
        tolerance=lambda f: f.setting.tolerance.cold,
        fails_if="truncation did not move the edge",
        explanation=NOISE,
    ),
    Claim.ratio(
        "mismatch.cold_weighted_runs",
        "Cold sampler, std, weights pi/b: median of the log-odds at the end, farthest ratio over KL weights",
        SAMPLER,
        lambda data: data.cold.sel(cold_correction="pi/b"),
        tolerance=lambda f: f.setting.tolerance.cold,
        fails_if="weights repaired the std too",
        explanation="where the rare arm comes once in thousands of answers, one of them weighs ten times and more: the "
        "noise has a heavy tail, and its mean is not where most runs are",
    ),
    Claim.same(
        "mismatch.weights_towards_collapse",
        "Cold sampler (0.7), std: the critical KL weight with weights pi/b less that without",
        SAMPLER,
        weights_less_none,
        tolerance=lambda f: 3 * f.setting.kl_accuracy,
        relative=True,
        unit=KL,
        fails_if="the correction did not move a cold sampler towards collapse",
        follows="mismatch.critical",
    ),
    Claim.ratio(
        "mismatch.truncated",
        "Cold sampler, mean-only, truncated weights: log-odds at rest of the exact mean update, farthest over bounds",
        SAMPLER,
        of_correction("repair", "tis"),
        tolerance=1e-6,
        fails_if="the update beyond the bound did not follow the law min(pi, C b)",
    ),
    Claim.ratio(
        "mismatch.masked",
        "Cold sampler, mean-only, masked (IcePop): where the exact mean update slides, farthest over bounds",
        SAMPLER,
        of_correction("repair", "icepop"),
        tolerance=1e-4,
        fails_if="the mean update did not jump across 0 at that edge",
    ),
    Claim.ratio(
        "mismatch.truncated_runs",
        "Sampled groups, truncated weights: mean log-odds at the end, farthest over bounds",
        SAMPLER,
        of_correction("repair_runs", "tis"),
        tolerance=lambda f: f.setting.tolerance.runs,
        fails_if="noise moved the end by more than its order eta and 1/G",
    ),
    Claim.ratio(
        "mismatch.masked_runs",
        "Sampled groups, masked: mean log-odds at the end, farthest over bounds",
        SAMPLER,
        of_correction("repair_runs", "icepop"),
        tolerance=lambda f: f.setting.tolerance.runs,
        fails_if="noise blurred the edge of the mask by more than that",
        explanation="noise blurs the edge: runs feel the mask before they are there",
    ),
    Claim.ratio(
        "mismatch.static",
        "A static error of the logits, mean-only: mean log-odds at the end, farthest over errors and group sizes",
        SAMPLER,
        lambda data: data.static,
        tolerance=lambda f: f.setting.tolerance.plateau,
        fails_if="the plateau did not move by the error's factor",
    ),
    Claim.same(
        "mismatch.more_samples",
        "Plateaus between the smallest and the largest error: spread in groups of 256",
        SAMPLER,
        spread,
        tolerance=lambda f: f.setting.tolerance.plateau,
        relative=True,
        unit="nats",
        fails_if="larger groups removed the bias",
        follows="mismatch.static",
    ),
)
