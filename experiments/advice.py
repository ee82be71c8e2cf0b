"""From one run to the next: would the advice have permitted it, and what became of it?

Prediction (written before the scoring half was looked at with this rule). A curve shows the softest mode and stability
is lost in the stiffest, so that the exact margin of a curve permits every setting that collapsed, and the law some of
them. Divided by a spread of stiffness that is calibrated on one origin, the margin permits none on all other origins,
and still permits half of the settings above the run's own that worked. Added later, when a run read at five times
the response time of its equals was permitted what collapsed: divided by the scatter of equal runs too, without a goal.
Setting: conf/experiment/advice.yaml, families of public runs in which one setting was changed. Measured: for every
ordered pair of runs of a family, what `advise` says of the first, given its settings and its log, and whether that
permits the setting of the second; what became of the second is in the index. Rivals: keep what you have, halve it, the
law's margin, the exact one. Two further families are not in the folder: of their first runs only the margins are known.
Equal runs are alike in all settings that the advice asks for, in their reward and in their prompts, and something is
permitted from each. Their readings are the short ends of the response times; of some only these are known.
Runs without a baseline are left out, since the advice says nothing of their stiffness. Drawn: by first run, what the
setting was changed by, what became of it, and what was permitted.
"""

import csv
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce import claims, sheet
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Number, Results, Setting
from bandit_lab.runs import advise, trainers
from bandit_lab.runs.advise.evidence import look
from bandit_lab.runs.advise.work import work
from bandit_lab.runs.logs.gather import Log, gather
from bandit_lab.runs.logs.settings import AdviseSettings, FitSettings
from experiments.shared import public_logs

TITLE = "What the advice permits"
FINDING = (
    "The advice forbids every setting that collapsed, and with it {not_too_strict_above:.0%} of the larger "
    "ones that worked"
)

# What prediction and measurement are both told.

METHODS = ("advice", "keep", "halve", "law", "exact")
NAMES = ("advise", "keep what you have", "halve it", "the law's margin", "the exact margin")
SPREADS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 5.0, 10.0, 15.75)
SETTINGS = ("learning_rate", "refresh_interval", "group_size")
EARLY = 0.2
METRICS = ("clip_frac", "kl", "grad_norm", "entropy")
METRIC_NAMES = ("clipped fraction", "KL", "gradient norm", "entropy")
ONE = {"units": "1"}

# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """The goals, and what theory says of the rivals."""
    values = {
        "collapsed_forbidden": ((), 1.0, ONE | {"long_name": "share of what collapsed that is forbidden"}),
        "worked_forbidden": ((), 0.5, ONE | {"long_name": "largest share of what worked that may be forbidden"}),
        "spread": ((), 1.0, ONE | {"long_name": "largest spread that the data may ask for, over the one used"}),
        "scatter": ((), 1.0, ONE | {"long_name": "largest scatter that the data may ask for, over the one used"}),
        "exact_permits": ((), 1.0, ONE | {"long_name": "share of the collapsed that the exact margin permits"}),
    }
    return xarray.Dataset(values)


# Measurement.


unsupported_reason, inputs = public_logs.unsupported_reason, public_logs.inputs


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """What every first run permits, and what became of every second one."""
    families = [(one["name"], one["setting"], one["runs"]) for one in setting.families]
    wanted = sorted({name for _, _, runs in families for name in runs})
    index = Path(os.environ["BANDIT_LAB_LOGS"]) / "index.csv"
    with open(index, encoding="utf-8", newline="") as file:
        known = {row["run_id"]: row for row in csv.DictReader(file)}
    logs = {log.name: log for log in gather(FitSettings(logs_index=str(index)), lambda done, total: None)}
    every = sorted({*wanted, *(name for one in setting.equal for name in one["runs"])})
    advised = lab.keep_each({one: lambda log=logs[one]: advise_one(log, setting) for one in every})  # type: ignore
    rows: list[list[Any]] = []
    for family, kind, runs in families:
        for first, value in runs.items():
            for second, other in runs.items():
                if value != other and first != second:
                    rows.append([family, first, second, *_row(kind, advised[first], value, other),
                                 "collapse" in known[second]["outcome"]])  # fmt: skip
    rows += _told(setting)
    columns = list(zip(*rows, strict=True))
    numbers = ("setting", "change", "law", "exact", "factor", "well", "permitted", "collapsed")
    pairs = zip(numbers, columns[3:], strict=True)
    values = {name: (("pair",), np.array(column, float), ONE) for name, column in pairs}
    half = np.array([float(str(family).partition(",")[0] in setting.calibration) for family in columns[0]])
    values["calibration"] = (("pair",), half, ONE)
    labels = [f"{one}: {first} to {second}" for one, first, second in zip(*columns[:3], strict=True)]
    for metric in METRICS:
        attrs = ONE | {"long_name": f"mean of the logged {metric} over the run's first fifth, in the trainer's unit"}
        values[metric] = (("run",), np.array([early(logs[name], metric) for name in wanted]), attrs)
    told = [(place, one["origin"], low) for place, one in enumerate(setting.equal)
            for low in (*(float(advised[name]["low"]) for name in one["runs"]), *one.get("told", []))]  # fmt: skip
    place, origin, low = zip(*told, strict=True)
    values["equal_family"] = (("reading",), np.array(place, float), ONE | {"long_name": "number of the family"})
    values["response_time"] = (("reading",), np.array(low), {"units": "optimiser steps", "long_name": "its short end"})
    return xarray.Dataset(values, {"pair": labels, "run": wanted, "reading": list(origin)})


def early(log: Log, metric: str) -> float:
    """Mean of a logged metric over the first fifth of the run's steps; NaN where the log does not hold it."""
    series = None if log.curve is None else log.curve.series.get(metric)
    if series is None:
        return float("nan")
    return float(series.value[series.step <= series.step[0] + EARLY * (series.step[-1] - series.step[0])].mean())


def advise_one(log: Log, setting: Setting) -> xarray.Dataset:
    """Margins at the stiff end, what is permitted, and whether the run went well, given what the index says of it."""
    given = {"learning_rate": log.learning_rate, "refresh_interval": log.refresh_interval,
             "group_size": log.group_size}  # fmt: skip
    given = {key: int(value) if key != "learning_rate" else value for key, value in given.items() if value}
    setup = trainers.understand(None, {}, given)
    advice = work(setup, look(log, setup), AdviseSettings(safety=setting.safety))
    permit, worst = advice.permit, advice.margin_upper
    law, exact = (np.nan, np.nan) if worst is None else (worst.law, worst.exact)
    low = np.nan if advice.evidence.delay is None else advice.evidence.delay.low
    values = {"law": law, "exact": exact, "factor": permit.factor, "interval": float(permit.interval), "low": low,
              "well": float(permit.basis != "failed run")}  # fmt: skip
    return xarray.Dataset({name: ((), value, ONE) for name, value in values.items()})


def _row(kind: str, advised: xarray.Dataset, value: float, other: float) -> list[Any]:
    """Code of the setting, change in heat, both margins, factor, whether the run went well, whether it is permitted."""
    one = {name: float(advised[name]) for name in advised}
    permit = advise.Permit(one["factor"], int(one["interval"]), "response time" if one["well"] else "failed run", "")
    change = value / other if kind == "group_size" else other / value
    allowed = allows(permit, kind, value, other)
    return [SETTINGS.index(kind), change, one["law"], one["exact"], one["factor"], one["well"], allowed]


def allows(permit: advise.Permit, kind: str, value: float, other: float) -> bool:
    """Whether what was said of a run at `value` permits `other`."""
    if kind == "group_size":
        return permit.group(int(value), int(other), adaptive=True)
    if kind == "refresh_interval":
        return other <= permit.interval
    return other / value <= permit.factor * (1 + 1e-9)


def _told(setting: Setting) -> list[list[Any]]:
    """Rows of the runs of which margins and outcomes alone are known."""
    rows: list[list[Any]] = []
    for one in setting.told:
        start, kind = int(one["from"]), one["setting"]
        loop = advise.StalenessLoop("refresh", start, 0.9, "ema")
        permit = advise.from_curve(loop, loop.law / one["law"], setting.safety)
        for other, outcomes in one["to"].items():
            for outcome in outcomes:
                allowed = allows(permit, kind, start, float(other))
                numbers = [SETTINGS.index(kind), float(other) / start, one["law"], one["exact"], permit.factor, True]
                rows.append([one["name"], str(start), str(other), *numbers, allowed, outcome == "collapsed"])
    return rows


# Numbers that the claims compare.


def permitted(m: xarray.Dataset, method: str) -> np.ndarray:
    """Which pairs a method permits [pair]; a margin that is not known permits what was run."""
    change = m.change.values
    if method == "advice":
        return m.permitted.values == 1
    if method in ("law", "exact"):
        return change <= np.where(np.isfinite(m[method].values), m[method].values, 1.0)
    return change <= (1.0 if method == "keep" else 0.5)


def score(f: Results, method: str, upward: bool = False, half: float = 0.0) -> tuple[int, int, int, int]:
    """(collapsed and permitted, collapsed, worked and forbidden, worked) among pairs of that half."""
    return counts(f.measured, permitted(f.measured, method), upward, half)


def counts(m: xarray.Dataset, allowed: np.ndarray, upward: bool, half: float) -> tuple[int, int, int, int]:
    """The same of any rule, by which pairs it permits [pair]."""
    here = (m.calibration.values == half) & ((m.change.values > 1) | (not upward))
    lost = m.collapsed.values == 1
    return (int((here & lost & allowed).sum()), int((here & lost).sum()),
            int((here & ~lost & ~allowed).sum()), int((here & ~lost).sum()))  # fmt: skip


def needed(f: Results, half: float) -> float:
    """The spread that forbids every change that collapsed to the runs of that half that went well."""
    return max(needed_by_run(f.measured, half).values(), default=1.0)


def needed_by_run(m: xarray.Dataset, half: float) -> dict[str, float]:
    """The same by "family: run", of the runs of that half that had gone well and above which something collapsed."""
    known = np.isfinite(m.law.values) & (m.change.values > 1) & (m.well.values == 1)
    here = (m.calibration.values == half) & (m.collapsed.values == 1) & known
    spreads: dict[str, float] = {}
    for pair in np.flatnonzero(here):
        spread = advise.spread_needed(float(m.law.values[pair]), float(m.change.values[pair]))
        first = str(m.pair.values[pair]).rpartition(" to ")[0]
        spreads[first] = max(spreads.get(first, 1.0), spread)
    return spreads


def scatter(m: xarray.Dataset, without: str = "") -> float:
    """The scatter of the equal runs, of all origins or all but one."""
    family, kept = m.equal_family.values, m.reading.values != without
    return advise.scatter_of_equals([m.response_time.values[kept & (family == one)] for one in np.unique(family)])


def at_spread(m: xarray.Dataset, spread: float) -> np.ndarray:
    """Which pairs the law's margin over a spread permits [pair], however far; what was run where it tells nothing."""
    known = np.isfinite(m.law.values) & (m.well.values == 1)
    return m.change.values <= np.where(known, np.maximum(m.law.values / spread, 1), 1.0)


def in_hindsight(m: xarray.Dataset) -> np.ndarray:
    """Which pairs the best rule permits [pair] that knows what became of every change to each first run.

    It permits all below the smallest change that collapsed. Whatever a log holds, a rule that takes the log and the
    change, and permits what is smaller than a permitted change, forbids as much of what worked if it permits no
    collapse.
    """
    change, lost = m.change.values, m.collapsed.values == 1
    first = np.array([label.rpartition(" to ")[0] for label in m.pair.values])
    least = [change[lost & (first == one)].min(initial=np.inf) for one in first]
    return change < np.array(least)


def forbidden_share(f: Results, upward: bool) -> float:
    """Share of what worked that is forbidden, beyond half; half if it is no more."""
    _, _, lost, worked = score(f, "advice", upward)
    return max(0.5, lost / worked)


def exact_share(f: Results) -> float:
    """Share of the collapsed settings, all halves, that the exact margin permits where it is known."""
    m = f.measured
    here = (m.collapsed.values == 1) & np.isfinite(m.exact.values)
    return float(permitted(m, "exact")[here].mean())


# Picture.

OUTCOMES, SYMBOLS = ("worked", "collapsed"), ("$\\eta$", "$N$", "$G$")
ORIGIN = re.compile(r"^.*[.:] *(?=[A-Za-z])")
"""What stands before a run's own name."""


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return "public training logs in which one setting was changed; nothing is simulated"


def draw(figure: Figure, found: Results, wide: bool) -> None:
    """A row for each run that others follow: what they changed by, what became of it, and what was permitted."""
    m = found.measured
    shown = np.isfinite(m.law.values) & (m.change.values > 1) & (m.well.values == 1)
    firsts = np.array([label.rpartition(" to ")[0] for label in m.pair.values])
    halves = [shown & (m.calibration.values == half) for half in (0.0, 1.0)]
    sizes = [np.unique(firsts[here]).size + 0.6 for here in halves]
    high = 1.2 + 0.17 * sum(sizes)
    panels = sheet.panels(figure, wide, 2, heights=(high, high + 0.2), across=(1, 1), sizes=(sizes, sizes), shared=True)
    for half, (panel, here, name) in enumerate(zip(panels, halves, ("scored", "calibration"), strict=True)):
        _draw_rows(panel, m, {first: here & (firsts == first) for first in np.unique(firsts[here])})
        lost, of, forbidden, worked = score(found, "advice", True, half)
        told = f"{name}: {lost} of {of} collapses permitted, {forbidden} of {worked} that worked forbidden"
        panel.set_title(s.lines(told, figure.get_figwidth()), fontsize=7)
    panels[0].tick_params(labelbottom=False)
    panels[1].set_xlabel("next / first run's learning rate $\\eta$,\nupdates $N$ per batch, group size $G$", fontsize=7)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=4 if wide else 2)


def _draw_rows(panel: Axes, m: xarray.Dataset, rows: dict[str, np.ndarray]) -> None:
    for place, here in enumerate(rows.values()):
        one = "_" * place  # one entry of the legend
        panel.barh(place, m.factor.values[here][0] - 1, left=1, height=0.8, color="#9FD5C4", label=f"{one}permitted")
        panel.plot(m.law.values[here][0], place, "k|", markersize=8, markeredgewidth=1.6, label=f"{one}law's margin")
        for lost, (marker, colour) in enumerate((("o", s.BLUE), ("X", s.VERMILION))):
            change = m.change.values[here & (m.collapsed.values == lost)]
            panel.plot(change, np.full(change.size, place), marker, color=colour, label=one + OUTCOMES[lost],
                       markersize=5 + lost, markeredgecolor="white", markeredgewidth=0.5)  # fmt: skip
    kinds = [SYMBOLS[int(m.setting.values[here][0])] for here in rows.values()]
    names = [f"{kind} {ORIGIN.sub('', first)[:23]}" for kind, first in zip(kinds, rows, strict=True)]
    panel.set_yticks(range(len(rows)), names, fontsize=sheet.SMALLEST_TEXT)
    panel.set(xscale="log", xlim=(1, 50), ylim=(len(rows) - 0.4, -0.6))
    sheet.plain_log(panel.xaxis)


# Table below the claims.


def table(found: Results) -> str:
    """Scores of all methods on the scoring half, on both halves upwards, and the spreads that each half needs."""
    head = ("method", "scored: collapsed, permitted", "scored: worked above, forbidden", "scored: worked, forbidden",
            "calibration: collapsed, permitted", "calibration: worked above, forbidden")  # fmt: skip
    rows = []
    for method, name in zip(METHODS, NAMES, strict=True):
        far, up, own, own_up = (score(found, method, above, half) for half in (0, 1) for above in (False, True))
        rows.append((name, f"{far[0]} of {far[1]}", f"{up[2]} of {up[3]}", f"{far[2]} of {far[3]}",
                     f"{own[0]} of {own[1]}", f"{own_up[2]} of {own_up[3]}"))  # fmt: skip
    told = [f"Spread that forbids every collapse: {needed(found, 1.0):.2f} on the calibration half, "
            f"{needed(found, 0.0):.2f} on the scoring half; used {advise.SPREAD:g}. Failed runs: none."]  # fmt: skip
    parts = (claims.grid(head, rows), told, frontier(found), by_metric(found), by_origin(found))
    return "\n\n".join("\n".join(part) for part in parts)


def by_origin(found: Results) -> list[str]:
    """The scatter of equal runs, of all of them and without each origin in turn."""
    m, rows = found.measured, []
    for out in ("", *np.unique(m.reading.values)):
        kept = m.reading.values != out
        numbers = str(kept.sum()), str(np.unique(m.equal_family.values[kept]).size), f"{scatter(m, str(out)):.2f}"
        rows.append((str(out) or "none", *numbers))
    return claims.grid(("origin left out", "equal runs", "families", "scatter"), rows)


def by_metric(found: Results) -> list[str]:
    """The spread that each run needs, in rising order, beside what its log holds in its first fifth."""
    m, rows = found.measured, []
    for half, name in ((1.0, "calibration"), (0.0, "scored")):
        for first, spread in sorted(needed_by_run(m, half).items(), key=lambda item: item[1]):
            run = first.partition(": ")[2]
            logged = [float(m[metric].sel(run=run)) if run in m.run else np.nan for metric in METRICS]
            told = ("-" if np.isnan(value) else f"{value:.2g}" for value in logged)
            rows.append((name, run.partition(".")[2] or first, f"{spread:.2f}", *told))
    return claims.grid(("half", "from the run", "spread needed", *METRIC_NAMES), rows)


def frontier(found: Results) -> list[str]:
    """What strictness costs: collapses permitted against what worked above and is forbidden, over the spread."""
    m = found.measured
    rules = {f"law's margin over {spread:g}": at_spread(m, spread) for spread in SPREADS}
    rules["any rule, in hindsight"] = in_hindsight(m)
    rows = []
    for name, allowed in rules.items():
        own, far = counts(m, allowed, True, 1.0), counts(m, allowed, True, 0.0)
        rows.append((name, *(f"{a} of {b}" for a, b in (own[:2], own[2:], far[:2], far[2:]))))
    head = ("rule, no limit of how far", "calibration: collapsed, permitted", "calibration: worked above, forbidden",
            "scored: collapsed, permitted", "scored: worked above, forbidden")  # fmt: skip
    return claims.grid(head, rows)


# Claims.

SOURCE = "bandit_lab/runs/advise/permit.py"
SEEN = "the margins of single runs of both halves had been seen when the rule was made, the pairs had not"
OF_CODE = {
    "fails_if": "the constant in the code were smaller than its data say",
    "constant": "the constant in the code",
    "post_hoc": "the constant is the number computed here, rounded up to the next half",
}


def _goal(name: str, statement: str, key: str, measured: Number, **more: Any) -> Claim:
    about = {"constant": "the goal", "post_hoc": SEEN} | more
    return Claim(f"advice.{name}", statement, SOURCE, lambda f: float(f.predicted[key]), measured, 1e-9, **about)


CLAIMS = (
    _goal(
        "collapses",
        "Share of the settings that collapsed that the advice forbids, all origins but that of the calibration",
        "collapsed_forbidden",
        lambda f: 1 - score(f, "advice")[0] / score(f, "advice")[1],
        fails_if="one of the collapsed settings were permitted from any run of its family",
    ),
    _goal(
        "not_too_strict",
        "Share of what worked, above and below the run's own setting, that is forbidden, same origins (0.5: or less)",
        "worked_forbidden",
        lambda f: forbidden_share(f, upward=False),
        fails_if="more than half of what worked were forbidden; whoever changes nothing upwards passes too",
    ),
    _goal(
        "not_too_strict_above",
        "Share of the settings above the run's own that worked and are forbidden, same origins (0.5: or less)",
        "worked_forbidden",
        lambda f: forbidden_share(f, upward=True),
        short="at most half of the larger settings that worked is forbidden (share)",
        fails_if="more than half of what worked above were forbidden",
        explanation="One curve tells little: spread and scatter forbid nearly all above. On the calibration half "
        "no rule of log and change reaches the goal without a collapse: see the table of rules.",
    ),
    _goal(
        "spread",
        "Spread of stiffness that forbids every collapse of the calibration half, over the spread used (1: or less)",
        "spread",
        lambda f: max(1.0, needed(f, 1.0) / advise.SPREAD),
        **OF_CODE,
    ),
    _goal(
        "scatter",
        "Response time over that of equals, of 95 % of runs with 95 % confidence, over the one used (1: or less)",
        "scatter",
        lambda f: max(1.0, scatter(f.measured) / advise.SCATTER),
        **OF_CODE,
    ),
    Claim(
        "advice.exact_margin",
        "Share of the collapsed settings that the exact margin of the curve permits, where it is known",
        "two thresholds: bandit_lab/theory; softest mode: docs of runs/advise",
        predicted=lambda f: float(f.predicted.exact_permits),
        measured=exact_share,
        tolerance=0.1,
        fails_if="the exact margin of a curve told what collapses from what does not",
        constant="a curve that shows the softest mode alone",
    ),
)
