"""Measurement of experiments/real_runs.py."""

import hashlib
import os
from pathlib import Path

import numpy as np
import xarray

from bandit_lab._readings import crossing
from bandit_lab.curves.backtest import BASELINES, cut, leave_family_out
from bandit_lab.curves.fit import fit_curve
from bandit_lab.study.figures.real_runs.problem import FACTORS, LAWS, NUMBERS, ONE, SCORE, fitted_curve, read_logs
from bandit_lab.study.reproduce.experiment import Lab, Setting


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


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Fitted numbers and statistics of every run; no logged value."""
    fits = lab.keep("fits", lambda: _fits(setting, lab))
    return fits.merge(lab.keep("forecasts", lambda: _forecasts(setting))).merge(_times(setting, fits))


def _fits(setting: Setting, lab: Lab) -> xarray.Dataset:
    logs, rows = read_logs(setting), []
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
    logs = [log for log in read_logs(setting) if log.curve.step.size >= setting.backtest_points]
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
    curves = {log.name: log.curve for log in read_logs(setting)}
    place, rows, names = 0, [], []
    for code, factor in enumerate(FACTORS):
        for group in setting.one_factor[factor]:
            known = [name for name in group if name in curves]
            if len(known) < 2:
                continue
            lines = [(curves[name].step, fitted_curve(fits.sel(run=name), curves[name].step)) for name in known]
            start, end = max(line[0] for _, line in lines), min(line[-1] for _, line in lines)
            times = [crossing(step, line, 0.5 * (start + end)) - step[0] for step, line in lines]
            for name, time in zip(known, times, strict=True):
                rows.append([code, place, group[name] / group[known[0]], time, time / times[0]])
                names.append(f"{place}: {name}")
            place += 1
    labels = ("factor_code", "group", "factor_ratio", "time", "time_ratio")
    units = (ONE, ONE, ONE, {"units": "logged steps"}, ONE)
    columns = np.array(rows, float).reshape(-1, len(labels)).T
    values = {f"{k}": (("member",), c, u) for k, c, u in zip(labels, columns, units, strict=True)}
    return xarray.Dataset(values, {"member": names})
