"""Does the group size change the mean of a run, or only its noise?

Prediction: the mean gradient is h_G(J) grad J exactly. Leave-one-out: h = 1, one curve for all G. Divided by the
group's std: h sqrt(p(1-p)) = c_G(p) = E sqrt(k(G-k))/(G sqrt(p(1-p))), k ~ Bin(G, p) (arXiv 2607.00152; derived in
bandit_lab/theory/group_law.py), so that curves collapse only while G p(1-p) is large: c_G = 1 - 1/(8 G p(1-p)) + ...
Noise: the discrete Lyapunov equation with the exact covariance of a group's gradient (theory/stationary.py,
theory/gradient_noise.py): variance ~ 1/G (arXiv 2606.30789), but for certain rewards at p = 1/2, where it is 1/G^2.

Setting: experiments/group_size.yaml. Measured: means over sampled runs; the mean of one update at many p; variances
over sampled runs around their fixed point. Drawn: curves, the map of c_G(p), variance against G.
"""

from functools import partial
from typing import Any

import matplotlib
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting, labelled
from bandit_lab.lab.reproduce.readings import crossing, farthest_from_one
from bandit_lab.simulation import run
from experiments.shared import sheet
from experiments.shared.readings import share_of_curves
from experiments.shared.theory.two_arm import group_curve

TITLE = "What the group size does to mean and variance"
FINDING = (
    "Without the std the group size changes only the noise; with it small groups learn {not_invariant:.1f} times slower"
)

# What prediction and measurement are both told.

RULES = ("rloo", "grpo")
CASES = ("noisy", "balanced")


def times(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Learning rate times steps, at the compared steps [P], and those steps."""
    steps = round(setting.curve.time / setting.curve.learning_rate)
    shown = np.round(np.linspace(0, steps, setting.curve.points)).astype(int)
    return shown * setting.curve.learning_rate, shown


def failures(setting: Setting) -> np.ndarray:
    """Failure probabilities 1 - p [Q] at which an update is measured."""
    return np.geomspace(0.5, setting.factor.smallest_failure, setting.factor.points)


def log_odds(p: Any) -> Any:
    return np.log(np.asarray(p) / (1 - np.asarray(p)))


def level_crossings(failure: np.ndarray, factor: np.ndarray, levels: Any) -> np.ndarray:
    """Failure probability at which c_G falls through each level, by a local cubic in its logarithm; nan if nowhere."""
    crossings = []
    for level in levels:
        below = np.flatnonzero(factor < level)
        i = int(below[0]) if len(below) else 0
        if i == 0:
            crossings.append(np.nan)
            continue
        near = slice(max(0, i - 2), max(0, i - 2) + 4)
        crossings.append(float(np.exp(np.polyval(np.polyfit(factor[near], np.log(failure[near]), 2), level))))
    return np.array(crossings)


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def dataset(
    setting: Setting, curves: Any, infinite: Any, factor: Any, at_level: Any, variance: Any, extra: dict[str, Any]
) -> xarray.Dataset:
    """What both sides have, with units."""
    sizes = np.array(setting.sizes)
    late = sizes >= setting.variance.slope_from
    slopes = [[log_slope(sizes[late], row[late]) for row in case] for case in variance]
    reached = [[crossing(times(setting)[0], c, setting.curve.reached) for c in rule] for rule in curves]
    values = {
        "reward": (("rule", "group_size", "time"), curves, "reward"),
        "reward_infinite": (("rule", "time"), infinite, "reward"),
        "delay": (("rule", "group_size"), [np.array(row) / row[-1] for row in reached], "1"),
        "factor": (("group_size", "failure"), factor, "1"),
        "failure_at_level": (("group_size", "level"), at_level, "probability"),
        "variance": (("case", "loop", "group_size"), variance, "reward^2"),
        "variance_slope": (("case", "loop"), slopes, "1"),
        **extra,
    }
    coords = {"rule": list(RULES), "case": list(CASES), "group_size": sizes, "time": times(setting)[0]}
    coords |= {"failure": failures(setting), "level": setting.factor.levels, "loop": [0, 1]}
    return labelled(values, coords)


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    time, start = times(setting)[0], log_odds(setting.curve.start)
    fine = np.unique(np.round(np.geomspace(2, max(setting.sizes), 60)).astype(int))
    levels = np.array(setting.factor.levels)
    dense = np.geomspace(0.5, setting.factor.smallest_failure / 4, 2000)

    def crossings(sizes: Any) -> list[np.ndarray]:
        factors = [theory.GroupLaw("grpo", int(g)).group_factor(1 - dense) for g in sizes]
        return [level_crossings(dense, f, levels) for f in factors]

    product = 1 / (8 * np.outer(fine, 1 - levels))  # p(1-p) at which the first-order law has that level
    law = np.where(product < 0.25, 0.5 * (1 - np.sqrt(np.clip(1 - 4 * product, 0, 1))), np.nan)
    extra = {
        "failure_line": (("fine_size", "level"), crossings(fine), "probability"),
        "failure_law": (("fine_size", "level"), law, "probability"),
    }
    return dataset(
        setting,
        [[group_curve(time, start, theory.GroupLaw(r, g)) for g in setting.sizes] for r in RULES],
        [group_curve(time, start, theory.GroupLaw(r)) for r in RULES],
        [theory.GroupLaw("grpo", g).group_factor(1 - failures(setting)) for g in setting.sizes],
        crossings(setting.sizes),
        np.array([[[_variance(setting, c, i, g) for g in setting.sizes] for i in (0, 1)] for c in CASES]),
        extra,
    ).assign_coords(fine_size=fine)


def _variance(setting: Setting, case: str, i: int, size: int) -> float:
    about, loops = setting.variance[case], setting.variance.loops
    law = theory.GroupLaw("grpo", size)
    signal = theory.BinarySignal(law, tuple(about.rewards))
    reference = np.exp(about.reference) / np.exp(about.reference).sum()
    policy = theory.settled_point(signal, reference, about.kl_weight).policy
    split = theory.stiffness_split(signal, policy, about.kl_weight, "frozen")
    loop = theory.LinearLoop(*split.reduced(), loops.momentum[i], "refresh")
    noise = theory.reduce_matrix(theory.binary_covariance(law, signal.means, policy))
    covariance = theory.stationary_covariance(loop, loops.learning_rate[i], loops.refresh_interval[i], noise).average
    assert covariance is not None, "a loop beyond its threshold has no stationary variance"
    return theory.reward_std(policy, signal.means, covariance) ** 2


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    done = [lab.keep(f"G = {g}", partial(_measure, setting, g)) for g in setting.sizes]
    grid, steps = _cells(setting.curve.learning_rate), int(times(setting)[1][-1])
    infinite = [run(_starting(r, 2, setting), "mean_field", grid, steps=steps, dtype=np.float64) for r in RULES]
    whole = xarray.concat(done, "group_size")
    return dataset(
        setting,
        whole["reward"].transpose("rule", ...).values,
        [r.reward_mean[0, times(setting)[1]] for r in infinite],
        whole["factor"].values,
        whole["failure_at_level"].values,
        whole["variance"].transpose("case", "loop", ...).values,
        {
            "reward_error": (("rule", "group_size", "time"), whole["reward_error"].transpose("rule", ...), "reward"),
            "factor_error": (("group_size", "failure"), whole["factor_error"], "1"),
        },
    )


def _cells(learning_rate: Any, momentum: Any = 0.0, interval: Any = 1, kl_weight: Any = 0.0) -> Hyper:
    columns = np.broadcast_arrays(*np.atleast_1d(learning_rate, momentum, interval, kl_weight))
    return Hyper(*(np.array(column) for column in columns))


def _learner(rule: str, size: int, rewards: Any, reference: Any = (0.0, 0.0), gap: float = 0.0) -> Learner:
    bandit = two_arm(rewards, reference_logits=reference, initial_logits=(gap / 2, -gap / 2))
    return Learner(bandit, advantage=ADVANTAGES[rule](), group_size=size)


def _starting(rule: str, size: int, setting: Setting) -> Learner:
    return _learner(rule, size, (1.0, 0.0), gap=log_odds(setting.curve.start))


def _measure(setting: Setting, size: int) -> xarray.Dataset:
    """Everything at one group size."""
    shown, curve, about = times(setting)[1], setting.curve, setting.variance
    options: dict[str, Any] = {"seed": setting.seed + size, "summary": False, "dtype": np.float64}
    grid, steps = _cells(curve.learning_rate), int(shown[-1])
    runs = [run(_starting(r, size, setting), "sampled", grid, steps=steps, seeds=curve.seeds, **options) for r in RULES]
    q, rate, seeds = failures(setting), setting.factor.learning_rate, setting.factor.seeds
    start = np.stack([-log_odds(q) / 2, log_odds(q) / 2], axis=-1)
    grid = _cells(np.full(len(q), rate))
    one = run(_learner("grpo", size, (1.0, 0.0)), "sampled", grid, steps=1, seeds=seeds, initial=start, **options)
    unit = 2 * rate * (q * (1 - q)) ** 1.5  # change of p in one update where c = 1
    factor = (one.reward_mean[:, 1] - one.reward_mean[:, 0]) / unit
    before, after = (round(x * about.relaxations / 4) * 4 for x in (about.burn_in, about.window))
    variances = []
    for case in CASES:
        there = _learner("grpo", size, tuple(about[case].rewards), tuple(about[case].reference))
        loops, steps = about.loops, before + after - 1
        grid = _cells(loops.learning_rate, loops.momentum, loops.refresh_interval, about[case].kl_weight)
        sampled = run(there, "sampled", grid, steps=steps, seeds=about.seeds, **options)
        variances.append(sampled.reward_variance[:, before:].mean(axis=1))
    return xarray.Dataset(
        {
            "reward": (("rule", "time"), [r.reward_mean[0, shown] for r in runs]),
            "reward_error": (("rule", "time"), [np.sqrt(r.reward_variance[0, shown] / curve.seeds) for r in runs]),
            "factor": ("failure", factor),
            "factor_error": ("failure", np.sqrt(one.reward_variance[:, 1] / seeds) / unit),
            "failure_at_level": ("level", level_crossings(q, factor, np.array(setting.factor.levels))),
            "variance": (("case", "loop"), variances),
        }
    )


# Numbers that the claims compare.


def on_curve(results: Results, predicted: xarray.DataArray, rule: str) -> float:
    """Share of group sizes whose measured curve is the predicted one, always within a bias and 5 standard errors."""
    allowed = results.setting.tolerance.curve + 5 * results.measured.reward_error.sel(rule=rule)
    return share_of_curves(results.measured.reward.sel(rule=rule), predicted.sel(rule=rule), allowed, "time")


def known_factor(results: Results) -> xarray.DataArray:
    """Predicted c_G(p) where the measured one is known well enough."""
    precise = results.measured.factor_error < results.setting.tolerance.factor / 5 * results.predicted.factor
    return results.predicted.factor.where(precise)


def product(data: xarray.Dataset, setting: Setting, level: float) -> float:
    """G p(1-p) of the largest group where c_G has this level."""
    q = float(data.failure_at_level.sel(level=level)[-1])
    return max(setting.sizes) * q * (1 - q)


# Picture.

KEY = "lines: predicted\ncircles: measured"


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    rules = f"GRPO with std unless named; heavy ball; model A; variance: KL weight {setting.variance.noisy.kl_weight:g}"
    return sheet.trained("two arms, rewards as named", rules, kl_weight=0, drift="sampled groups of G")


def draw(figure: Figure, results: Results) -> None:
    """Mean curves of two rules, the factor of the group size, stationary variances."""
    one = partial(_draw_curves, rule="rloo", title="Leave-one-out: one curve for all G")
    many = partial(_draw_curves, rule="grpo", title="Divided by the group's std: not one curve")
    sheet.fill(figure, results, (one, many, _draw_map, _draw_variance), height=8.6, across=1)


def _draw_curves(axis: Axes, results: Results, rule: str, title: str) -> None:
    time, sizes = results.predicted.time.values, results.predicted.group_size.values
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.7, len(sizes)))
    axis.plot(time, results.predicted.reward_infinite.sel(rule=rule), zorder=3, **style.LAW)
    for row, (size, colour) in enumerate(zip(sizes, colours, strict=True)):
        if rule == "grpo":
            axis.plot(time, results.predicted.reward.sel(rule=rule, group_size=size), color=colour, linewidth=1.3)
        seen = slice(1 + row % 3, None, 3)
        some = style.MEASURED | {"color": colour, "markersize": 3.2}
        axis.plot(time[seen], results.measured.reward.sel(rule=rule, group_size=size)[seen], **some)
        place = (0.97, 0.06 + 0.085 * (len(sizes) - 1 - row))
        sheet.note(axis, *place, f"G = {size}", color=colour, ha="right")
    sheet.note(axis, 0.97, 0.06 + 0.085 * len(sizes), "- - G = infinity", ha="right")
    axis.set(ylim=(0, 1.03), xlabel=f"learning rate x steps\n({style.RATE_UNIT})", ylabel="expected reward")
    sheet.note(axis, 0.03, 0.97, KEY, va="top")
    axis.set_title(title)


def _draw_map(axis: Axes, results: Results) -> None:
    sizes, fine = results.measured.group_size.values, results.predicted.fine_size.values
    for level, colour in zip(results.predicted.level.values, (style.VERMILION, style.BLUE, style.GREEN), strict=True):
        line = results.predicted.failure_line.sel(level=level)
        axis.plot(fine, line, color=colour, linewidth=1.6)
        axis.plot(fine, results.predicted.failure_law.sel(level=level), **style.LAW | {"linewidth": 1.0})
        some = style.MEASURED | {"color": colour}
        axis.plot(sizes, results.measured.failure_at_level.sel(level=level), **some)
        last = int(np.flatnonzero(np.isfinite(line))[-1])
        axis.annotate(
            f"{level:g}", (fine[last], line[last]), (4, -2), textcoords="offset points", color=colour, fontsize=7
        )
    axis.set(xscale="log", yscale="log", xlabel="group size G", ylabel="failure probability 1 - p", ylim=(1e-4, 0.7))
    axis.set_xlim(1.7, 2.1 * fine[-1])
    axis.set_title("Group factor $c_G(p)$: where it is 0.5, 0.9, 0.99")
    sheet.note(axis, 0.03, 0.06, "dashed: 1 - 1/(8 G p(1-p))")
    sheet.note(axis, 0.97, 0.97, KEY, ha="right", va="top")


def _draw_variance(axis: Axes, results: Results) -> None:
    sizes = results.predicted.group_size.values
    names = {"noisy": (style.BLUE, "rewards 0.9 and 0.2"), "balanced": (style.VERMILION, "certain rewards, p = 1/2")}
    for case, (colour, name) in names.items():
        for loop, marker in enumerate("os"):
            line = results.predicted.variance.sel(case=case, loop=loop)
            axis.plot(sizes, line, color=colour, linewidth=1.5, linestyle="-" if loop == 0 else (0, (4, 2)))
            seen = results.measured.variance.sel(case=case, loop=loop)
            axis.plot(sizes, seen, **style.MEASURED | {"color": colour, "marker": marker, "markersize": 4 - loop})
        slope = float(results.predicted.variance_slope.sel(case=case, loop=0))
        place = (0.97, 0.9) if case == "noisy" else (0.03, 0.06)
        side = "right" if case == "noisy" else "left"
        text = f"{name}: slope {slope:.2f}"
        sheet.note(axis, *place, text, color=colour, ha=side)
    axis.set(xscale="log", yscale="log", xlabel="group size G", ylabel="variance (reward$^2$)")
    sheet.note(axis, 0.97, 0.84, "lines: predicted\nmarkers: measured", ha="right", va="top")
    axis.set_title("Stationary variance (○ N = 1, □ N = 4)")


# Claims.

DERIVED = "bandit_lab/theory/group_law.py"
CLAIMS = (
    # curves: a bias of order learning rate (noise times the bend of the sigmoid: learning rate x distance in logits x
    # 0.05 = 0.0012 at 0.005) and 5 standard errors at each of 24 times and 6 sizes: false alarm 1e-4
    Claim.one(
        "group_size.collapse",
        "Leave-one-out advantages: the mean curves of all group sizes are that of infinite groups (share of sizes)",
        "arXiv 2606.30789 (i); " + DERIVED,
        measured=lambda f: on_curve(f, f.predicted.reward_infinite, "rloo"),
        tolerance=1e-9,
        fails_if="one size left the curve by more than a bias and 5 standard errors at one of its times",
    ),
    Claim.one(
        "group_size.finite_group_curve",
        "Advantages divided by the group's std: each group size follows its own exact curve (share of sizes)",
        "arXiv 2607.00152; " + DERIVED,
        measured=lambda f: on_curve(f, f.predicted.reward, "grpo"),
        tolerance=1e-9,
        fails_if="the factor c_G(p) did not act along a whole run",
    ),
    # standard error of a time below 0.3 %, bias of order learning rate
    Claim.same(
        "group_size.not_invariant",
        "Divided by the std: time of the smallest group to the compared reward, in units of the largest group's",
        DERIVED,
        lambda d: d.delay.sel(rule="grpo")[0],
        tolerance=lambda f: f.setting.tolerance.time,
        relative=True,
        fails_if="the exact curves of two sizes were not as far apart",
        follows="group_size.finite_group_curve",
    ),
    Claim.same(
        "group_size.leave_one_out_delay",
        "Leave-one-out: the same ratio is 1",
        DERIVED,
        lambda d: d.delay.sel(rule="rloo")[0],
        tolerance=lambda f: f.setting.tolerance.time,
        relative=True,
        fails_if="noise moved the mean curve of the smallest group",
        follows="group_size.collapse",
    ),
    # one update, smallest product G p(1-p) = 4e-4: 26 of 65,536 groups are not silent there, 20 % standard error; so
    # the ratio is judged where it is known to 1.2 %, at 5 standard errors (false alarm 1e-4 over all points)
    Claim.one(
        "group_size.factor",
        "The mean of one update is c_G(p) times that of infinite groups: farthest ratio, where known well enough",
        "arXiv 2607.00152; " + DERIVED,
        measured=lambda f: farthest_from_one(f.measured.factor, known_factor(f)),
        tolerance=lambda f: f.setting.tolerance.factor,
        fails_if="silent groups or the std of a drawn group were counted otherwise than in c_G(p)",
    ),
    Claim(
        "group_size.where",
        "Largest group: the mean is a tenth below that of infinite groups where G p(1-p) is",
        DERIVED,
        predicted=lambda f: product(f.predicted, f.setting, 0.9),
        measured=lambda f: product(f.measured, f.setting, 0.9),
        tolerance=lambda f: f.setting.tolerance.level,
        relative=True,
        fails_if="c_G had its level 0.9 elsewhere",
        follows="group_size.factor",
    ),
    # 5 standard errors (see the setting) and a nonlinear correction below 0.3 % at the hottest
    Claim.ratio(
        "group_size.variance",
        "The stationary variance is that of the Lyapunov equation: farthest ratio over group sizes, loops and bandits",
        "bandit_lab/theory/stationary.py, gradient_noise.py",
        lambda d: d.variance,
        tolerance=lambda f: f.setting.tolerance.variance,
        fails_if="the covariance of a group's gradient or its passage through momentum and staleness were another",
    ),
    Claim.same(
        "group_size.variance_slope",
        "Noisy rewards: slope of the logarithm of the variance against that of G",
        "arXiv 2606.30789 (i): variance ~ 1/G",
        lambda d: d.variance_slope.sel(case="noisy", loop=0),
        tolerance=lambda f: f.setting.tolerance.slope,
        fails_if="the exact variances did not go as 1/G",
        follows="group_size.variance",
    ),
    Claim.same(
        "group_size.balanced_slope",
        "Certain rewards around p = 1/2: the same slope is not -1 but near -2",
        "bandit_lab/theory/gradient_noise.py: the leading noise ~ (1 - 2p)^2/G vanishes",
        lambda d: d.variance_slope.sel(case="balanced", loop=0),
        tolerance=lambda f: f.setting.tolerance.slope,
        fails_if="the exact variances did not go as 1/G^2",
        follows="group_size.variance",
    ),
)
