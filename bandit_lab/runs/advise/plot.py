"""Stability margin against refresh interval, one run marked: the law dashed, the exact theory solid.

At the run's own stiffness or, where that is not known, at those that some response times would mean.
"""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bandit_lab.app.plots import style as s
from bandit_lab.runs.advise import kappa_of_delay
from bandit_lab.runs.advise.work import Advice

SHOWN = (10.0, 30.0, 100.0)
"""Response times that are drawn, optimiser steps."""
_RUN: s.Look = {"color": s.VERMILION, "marker": "D", "linestyle": "none", "markersize": 6, "markeredgecolor": "white"}
_BAND = "#D9ECF9"
_COLOURS = (s.BLUE, s.GREEN, s.PURPLE)
_DOTS = (0, (1, 1.2))


class Margins(NamedTuple):
    """Margins [n] over refresh intervals by the law and exactly, at one stiffness; no label for the run's own."""

    label: str
    law: np.ndarray
    exact: np.ndarray


def margins_figure(advice: Advice, safety: float) -> Figure:
    """The picture of `advise`; what a margin is divided by, or the `safety` that is wished for, is a line.

    A run that failed is marked as that, and nothing is called permitted.
    """
    failed = advice.permit.basis == "failed run"
    line = advice.permit.divisor or safety
    loop, gain = advice.loop, advice.gain
    interval = _intervals(advice)
    there = [loop.at(int(n)) for n in interval]
    law, exact = np.array([one.law for one in there]), np.array([one.exact.kappa for one in there])
    known = [(kappa_of_delay(loop, delay), f"response in {delay:g} steps") for delay in SHOWN]
    known = known if gain is None else [(gain.kappa, "")]
    curves = [Margins(label, law / kappa, exact / kappa) for kappa, label in known]
    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    handles: list[Line2D | Patch] = [Line2D([], [], label="leading-order law", **s.LAW)]
    handles += _curves(axis, interval, curves, loop.model)
    if gain is not None and gain.upper > gain.lower:
        ends = exact / gain.upper, exact / max(gain.lower, 0.05 * gain.kappa)
        axis.fill_between(interval, *ends, color=_BAND, linewidth=0, zorder=0)
        handles.append(Patch(color=_BAND, label="exact, 90 % interval of the response time"))
    handles += _frame(axis, curves, line, loop.model)
    if not failed:
        words = f"permitted where {'both lines are' if gain is None or gain.delay else 'the exact one is'} above"
        handles.append(Line2D([], [], label=f"{words} {line:g}", color=s.BLACK, linestyle=_DOTS))
    name = "this run, which failed" if failed else "this run"
    if gain is None:
        axis.axvline(max(loop.interval, 1), color=s.VERMILION, linewidth=1.4)
        handles.append(Line2D([], [], label=name, color=s.VERMILION))
    else:
        mark: s.Look = _RUN | {"marker": "X"} if failed else _RUN
        axis.plot([max(loop.interval, 1)], [loop.exact.kappa / gain.kappa], **mark)
        handles.append(Line2D([], [], label=name, **mark))
    title = f"{advice.setup.trainer.name}, model {loop.model}, mu = {loop.momentum:g}"
    if gain is not None and gain.delay is not None:
        title += "; margins of the softest mode: upper bounds"
    axis.set_title(title.replace("$", r"\$"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _intervals(advice: Advice) -> np.ndarray:
    """Refresh intervals [n] from 1 to beyond the run's own and its threshold, at most 256."""
    own = max(advice.loop.interval, 1)
    lost = advice.intervals.threshold.exact if advice.intervals is not None else None
    last = int(np.clip(max(4 * own, 2 * (lost or 0)), 16, 256))
    return np.unique(np.concatenate([np.arange(1, 17), np.geomspace(16, last, 24).round().astype(int), [own]]))


def _curves(axis: Axes, interval: np.ndarray, curves: list[Margins], model: str) -> list[Line2D]:
    handles = []
    for curve, colour in zip(curves, _COLOURS, strict=False):
        label = f"exact, model {model}" + (f", {curve.label}" if curve.label else "")
        axis.plot(interval, curve.law, **(s.LAW if not curve.label else s.LAW | {"color": colour}))
        axis.plot(interval, curve.exact, **(s.EXACT | {"color": colour}))
        handles.append(Line2D([], [], label=label, **(s.EXACT | {"color": colour})))
    return handles


def _frame(axis: Axes, curves: list[Margins], safety: float, model: str) -> list[Line2D | Patch]:
    every = np.concatenate([part for curve in curves for part in (curve.law, curve.exact)])
    bottom, top = 0.7 * min(float(every.min()), 0.7), 1.5 * max(float(every.max()), safety)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_ylim(bottom, top)
    axis.axhspan(bottom, 1, color=s.FILL[3], linewidth=0, zorder=0)
    axis.axhline(safety, color=s.BLACK, linewidth=1.0, linestyle=_DOTS)
    axis.set_xlabel("lag (optimiser steps)" if model == "lag" else "refresh interval N (optimiser steps)")
    axis.set_ylabel("margin: factor to the loss of stability")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_major_formatter("{x:g}")
    return [Patch(color=s.FILL[3], label="unstable")]
