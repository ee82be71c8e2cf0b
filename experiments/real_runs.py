"""Which law do real reward curves follow, does any of them need inertia, and do forecasts cover?

Prediction (written before the run). If no run had inertia that can be seen, the oscillator would still beat every law
without inertia by more than 4 AICc in at most 5 % of them (what noise does to monotone curves). Intervals of 90 % from
the first half cover 90 %. With Adam an update moves the parameters by eta: times go as 1/eta, in rollout cycles as
1/K_ref, and to leading order not with G (arXiv 2606.30789; bandit_lab/theory/size_family.py).
Setting: conf/experiment/real_runs.yaml. Measured: the five laws of bandit_lab.curves on every run of the index, the
forecasts of bandit_lab.curves.backtest with their drift chosen on other families, and the step at which the chosen
law's curve passes a level that all runs of a family pass, half-way up. Drawn: every run with its law (points from the
logs, which are in no file here); AICc of the softmax law against the oscillator; times where runs differ in one factor.
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import xarray

from bandit_lab.curves.backtest import BASELINES, cut, leave_family_out
from bandit_lab.curves.fit import SHAPES, fit_curve
from bandit_lab.study.fit.logs import Log, gather
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Claim, Found, Lab, Setting

TITLE = "Real runs and their laws"
LAWS = ("oscillator", "softmax_law", "single_exponential", "sigmoid", "constant")
NAMES = ("oscillator", "softmax", "exponential", "sigmoid", "constant")
SHADES = (s.VERMILION, s.BLUE, s.GREEN, s.PURPLE, s.GREY)
NUMBERS = ("plateau", "amplitude", "delay", "damping_ratio", "start", "speed", "sigma", "rho")
FACTORS = {"learning_rate": -1.0, "refresh_interval": -1.0, "group_size": 0.0}
ONE, SCORE = {"units": "1"}, {"units": "nats, times 2"}
MARKS = ("o", "s", "^", "D", "v")


def why_not(setting: Setting) -> str | None:
    """The reason where there are no logs."""
    folder = os.environ.get("BANDIT_LAB_LOGS", "")
    if folder and (Path(folder) / "index.csv").is_file():
        return None
    return "BANDIT_LAB_LOGS does not name a folder with index.csv and its logs"


def inputs(setting: Setting) -> str:
    """Hash of all logs."""
    folder, content = Path(os.environ["BANDIT_LAB_LOGS"]), hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def predict(setting: Setting) -> xarray.Dataset:
    """What is expected where no run has inertia that can be seen, and how times scale."""
    values = {
        "without_inertia": ((), 0.95, ONE | {"long_name": "share of runs that need no inertia"}),
        "coverage": ((), 0.9, ONE),
        "not_refused": ((), 1.0, ONE),
        "error_over_best_baseline": ((), 1.0, ONE),
        "exponent": (("factor",), np.array(list(FACTORS.values())), ONE),
        "ratio_by_group": ((), 1.0, ONE),
    }
    return xarray.Dataset(values, {"factor": list(FACTORS)})


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Fitted numbers and statistics of every run; no logged value."""
    fits = lab.keep("fits", lambda: _fits(setting, lab))
    return fits.merge(lab.keep("forecasts", lambda: _forecasts(setting))).merge(_times(setting, fits))


@lru_cache(maxsize=1)
def _all_logs() -> tuple[Log, ...]:
    index = str(Path(os.environ["BANDIT_LAB_LOGS"]) / "index.csv")
    return tuple(gather(FitSettings(logs_index=index), lambda done, total: None))


def _logs(setting: Setting) -> list[Log]:
    return [log for log in _all_logs() if log.curve is not None and log.curve.step.size <= setting.longest]


def _fits(setting: Setting, lab: Lab) -> xarray.Dataset:
    logs, rows = _logs(setting), []
    for done, log in enumerate(logs):
        fit = fit_curve(log.curve, LAWS)
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
    return xarray.Dataset(values, {"run": [log.name for log in logs], "law": list(LAWS), "parameter": list(NUMBERS)})


def _forecasts(setting: Setting) -> xarray.Dataset:
    """Forecasts from the first part of the longer runs against what came; errors over the range seen."""
    logs = [log for log in _logs(setting) if log.curve.step.size >= setting.backtest_points]
    cuts = [cut(log.name, log.curve.step, log.curve.reward, setting.fraction, log.family) for log in logs]
    rows = []
    for one, (test, _) in zip(cuts, leave_family_out(cuts), strict=True):
        seen = one.outlook.seen if one.outlook is not None else np.nan
        errors = [abs(test.error), *(abs(test.baselines[name]) for name in BASELINES)]
        rows.append([float(bool(test.forecast.refused)), float(test.covered), *(np.array(errors) / seen)])
    table = np.array(rows, float)
    values = {
        "refused": (("forecast_run",), table[:, 0], ONE),
        "covered": (("forecast_run",), table[:, 1], ONE),
        "error": (("forecast_run", "method"), table[:, 2:], ONE | {"long_name": "absolute error over the range seen"}),
    }
    return xarray.Dataset(values, {"forecast_run": [log.name for log in logs], "method": ["laws", *BASELINES]})


def _times(setting: Setting, fits: xarray.Dataset) -> xarray.Dataset:
    """Steps to a common level, by group of runs that differ in one factor, over the group's first run."""
    curves = {log.name: log.curve for log in _logs(setting)}
    place, rows, names = 0, [], []
    for code, factor in enumerate(FACTORS):
        for group in setting.one_factor[factor]:
            known = [name for name in group if name in curves]
            if len(known) < 2:
                continue
            lines = [(curves[name].step, _line(fits.sel(run=name), curves[name].step)) for name in known]
            start, end = max(line[0] for _, line in lines), min(line[-1] for _, line in lines)
            times = [_first(step, line, 0.5 * (start + end)) for step, line in lines]
            for name, time in zip(known, times, strict=True):
                rows.append([code, place, group[name] / group[known[0]], time, time / times[0]])
                names.append(f"{place}: {name}")
            place += 1
    labels = ("factor_code", "group", "factor_ratio", "time", "time_ratio")
    units = (ONE, ONE, ONE, {"units": "logged steps"}, ONE)
    columns = np.array(rows, float).reshape(-1, len(labels)).T
    values = {f"{k}": (("member",), c, u) for k, c, u in zip(labels, columns, units, strict=True)}
    return xarray.Dataset(values, {"member": names})


def _line(fit: xarray.Dataset, step: np.ndarray) -> np.ndarray:
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


def _first(step: np.ndarray, line: np.ndarray, level: float) -> float:
    """Steps from the first logged one until the line first passes the level."""
    past = np.flatnonzero(line >= level)
    if not past.size or past[0] == 0:
        return np.nan
    i = past[0]
    return float(np.interp(level, line[i - 1 : i + 1], step[i - 1 : i + 1]) - step[0])


def draw(figure, found: Found, wide: bool) -> None:
    """Small multiples above, differences of AICc and times below."""
    figure.set_figheight(6.4)
    head, top, bottom = figure.subfigures(3, 1, height_ratios=(0.07, 2.2, 1))
    for place, (name, shade) in zip((0.01, 0.23, 0.42, 0.67, 0.84), zip(NAMES, SHADES, strict=True), strict=True):
        count = int((found.measured.chosen == NAMES.index(name)).sum())
        head.text(place, 0.5, f"{name} {count}", color=shade, fontsize=6.5, va="center")
    _multiples(top, found, 13 if wide else 8)
    left, right = bottom.subplots(1, 2)
    _differences(left, found)
    _factors(right, found)


def _multiples(part, found: Found, columns: int) -> None:
    logs = _logs(found.setting)
    axes = part.subplots(-(-len(logs) // columns), columns, squeeze=False)
    for panel in axes.flat:
        panel.set(xticks=[], yticks=[])
        panel.set_visible(False)
    order = sorted(logs, key=lambda log: (int(found.measured.chosen.sel(run=log.name)), log.name))
    for panel, log in zip(axes.flat, order, strict=False):
        fit = found.measured.sel(run=log.name)
        panel.set_visible(True)
        panel.plot(log.curve.step, log.curve.reward, ".", color="#B0B0B0", markersize=1.3, markeredgewidth=0)
        panel.plot(log.curve.step, _line(fit, log.curve.step), color=SHADES[int(fit.chosen)], linewidth=1.1)
        panel.spines[:].set_linewidth(0.4)


def _difference(found: Found) -> xarray.DataArray:
    return found.measured.aicc.sel(law="oscillator") - found.measured.aicc.sel(law="softmax_law")


def _differences(panel, found: Found) -> None:
    values = np.sort(_difference(found).values)
    shade = np.where(values > 4, s.BLUE, np.where(values < -4, s.VERMILION, s.GREY))
    panel.bar(np.arange(values.size), np.clip(values, -30, 30), color=shade, width=1.0)
    panel.axhline(0, color=s.BLACK, linewidth=0.6)
    panel.set(xlabel="runs, sorted", ylabel="AICc, oscillator less softmax", ylim=(-31, 42))
    panel.text(0, 35, f"by > 4: softmax {int((values > 4).sum())}", color=s.BLUE, fontsize=6.5)
    text = f"by > 4: oscillator {int((values < -4).sum())}"
    panel.text(values.size, -28, text, color=s.VERMILION, fontsize=6.5, ha="right")


def _factors(panel, found: Found) -> None:
    m = found.measured
    span = np.array([0.5, 4.5])
    panel.plot(span, 1 / span, **s.LAW)
    panel.axhline(1.0, **(s.LAW | {"linewidth": 0.8}))
    for code, (name, shade) in enumerate(
        zip((r"$\eta$", r"$K_{ref}$", "$G$"), (s.BLUE, s.VERMILION, s.GREEN), strict=True)
    ):
        for group in np.unique(m.group.values[m.factor_code.values == code]):
            here = m.group.values == group
            order = np.argsort(m.factor_ratio.values[here])
            x, y = m.factor_ratio.values[here][order], m.time_ratio.values[here][order]
            panel.plot(
                x, y, marker=MARKS[int(group)], color=shade, markerfacecolor="white", markersize=4, linewidth=0.7
            )
        panel.text(0.05, 0.26 - 0.1 * code, name, color=shade, fontsize=7, transform=panel.transAxes)
    panel.set(xscale="log", yscale="log", xlabel="factor, over first run's", ylabel="time, over first run's")
    panel.minorticks_off()
    panel.set_xticks([1, 2, 4], ["1", "2", "4"])
    panel.set_yticks([0.1, 0.25, 0.5, 1, 2], ["0.1", "0.25", "0.5", "1", "2"])
    panel.set(xlim=(0.9, 4.6), ylim=(0.06, 2.5))


def table(found: Found) -> str:
    """Which law is chosen, and by how much."""
    m, margin = found.measured, found.setting.margin
    lines = ["| law | chosen in | clearly better than every other (AICc > 4) | median R^2 |", "|---|---|---|---|"]
    for place, name in enumerate(NAMES):
        mine = m.aicc[:, place]
        others = m.aicc.isel(law=[i for i in range(len(LAWS)) if i != place]).min("law")
        clear, chosen = int((others - mine > margin).sum()), int((m.chosen == place).sum())
        lines.append(
            f"| {name} | {chosen} of {m.sizes['run']} | {clear} | {float(m.r_squared[:, place].median()):.2f} |"
        )
    difference = _difference(found)
    softmax, oscillator = int((difference > margin).sum()), int((difference < -margin).sum())
    lines += ["", f"Softmax law against oscillator: clearly better in {softmax} runs, clearly worse in {oscillator}, "]
    lines[-1] += f"median difference of AICc {float(difference.median()):.1f}."
    return "\n".join(lines)


def _needs_no_inertia(f: Found) -> float:
    others = f.measured.aicc.sel(law=list(LAWS[1:])).min("law")
    return float((others - f.measured.aicc.sel(law="oscillator") <= f.setting.margin).mean())


def _kept(f: Found) -> np.ndarray:
    return f.measured.refused.values == 0


def _coverage(f: Found) -> float:
    return float(f.measured.covered.values[_kept(f)].mean())


def _error_ratio(f: Found) -> float:
    """Median error over that of the best baseline; 1 if it is no larger."""
    medians = np.nanmedian(f.measured.error.values[_kept(f)], axis=0)
    return max(1.0, float(medians[0] / medians[1:].min()))


def _exponent(f: Found, code: int) -> float:
    """Slope of log time against log factor with a level per group (least squares)."""
    m = f.measured
    here = (m.factor_code.values == code) & np.isfinite(m.time.values)
    x, y, group = np.log(m.factor_ratio.values[here]), np.log(m.time.values[here]), m.group.values[here]
    x, y = (v - np.array([v[group == one].mean() for one in group]) for v in (x, y))
    return float(np.sum(x * y) / np.sum(x * x))


def _by_group(f: Found) -> float:
    """Time at the larger group over that at the smaller one."""
    m = f.measured
    return float(m.time_ratio.values[(m.factor_code.values == 2) & (m.factor_ratio.values > 1)][0])


SOURCE = "arXiv 2606.30789"
CLAIMS = (
    Claim(
        "real_runs.inertia_not_needed",
        "Share of runs in which the oscillator does not beat every law without inertia by more than 4 AICc",
        "statement on inertia: arXiv 2606.30789; bandit_lab/curves/fit/results.py",
        predicted=lambda f: float(f.predicted.without_inertia),
        measured=_needs_no_inertia,
        tolerance=0.05,  # two standard errors of a share of 0.05 in 64 runs
    ),
    Claim(
        "real_runs.coverage",
        "Share of runs of 60 points or more whose end lies in its 90 % interval, forecast from the first half",
        "bandit_lab/curves/forecast.py",
        predicted=lambda f: float(f.predicted.coverage),
        measured=_coverage,
        tolerance=lambda f: 1.96 * float(np.sqrt(0.09 / _kept(f).sum())),  # binomial, 95 %
    ),
    Claim(
        "real_runs.refusals",
        "Share of these runs for which a forecast is not refused",
        "bandit_lab/curves/forecast.py",
        predicted=lambda f: float(f.predicted.not_refused),
        measured=lambda f: float(_kept(f).mean()),
        tolerance=0.3,
    ),
    Claim(
        "real_runs.error",
        "Median error over that of the best of last value, exponential, sigmoid (1: no larger)",
        "bandit_lab/curves/backtest.py",
        predicted=lambda f: float(f.predicted.error_over_best_baseline),
        measured=_error_ratio,
        tolerance=0.05,
        explanation="The last level is half of the forecast, which costs accuracy on curves that still rise.",
    ),
    Claim(
        "real_runs.time_by_learning_rate",
        "Exponent of the time to a common level in the learning rate",
        SOURCE,
        predicted=lambda f: float(f.predicted.exponent[0]),
        measured=lambda f: _exponent(f, 0),
        tolerance=lambda f: f.setting.tolerance.exponent,  # times of single runs repeat to some 25 %
        explanation="Few runs, one seed each; from 1e-5 to 1.5e-5 one family speeds up threefold: no power law there.",
    ),
    Claim(
        "real_runs.time_by_refresh_interval",
        "Exponent of the time in rollout cycles in the updates per cycle",
        SOURCE,
        predicted=lambda f: float(f.predicted.exponent[1]),
        measured=lambda f: _exponent(f, 1),
        tolerance=lambda f: f.setting.tolerance.exponent,
        explanation="Updates on one batch move less than updates on fresh ones (clipping, smaller minibatches).",
    ),
    Claim(
        "real_runs.time_by_group_size",
        "Time to a common level at G = 8 over that at G = 4",
        SOURCE,
        predicted=lambda f: float(f.predicted.ratio_by_group),
        measured=_by_group,
        tolerance=lambda f: f.setting.tolerance.group,
        explanation="One pair of runs, one seed; the smaller group is slower: more silent groups, a smaller signal.",
    ),
)
