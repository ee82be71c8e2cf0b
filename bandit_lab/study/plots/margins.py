"""Stability margin against refresh interval, one run marked: the law dashed, the exact theory solid."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bandit_lab.study.plots import style as s

if TYPE_CHECKING:
    from bandit_lab.study.advise.picture import MarginPicture

_RUN: s.Look = {"color": s.VERMILION, "marker": "D", "linestyle": "none", "markersize": 6, "markeredgecolor": "white"}
_BAND = "#D9ECF9"
_COLOURS = (s.BLUE, s.GREEN, s.PURPLE)
_DOTS = (0, (1, 1.2))


def margins_figure(picture: "MarginPicture") -> Figure:
    """The picture of `advise`."""
    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    handles: list[Line2D | Patch] = [Line2D([], [], label="leading-order law", **s.LAW)]
    handles += _curves(axis, picture)
    if picture.band is not None:
        axis.fill_between(picture.interval, *picture.band, color=_BAND, linewidth=0, zorder=0)
        handles.append(Patch(color=_BAND, label="exact, 90 % interval of the response time"))
    handles += _frame(axis, picture)
    interval, margin = picture.run
    if margin is None:
        axis.axvline(max(interval, 1), color=s.VERMILION, linewidth=1.4)
        handles.append(Line2D([], [], label="this run", color=s.VERMILION))
    else:
        axis.plot([max(interval, 1)], [margin], **_RUN)
        handles.append(Line2D([], [], label="this run", **_RUN))
    axis.set_title(picture.title.replace("$", r"\$"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _curves(axis: Axes, picture: "MarginPicture") -> list[Line2D]:
    handles = []
    for curve, colour in zip(picture.curves, _COLOURS, strict=False):
        label = f"exact, model {picture.model}" + (f", {curve.label}" if curve.label else "")
        axis.plot(picture.interval, curve.law, **(s.LAW if not curve.label else s.LAW | {"color": colour}))
        axis.plot(picture.interval, curve.exact, **(s.EXACT | {"color": colour}))
        handles.append(Line2D([], [], label=label, **(s.EXACT | {"color": colour})))
    return handles


def _frame(axis: Axes, picture: "MarginPicture") -> list[Line2D | Patch]:
    every = np.concatenate([part for curve in picture.curves for part in (curve.law, curve.exact)])
    bottom, top = 0.7 * min(float(every.min()), 0.7), 1.5 * max(float(every.max()), picture.safety)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_ylim(bottom, top)
    axis.axhspan(bottom, 1, color=s.FILL[3], linewidth=0, zorder=0)
    axis.axhline(picture.safety, color=s.BLACK, linewidth=1.0, linestyle=_DOTS)
    axis.set_xlabel("lag (optimiser steps)" if picture.model == "lag" else "refresh interval N (optimiser steps)")
    axis.set_ylabel("margin: factor to the loss of stability")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_major_formatter("{x:g}")
    return [
        Line2D([], [], label=f"safe above (margin {picture.safety:g})", color=s.BLACK, linestyle=_DOTS),
        Patch(color=s.FILL[3], label="unstable"),
    ]
