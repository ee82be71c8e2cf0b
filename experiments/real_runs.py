"""Which law do real reward curves follow, and does any of them need inertia?

Prediction (written before the run). If no run had inertia that can be seen, the oscillator would still beat every law
without inertia by more than 4 AICc in at most 5 % of them (what noise does to monotone curves). With Adam an update
moves the parameters by eta: times go as 1/eta, in rollout cycles as 1/K_ref, and to leading order not with G (arXiv
2606.30789; shared/theory/size_family.py).
Setting: experiments/real_runs.yaml. Measured: the five laws of grpo_clinic.readers on every run of the index, the
step at which the chosen law's curve passes a level that all runs of a family pass, half-way up. Drawn: the laws chosen;
AICc of the softmax law against the oscillator; times where runs differ in one factor.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from grpo_clinic.fitting import SHAPES, fit_curve
from grpo_clinic.logs.gather import Log, gather
from grpo_clinic.logs.settings import FitSettings
from grpo_clinic.readers import Curve
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce import claims
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import crossing
from experiments.shared import public_logs, sheet
from experiments.shared.readings import slope_within

TITLE = "Real runs and their laws"
FINDING = "{inertia_not_needed:.0%} of public runs need no inertia"

# What prediction and measurement are both told.

LAWS = ("oscillator", "softmax_law", "single_exponential", "sigmoid", "constant")
NAMES = ("oscillator", "softmax", "exponential", "sigmoid", "constant")
NUMBERS = ("plateau", "amplitude", "delay", "damping_ratio", "start", "speed", "sigma", "rho")
FACTORS = {"learning_rate": -1.0, "refresh_interval": -1.0, "group_size": 0.0}
ONE, SCORE = {"units": "1"}, {"units": "nats, times 2"}


@lru_cache(maxsize=1)
def _all_logs() -> tuple[tuple[Log, Curve], ...]:
    index = str(Path(os.environ["BANDIT_LAB_LOGS"]) / "index.csv")
    logs = gather(FitSettings(logs_index=index))
    return tuple((log, log.curve) for log in logs if log.curve is not None)


def read_logs(setting: Setting) -> list[tuple[Log, Curve]]:
    """Logs that have a reward curve which is short enough, with that curve."""
    return [(log, curve) for log, curve in _all_logs() if curve.step.size <= setting.longest]


def fitted_curve(fit: xarray.Dataset, step: np.ndarray) -> np.ndarray:
    """The chosen law's curve of one run at its steps."""
    value = dict(zip(NUMBERS, fit.fitted.values, strict=True))
    law = LAWS[int(fit.chosen)]
    if law == "constant":
        return np.full(step.size, value["plateau"])
    if law == "oscillator":
        theta = [np.log(value["delay"] * (1 + 0.5 / value["damping_ratio"])), np.log(value["damping_ratio"])]
    else:
        theta = [np.log(value["delay"])] if law == "single_exponential" else [value["start"], np.log(value["speed"])]
    return value["plateau"] + value["amplitude"] * (SHAPES[law].growth(step - step[0], np.array([theta])) - 1)


def softmax_gain(results: Results) -> xarray.DataArray:
    return results.measured.aicc.sel(law="oscillator") - results.measured.aicc.sel(law="softmax_law")


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """What is expected where no run has inertia that can be seen, and how times scale."""
    values = {
        "without_inertia": ((), 0.95, ONE | {"long_name": "share of runs that need no inertia"}),
        "exponent": (("factor",), np.array(list(FACTORS.values())), ONE),
    }
    return xarray.Dataset(values, {"factor": list(FACTORS)})


# Measurement: simulation alone.


unsupported_reason, inputs = public_logs.unsupported_reason, public_logs.inputs


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Fitted numbers and statistics of every run; no logged value."""
    fits = lab.keep("fits", lambda: _fits(setting, lab))
    return fits.merge(_times(setting, fits))


def _fits(setting: Setting, lab: Lab) -> xarray.Dataset:
    logs, rows = read_logs(setting), []
    for done, (_, curve) in enumerate(logs):
        fit = fit_curve(curve.step, curve.reward, LAWS)
        chosen = fit.best.parameters
        numbers = [chosen[name].value if name in chosen else np.nan for name in NUMBERS]
        per_law = [[fit.laws[law].aicc for law in LAWS], [fit.laws[law].r_squared for law in LAWS]]
        explained = fit.best.r_squared_explainable
        rows.append((*per_law, numbers, LAWS.index(fit.best.law), explained, fit.n_points, fit.best.status == "ok"))
        lab.progress(done + 1, len(logs))
    columns = [np.array(column, float) for column in zip(*rows, strict=True)]
    values = {
        "aicc": (("run", "law"), columns[0], SCORE),
        "r_squared": (("run", "law"), columns[1], ONE),
        "fitted": (("run", "parameter"), columns[2], {"units": "as the fit names them: reward, steps, 1/step, 1"}),
        "chosen": (("run",), columns[3], ONE | {"long_name": "place of the chosen law in `law`"}),
        "r_squared_explainable": (("run",), columns[4], ONE),
        "points": (("run",), columns[5], ONE),
        "identified": (("run",), columns[6], ONE | {"long_name": "1 if every parameter is identified"}),
    }
    return xarray.Dataset(values, {"run": [log.name for log, _ in logs], "law": list(LAWS), "parameter": list(NUMBERS)})


def _times(setting: Setting, fits: xarray.Dataset) -> xarray.Dataset:
    """Steps to a common level, by group of runs that differ in one factor, over the group's first run."""
    curves = {log.name: curve for log, curve in read_logs(setting)}
    place, rows, names = 0, [], []
    for code, factor in enumerate(FACTORS):
        for group in setting.one_factor[factor]:
            with_curve = [name for name in group if name in curves]
            if len(with_curve) < 2:
                continue
            lines = [(curves[name].step, fitted_curve(fits.sel(run=name), curves[name].step)) for name in with_curve]
            start, end = max(line[0] for _, line in lines), min(line[-1] for _, line in lines)
            times = [crossing(step, line, 0.5 * (start + end)) - step[0] for step, line in lines]
            for name, time in zip(with_curve, times, strict=True):
                rows.append([code, place, group[name] / group[with_curve[0]], time, time / times[0]])
                names.append(f"{place}: {name}")
            place += 1
    labels = ("factor_code", "group", "factor_ratio", "time", "time_ratio")
    units = (ONE, ONE, ONE, {"units": "logged steps"}, ONE)
    columns = np.array(rows, float).reshape(-1, len(labels)).T
    values = {f"{k}": (("member",), c, u) for k, c, u in zip(labels, columns, units, strict=True)}
    return xarray.Dataset(values, {"member": names})


# Numbers that the claims compare.


def needs_no_inertia(f: Results) -> float:
    """Share of runs in which the oscillator is not clearly better than every law without inertia."""
    others = f.measured.aicc.sel(law=list(LAWS[1:])).min("law")
    return float((others - f.measured.aicc.sel(law="oscillator") <= f.setting.margin).mean())


def exponent(f: Results, code: int) -> float:
    """Slope of log time against log factor with a level per group (least squares)."""
    m = f.measured
    here = (m.factor_code.values == code) & np.isfinite(m.time.values)
    return slope_within(m.group.values[here], np.log(m.factor_ratio.values[here]), np.log(m.time.values[here]))


# Picture.

SHADES = (s.VERMILION, s.BLUE, s.GREEN, s.PURPLE, s.GREY)
MARKS, DASHES = ("o", "s", "^", "D", "v"), ("-", "--")


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return "public training logs of the index; nothing is simulated"


def draw(figure: Figure, results: Results) -> None:
    """Laws chosen, differences of AICc, times."""
    parts = (_laws, _differences, _factors)
    sheet.fill(figure, results, parts, height=5.9, across=1, sizes=(0.8, 1, 1.2))


def _laws(panel: Axes, results: Results) -> None:
    counts = [int((results.measured.chosen == place).sum()) for place in range(len(LAWS))]
    panel.barh(range(len(LAWS)), counts, color=SHADES, height=0.7)
    for place, count in enumerate(counts):
        panel.text(count + 0.4, place, str(count), va="center", fontsize=7)
    panel.set_yticks(range(len(LAWS)), NAMES)
    panel.set(xlabel="runs", ylim=(len(LAWS) - 0.5, -0.5), title=f"law chosen, of {sum(counts)} runs")


def _differences(panel: Axes, results: Results) -> None:
    values, margin = np.sort(softmax_gain(results).values), results.setting.margin
    shade = np.where(values > margin, s.BLUE, np.where(values < -margin, s.VERMILION, s.GREY))
    panel.bar(np.arange(values.size), np.clip(values, -30, 30), color=shade, width=1.0)
    panel.axhline(0, color=s.BLACK, linewidth=0.6)
    panel.set(xlabel="runs, sorted", ylabel="AICc, oscillator less softmax", ylim=(-31, 42))
    panel.set_title("inertia is seldom worth its parameter")
    won, lost = int((values > margin).sum()), int((values < -margin).sum())
    panel.text(0, 32, f"softmax better by > {margin:g}: {won}", color=s.BLUE, fontsize=7)
    panel.text(values.size, -27, f"oscillator: {lost}", color=s.VERMILION, fontsize=7, ha="right")


def _factors(panel: Axes, results: Results) -> None:
    m = results.measured
    span = np.array([0.9, 4.6])
    panel.plot(span, 1 / span, **s.LAW)
    panel.axhline(1.0, **(s.LAW | {"linewidth": 0.8}))
    sheet.note(panel, 0.98, 0.84, "dashed: predicted", ha="right")
    names = ("learning rate", "updates per cycle", "group size")
    for code, (name, shade) in enumerate(zip(names, (s.BLUE, s.VERMILION, s.GREEN), strict=True)):
        for place, group in enumerate(np.unique(m.group.values[m.factor_code.values == code])):
            here = m.group.values == group
            origin = str(m.member.values[here][0]).partition(": ")[2].partition(".")[0]
            order = np.argsort(m.factor_ratio.values[here])
            x, y = m.factor_ratio.values[here][order], m.time_ratio.values[here][order]
            look: dict[str, Any] = {"color": shade, "markerfacecolor": "white", "markersize": 4.5, "linewidth": 0.9}
            panel.plot(x, y, DASHES[place], marker=MARKS[int(group)], **look, label=f"{name} ({origin})")
    panel.set(xscale="log", yscale="log", xlim=span, ylim=(0.006, 1.3))
    panel.set(xlabel="factor / that of the first run", ylabel="time to a level / first run's")
    panel.set_title(f"time ~ (learning rate)$^{{{exponent(results, 0):.1f}}}$")
    sheet.ticks_at(panel.xaxis, (1, 2, 4))
    sheet.ticks_at(panel.yaxis, (0.1, 0.25, 0.5, 1))
    panel.legend(fontsize=sheet.SMALLEST_TEXT, loc="lower left", handlelength=2.4)


# Table below the claims.


def table(results: Results) -> str:
    """Which law is chosen, and by how much."""
    m, margin = results.measured, results.setting.margin
    head = ("law", "chosen in", "clearly better than every other (AICc > 4)", "median R^2")
    rows = []
    for place, name in enumerate(NAMES):
        mine = m.aicc[:, place]
        others = m.aicc.isel(law=[i for i in range(len(LAWS)) if i != place]).min("law")
        clear, chosen = int((others - mine > margin).sum()), int((m.chosen == place).sum())
        middle = float(m.r_squared[:, place].median())
        rows.append((name, f"{chosen} of {m.sizes['run']}", f"{clear}", f"{middle:.2f}"))
    difference = softmax_gain(results)
    softmax, oscillator = int((difference > margin).sum()), int((difference < -margin).sum())
    comparison = f"Softmax law against oscillator: clearly better in {softmax} runs, clearly worse in {oscillator}, "
    comparison += f"median difference of AICc {float(difference.median()):.1f}."
    return "\n".join([*claims.grid(head, rows), "", comparison])


# Claims.

SOURCE = "arXiv 2606.30789"
CLAIMS = (
    # two standard errors of a share of 0.05 in 64 runs
    Claim(
        "real_runs.inertia_not_needed",
        "Share of runs in which the oscillator does not beat every law without inertia by more than 4 AICc",
        "statement on inertia: arXiv 2606.30789; grpo_clinic (fit)",
        predicted=lambda f: float(f.predicted.without_inertia),
        measured=needs_no_inertia,
        tolerance=0.05,
        fails_if="the oscillator were clearly better in seven runs or more",
        constant="the false alarms of the comparison on monotone curves",
    ),
    # times of single runs repeat to some 25 %
    Claim(
        "real_runs.time_by_learning_rate",
        "Exponent of the time to a common level in the learning rate",
        SOURCE,
        predicted=lambda f: float(f.predicted.exponent[0]),
        measured=lambda f: exponent(f, 0),
        tolerance=lambda f: f.setting.tolerance.exponent,
        fails_if="times did not go as the inverse learning rate; five runs of two origins decide",
        constant="the normalised step of Adam",
        explanation="Few runs, one seed each; from 1e-5 to 1.5e-5 one family speeds up threefold: no power law there.",
    ),
    Claim(
        "real_runs.time_by_refresh_interval",
        "Exponent of the time in rollout cycles in the updates per cycle",
        SOURCE,
        predicted=lambda f: float(f.predicted.exponent[1]),
        measured=lambda f: exponent(f, 1),
        tolerance=lambda f: f.setting.tolerance.exponent,
        fails_if="updates on one batch moved less than updates on fresh ones; five runs of two origins decide",
        constant="the normalised step of Adam",
        explanation="Updates on one batch move less than updates on fresh ones (clipping, smaller minibatches).",
    ),
)
