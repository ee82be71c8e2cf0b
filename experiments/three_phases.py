"""When does dividing by the group's std speed learning up, by how much, and in which phase of training?

Prediction (written before the run). Derived in shared/theory/contextual.py: the mean flow of a log-linear policy
on many prompts, from features, difficulties and the group law alone, gives the time to 90 % success with the advantages
of GRPO and Dr. GRPO at one learning rate, and so the gain; dividing multiplies the speed by a mean of 1/sigma over
prompts. arXiv 2601.23135: the gain is set by the within-prompt std, averaged over prompts and iterations (read here as
gain = 1/average std), while prompt gradients are orthogonal; loss of orthogonality limits it; its curvature argument: a
prompt's curvature along its gradient, here c J (1-J)(1-2J), is at most c sigma/4.
Setting: experiments/three_phases.yaml. Measured: sampled groups, mean over seeds. A stage is a part of the way from
the start to 90 %; its speed ratio is the time of Dr. GRPO over that of GRPO. A std is at most 1/2, so that below 2 GRPO
is slower than Dr. GRPO at twice the learning rate. Our own rule, compared at equal budget and each one's best learning
rate: divide by std^a, a = 1 - mean |cosine| of the prompt gradients at the start, rounded to the powers that are run.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits.contextual import ContextualBandit, contextual
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.lab.reproduce import claims
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting, labelled
from bandit_lab.lab.reproduce.readings import crossing, farthest_from_one
from bandit_lab.measure.displaced import stack_bandits
from experiments.shared import sheet
from experiments.shared.measure.curvature import curvature_during_training
from experiments.shared.measure.observe import observe, success_and_cosine
from experiments.shared.readings import at_own_best, jackknife, slope_and_correlation, time_ratios
from experiments.shared.theory.contextual import contextual_curve, evenly_trained

TITLE = "What dividing by the std does"
FINDING = (
    "Dividing by the std learns {gain:.1f} times as fast at one learning rate, but no better at each rule's best one"
)

# What prediction and measurement are both told.

NAMES = {0.0: "dr_grpo", 1.0: "grpo"}


def random_problems(setting: Setting) -> list[ContextualBandit]:
    """Problems with random overlap, difficulty and spread."""
    problems = []
    for i in range(setting.problems):
        draw = np.random.default_rng(i)
        overlap, difficulty, spread = draw.uniform(), draw.uniform(*setting.difficulty), draw.uniform(*setting.spread)
        problems.append(contextual(setting.contexts, setting.arms, overlap, 0.0, difficulty, spread, seed=1000 + i))
    return problems


def planned(setting: Setting, part: Setting, draws: int) -> list[ContextualBandit]:
    """Problems of every draw of difficulties under every condition (overlap, conflict), draw by draw."""
    same = {"difficulty": part.difficulty, "spread": part.spread, "high": part.high, "low": part.low}
    pairs = list(zip(part.overlap, part.conflict, strict=True))
    size = (setting.contexts, setting.arms)
    return [contextual(*size, *pair, seed=2000 + draw, **same) for draw in range(draws) for pair in pairs]


def clock(setting: Setting) -> np.ndarray:
    """Observed steps [T]."""
    return np.arange(0, setting.steps, setting.every, dtype=float)


def gain(setting: Setting, plain: np.ndarray, normalised: np.ndarray) -> np.ndarray:
    """Time to the target of the plain curve [T] over that of the normalised one."""
    slow, fast = (crossing(clock(setting), curve, setting.target) for curve in (plain, normalised))
    return np.divide(slow, fast)


def mean_std(setting: Setting, success: np.ndarray) -> float:
    """Within-prompt std, averaged over prompts and the steps to the target. success: [S, T, X]."""
    last = crossing(clock(setting), success.mean(-1).mean(0), setting.target)
    count = max(int(np.nan_to_num(last, nan=0.0) // setting.every), 1)
    return float(np.mean(np.sqrt(success * (1 - success))[:, :count]))


def stages(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Ends [M + 1] and middles [M] of the stages as shares of the way."""
    ends = np.linspace(0.02, 1, setting.stages.bins + 1)
    return ends, (ends[1:] + ends[:-1]) / 2


def speed_ratio(setting: Setting, plain: np.ndarray, normalised: np.ndarray) -> np.ndarray:
    """Time of the plain curve [T] over that of the normalised one in each stage [M]."""
    levels = plain[0] + (setting.stages.last - plain[0]) * stages(setting)[0]
    return time_ratios(clock(setting), plain, normalised, levels)


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Gains and speed ratios from the mean flow; curvature in closed form."""
    alone = np.array([_flows(setting, problem) for problem in random_problems(setting)])
    axes = {"overlap": setting.stages.overlap, "stage": stages(setting)[1]}
    staged = planned(setting, setting.stages, setting.stage_draws)
    ratios = [speed_ratio(setting, *_flows(setting, problem).mean(-1)) for problem in staged]
    columns = {
        "gain": ("problem", [gain(setting, *flows.mean(-1)) for flows in alone], "1"),
        "mean_std": ("problem", [mean_std(setting, flows[1:]) for flows in alone], "reward"),
        "speed_ratio": (tuple(axes), np.reshape(ratios, (-1, *map(len, axes.values()))).mean(0), "1"),
        "curvature_constant": ((), 1 + 1 / (setting.arms - 1), "per logit^2"),
    }
    return labelled(columns, axes)


def _flows(setting: Setting, problem: ContextualBandit) -> np.ndarray:
    """Success [2, T, X] with mean-only and standardised advantages; all prompts have equal shares of the groups."""
    prompts = evenly_trained(problem.reference_log_policy, problem.features, problem.law.means)
    laws = [theory.GroupLaw(name, setting.group_size) for name in NAMES.values()]
    return np.array([contextual_curve(setting.learning_rate * clock(setting), prompts, law) for law in laws])


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Gains, speed ratios, reward at equal budget, curvature."""
    parts = [lab.keep(f"power {power}", partial(_runs, setting, power)) for power in setting.powers]
    runs = xarray.concat(parts, xarray.DataArray(setting.powers, dims="power", name="power"))
    curvature = lab.keep("curvature", lambda: _curvature(setting))
    return xarray.merge([_gains(setting, runs), _stages(setting, runs), _fair(setting, runs), curvature])


def _all_problems(setting: Setting) -> tuple[Any, Hyper]:
    """Every problem that is run, stacked, and its learning rate: random ones, stages, comparison at equal budget."""
    alone = [*random_problems(setting), *planned(setting, setting.stages, setting.stage_draws)]
    compared, rates = planned(setting, setting.fair, setting.fair_draws), setting.fair.rates
    problems = alone + [problem for problem in compared for _ in rates]
    learning_rate = np.array([setting.learning_rate] * len(alone) + list(rates) * len(compared), float)
    return stack_bandits(problems), Hyper(learning_rate, 0.0, 1, 0.0)


def _runs(setting: Setting, power: float) -> xarray.Dataset:
    """Success of every prompt and mean |cosine| of prompt gradients along all runs of one advantage."""
    problems, hyper = _all_problems(setting)
    rule = ADVANTAGES[NAMES[power]]() if power in NAMES else ADVANTAGES["tempered"](power)
    learner = Learner(problems, rule, group_size=setting.group_size, prompts=setting.contexts)
    options: dict[str, Any] = {"times": len(clock(setting)), "every": setting.every, "seeds": setting.seeds}
    success, cosine = observe(learner, "sampled", hyper, success_and_cosine, problems, **options)
    value = {"success": (("run", "seed", "step", "prompt"), success.astype(np.float32))}
    return xarray.Dataset(value | {"cosine": (("run", "seed", "step"), cosine.astype(np.float32))})


def _gains(setting: Setting, runs: xarray.Dataset) -> xarray.Dataset:
    """Gain in time to the target with its standard error (jackknife over seeds), and the average std."""
    success = runs.success.isel(run=slice(0, setting.problems)).sel(power=[0.0, 1.0]).values.astype(float)
    pairs = list(zip(*success.mean(-1), strict=True))  # both curves [S, T] of every problem
    columns = {
        "gain": ("problem", [gain(setting, plain.mean(0), normalised.mean(0)) for plain, normalised in pairs], "1"),
        "gain_error": ("problem", [jackknife(partial(gain, setting), *pair).error for pair in pairs], "1"),
        "mean_std": ("problem", [mean_std(setting, one) for one in success[1]], "reward"),
    }
    return labelled(columns)


def _stages(setting: Setting, runs: xarray.Dataset) -> xarray.Dataset:
    """Speed ratio by stage, mean over draws with standard error; orthogonality and std there in the normalised runs."""
    axes, draws = {"overlap": setting.stages.overlap, "stage": stages(setting)[1]}, setting.stage_draws
    count = draws * len(axes["overlap"])
    part = runs.isel(run=slice(setting.problems, setting.problems + count)).sel(power=[0.0, 1.0]).astype(float)
    curves = part.success.mean(("seed", "prompt")).transpose("run", "power", "step").values
    std = np.sqrt(part.success * (1 - part.success)).mean(("seed", "prompt")).sel(power=1.0).values
    cosine = part.cosine.mean("seed").sel(power=1.0).values
    seen = []
    for i, (plain, normalised) in enumerate(curves):
        levels = plain[0] + (setting.stages.last - plain[0]) * axes["stage"]
        along = [np.interp(levels, normalised, quantity[i]) for quantity in (cosine, std)]
        seen.append([speed_ratio(setting, plain, normalised), *along])
    table = np.moveaxis(np.reshape(seen, (draws, len(axes["overlap"]), 3, -1)), 2, 0)  # [3, draw, overlap, stage]
    ratio, orthogonality, std = table.mean(1)
    columns = {
        "speed_ratio": (tuple(axes), ratio, "1"),
        "stage_cosine": (tuple(axes), orthogonality, "1"),
        "stage_std": (tuple(axes), std, "reward"),
        "speed_ratio_error": (tuple(axes), table[0].std(0) / np.sqrt(max(draws - 1, 1)), "1"),
    }
    return labelled(columns, axes)


def _fair(setting: Setting, runs: xarray.Dataset) -> xarray.Dataset:
    """Reward at the end of the budget [condition, power, rate]; the power that our rule chooses; what each power gains
    over the first at each one's best learning rate, with its standard error over draws and seeds."""
    part, powers = setting.fair, np.array(setting.powers)
    shape = (setting.fair_draws, len(part.overlap), len(part.rates))
    last = slice(-int(np.prod(shape)), None)
    end = runs.isel(run=last, step=part.steps // setting.every)
    values = end.success.mean("prompt").transpose("run", "power", "seed").values.astype(float)
    values = values.reshape(*shape, len(powers), -1).transpose(1, 3, 2, 0, 4)  # [condition, power, rate, draw, seed]
    best, over_plain = at_own_best(values.reshape(*values.shape[:3], -1))
    start = runs.cosine.isel(step=0, seed=0, power=0, run=last).values.reshape(shape)[..., 0].mean(0)
    chosen = powers[np.argmin(np.abs(powers - (1 - start)[:, None]), axis=1)]
    columns = {
        "final": (("condition", "power", "rate"), values.mean((-2, -1)), "reward"),
        "best": (("condition", "power"), best, "reward"),
        "over_plain": (("condition", "power"), over_plain.value, "reward"),
        "over_plain_error": (("condition", "power"), over_plain.error, "reward"),
        "rule_power": ("condition", chosen, "1"),
        "start_cosine": ("condition", start, "1"),
    }
    return labelled(columns, {"power": powers, "rate": part.rates})


def _curvature(setting: Setting) -> xarray.Dataset:
    """Second derivative of each prompt's success along its own gradient, at policies that training passes through."""
    problem = planned(setting, setting.stages, 1)[0]
    success, second, bound = curvature_during_training(problem, setting.learning_rate, times=8, every=20)
    unit = "reward per logit^2"
    columns = {"curvature": (second, unit), "curvature_bound": (bound, unit), "success": (success, "reward")}
    return labelled({name: ("point", *column) for name, column in columns.items()})


# Numbers that the claims compare.


def gain_times_std(results: Results) -> np.ndarray:
    """Mean of measured gain x std in each quarter of the problems, sorted by their std [4]."""
    std = results.predicted.mean_std.values
    return np.array(
        [np.mean((results.measured.gain.values * std)[part]) for part in np.array_split(np.argsort(std), 4)]
    )


def curvature_constant(results: Results) -> float:
    """Curvature over J (1-J)(1-2J), the one farthest from the prediction; near J = 1/2 both vanish."""
    success = results.measured.success
    shape = (success * (1 - success) * (1 - 2 * success)).where(abs(success - 0.5) > 0.02)
    predicted = float(results.predicted.curvature_constant)
    return predicted * farthest_from_one(results.measured.curvature, shape * predicted)


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    prompts = f"{setting.contexts} prompts of {setting.arms} arms"
    drift = f"groups of {setting.group_size}"
    return sheet.trained(prompts, "GRPO with and without std", "SGD, on-policy", kl_weight=0, drift=drift)


def draw(figure: Figure, results: Results) -> None:
    """Gains, speed by stage, equal budget."""
    a, b, c, d = sheet.panels(figure, 4, height=7.6)
    predicted, measured = results.predicted, results.measured
    ends = np.array([2.0, float(np.nanmax(measured.gain)) + 0.1])
    a.plot(ends, ends, **s.EXACT | {"color": s.BLACK})
    named = (predicted.gain, "mean flow", s.BLUE, "o"), (1 / measured.mean_std, "\u2717 1/mean std", s.VERMILION, "s")
    for i, (x, name, color, marker) in enumerate(named):
        points: s.Look = {"fmt": marker, "color": color, "markersize": 2.5, "elinewidth": 0.6}
        a.errorbar(x, measured.gain, measured.gain_error, **points)
        sheet.note(a, 0.97, 0.16 - 0.12 * i, name, color=color, ha="right")
    a.set(xlabel="predicted gain", ylabel="gain: time without\n/ time with std")
    a.set_title("The mean flow predicts the gain, 1/std does not")
    _draw_stages(b, predicted, measured)
    _draw_budget(c, results, 0)
    _draw_budget(d, results, -1)


def _draw_stages(panel: Axes, predicted: xarray.Dataset, measured: xarray.Dataset) -> None:
    for i, (color, marker) in enumerate(((s.BLUE, "o"), (s.GREEN, "^"), (s.VERMILION, "s"))):
        seen, line = measured.isel(overlap=i), predicted.isel(overlap=i)
        panel.plot(line.stage, line.speed_ratio, color=color)
        look: dict[str, Any] = {"color": color, "marker": marker, "markersize": 3, "markerfacecolor": "white"}
        panel.errorbar(seen.stage, seen.speed_ratio, seen.speed_ratio_error, linestyle="none", elinewidth=0.6, **look)
        sheet.note(panel, 0.02, 1.0 - 0.12 * i, f"overlap {float(seen.overlap):g}", color=color, va="top")
    panel.axhline(2.0, **s.LAW | {"linewidth": 0.8})
    sheet.note(panel, 0.03, 0.02, "dashed: 1/largest std")
    panel.set(ylim=(1.5, None), xlabel="share of the way to 90 %", ylabel="speed with / without std")
    panel.set_title("Overlapping prompts lose the gain in the middle")


def _draw_budget(panel: Axes, results: Results, condition: int) -> None:
    looks = {0.0: (s.BLACK, "o", "mean only"), 0.5: (s.GREEN, "^", r"/ std$^{1/2}$"), 1.0: (s.BLUE, "s", "/ std")}
    fair, powers = results.setting.fair, list(results.measured.power.values)
    for i, power in enumerate(powers):
        color, marker, name = looks[float(power)]
        curve = results.measured.final.sel(power=power).isel(condition=condition)
        panel.plot(curve.rate, curve, "-", marker=marker, color=color, markersize=2.8, linewidth=1)
        sheet.note(panel, 0.5, 0.04 + 0.12 * i, name, color=color, ha="center")
    where = "Orthogonal prompts" if condition == 0 else f"Overlap {fair.overlap[condition]:g}, conflict"
    panel.set_title(f"{where}: equal at the best rates")
    panel.set(xscale="log", xlabel="learning rate [logits / unit gradient]", ylabel="reward, equal budget")
    sheet.ticks_at(panel.xaxis, results.setting.fair.rates)


# Table below the claims.


def table(results: Results) -> str:
    """Correlations and slopes, and the comparison at equal budget."""
    predicted, measured, fair = results.predicted, results.measured, results.setting.fair
    rows: list[tuple[str, ...]] = []
    for name, x in (("that of the mean flow", predicted.gain), ("1/average within-prompt std", 1 / measured.mean_std)):
        slope, error, correlation, spread = slope_and_correlation(x.values, measured.gain.values)
        rows.append((name, f"{slope:.3f} +- {error:.3f}", f"{correlation:.3f} +- {spread:.3f}", f"{x.size}"))
    lines = claims.grid(("gain in time against", "slope", "correlation", "problems"), rows)
    lines += ["", "Equal budget, each at its best learning rate: mean reward, and the difference to `dr_grpo`.", ""]
    rows = []
    for i, condition in enumerate(zip(fair.overlap, fair.conflict, strict=True)):
        row = measured.isel(condition=i)
        numbers = zip(row.best.values, row.over_plain.values, row.over_plain_error.values, strict=True)
        cells = [f"{best:.4f} ({over:+.4f} +- {error:.4f})" for best, over, error in numbers]
        rows.append((*(f"{x:g}" for x in condition), *cells, f"std^{float(row.rule_power):g}"))
    head = ("overlap", "conflict", *(f"std^{p:g}" for p in measured.power.values), "our rule takes")
    return "\n".join([*lines, *claims.grid(head, rows)])


# Claims.

FLOW = "derived in shared/theory/contextual.py"

# Tolerances: a time to the target scatters by 1 % (8 to 16 seeds), so means over problems by less, and the slope by
# about 0.05 (16 problems), 0.03 (60); a stage's ratio by 5 % per draw; the learning rate is off the flow by 1 %.
CLAIMS = (
    Claim(
        "three_phases.gain",
        "Mean gain in time to 90 % success from dividing by the std, over random problems, is that of the mean flow",
        FLOW,
        predicted=lambda f: float(f.predicted.gain.where(np.isfinite(f.measured.gain)).mean()),
        measured=lambda f: float(f.measured.gain.where(np.isfinite(f.predicted.gain)).mean()),
        tolerance=0.03,
        relative=True,
        fails_if="finite steps or noise moved the times of both rules differently",
    ),
    Claim.one(
        "three_phases.gain_slope",
        "Problem by problem: measured gain rises with the mean flow's with slope 1",
        FLOW,
        measured=lambda f: slope_and_correlation(f.predicted.gain.values, f.measured.gain.values)[0],
        tolerance=lambda f: f.setting.tolerance.slope,
        fails_if="the flow had the mean gain but not the differences between problems",
    ),
    Claim.one(
        "three_phases.gain_is_inverse_std",
        "In each quarter of the problems, sorted by their std, the gain is 1/std, the std averaged over prompts and "
        "iterations: mean of gain x std, the farthest from 1",
        "arXiv 2601.23135, read as an equality at one learning rate",
        measured=lambda f: farthest_from_one(gain_times_std(f), 1.0),
        tolerance=0.1,
        fails_if="gain x std had a trend; its mean over all problems is 1 by the choice of their difficulties",
        post_hoc="quarters were taken after the mean over all problems had hidden the trend",
        explanation="gain x std rises with the std: the gain differs less between problems than 1/std",
    ),
    Claim.one(
        "three_phases.gain_follows_inverse_std",
        "Problem by problem: measured gain rises with 1/std with slope 1",
        "arXiv 2601.23135, read as an equality at one learning rate",
        measured=lambda f: slope_and_correlation(1 / f.predicted.mean_std.values, f.measured.gain.values)[0],
        tolerance=lambda f: f.setting.tolerance.slope,
        fails_if="the gain differed less between problems than 1/std",
        post_hoc="the slope was looked at after the mean over all problems",
        explanation="correlated, but the gain differs far less between problems than 1/std; the mean flow has it",
    ),
    Claim.same(
        "three_phases.orthogonal_gain",
        "Orthogonal prompts: mean speed ratio over all stages",
        f"arXiv 2601.23135 (I, II); {FLOW}",
        lambda d: d.speed_ratio.sel(overlap=0.0).mean(),
        tolerance=lambda f: f.setting.tolerance.stage,
        relative=True,
        fails_if="noisy runs passed through the stages at other speeds than the flow",
    ),
    Claim.same(
        "three_phases.overlap_limits_gain",
        "Loss of orthogonality limits the gain: mean speed ratio at overlap 0.9",
        f"arXiv 2601.23135 (III); {FLOW}",
        lambda d: d.speed_ratio.sel(overlap=0.9).mean(),
        tolerance=lambda f: f.setting.tolerance.stage,
        relative=True,
        fails_if="overlap acted on noisy runs otherwise than on the flow",
    ),
    Claim(
        "three_phases.curvature",
        "Curvature of a prompt's success along its gradient is this times J (1-J)(1-2J)",
        FLOW,
        predicted=lambda f: float(f.predicted.curvature_constant),
        measured=curvature_constant,
        tolerance=1e-6,
        relative=True,
        unit="1/logit^2",
        fails_if="the second derivative had another form in J at one of the policies on the way",
    ),
)
