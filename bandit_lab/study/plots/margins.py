"""Stability margin against refresh interval, one run marked: the law dashed, the exact theory solid."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bandit_lab.study.plots import style as s

if TYPE_CHECKING:
    from bandit_lab.study.advise.picture import MarginPicture

_RUN: s.Look = {"color": s.VERMILION, "marker": "D", "linestyle": "none", "markersize": 6, "markeredgecolor": "white"}
_BAND = "#D9ECF9"


def margins_figure(picture: "MarginPicture") -> Figure:
    """The picture of `advise`."""
    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    handles: list[Line2D | Patch] = [
        Line2D([], [], label="leading-order law", **s.LAW),
        Line2D([], [], label=f"exact, model {picture.model}", **s.EXACT),
    ]
    axis.plot(picture.interval, picture.law, **s.LAW)
    axis.plot(picture.interval, picture.exact, **s.EXACT)
    if picture.band is not None:
        axis.fill_between(picture.interval, *picture.band, color=_BAND, linewidth=0)
        text = f"margin 1 to {picture.safety:g}" if picture.of_delay else "exact, 90 % interval of the response time"
        handles.append(Patch(color=_BAND, label=text))
    axis.set_xscale("log", base=2)
    axis.set_xlabel("lag (optimiser steps)" if picture.model == "lag" else "refresh interval N (optimiser steps)")
    axis.xaxis.set_major_formatter("{x:g}")
    (_response_times if picture.of_delay else _margins)(axis, picture, handles)
    axis.set_title(picture.title.replace("$", r"\$"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _margins(axis: plt.Axes, picture: "MarginPicture", handles: list) -> None:
    axis.set_yscale("log")
    bottom = 0.7 * min(float(np.min(picture.law)), float(np.min(picture.exact)), 0.7)
    axis.set_ylim(bottom, 1.5 * max(float(np.max(picture.exact)), picture.safety))
    axis.axhspan(bottom, 1, color=s.FILL[3], linewidth=0, zorder=0)
    axis.axhline(picture.safety, color=s.GREEN, linewidth=1.0, linestyle=(0, (1, 1.2)))
    axis.set_ylabel("margin: factor to the loss of stability")
    axis.yaxis.set_major_formatter("{x:g}")
    interval, _, exact = picture.run
    if exact is not None:
        axis.plot([max(interval, 1)], [exact], **_RUN)
    handles += [
        Line2D([], [], label="this run", **_RUN),
        Line2D([], [], label=f"safe above (margin {picture.safety:g})", color=s.GREEN, linestyle=(0, (1, 1.2))),
        Patch(color=s.FILL[3], label="unstable"),
    ]


def _response_times(axis: plt.Axes, picture: "MarginPicture", handles: list) -> None:
    axis.set_yscale("symlog", linthresh=1.0)
    axis.set_ylim(0, 3 * max(float(np.max(picture.law)), float(np.max(picture.exact)), 10.0))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylabel("response time of the reward (optimiser steps)")
    axis.axvline(max(picture.run[0], 1), color=s.VERMILION, linewidth=1.4)
    axis.annotate("stable", (0.03, 0.94), xycoords="axes fraction", color=s.GREY, va="top")
    axis.annotate("unstable", (0.97, 0.03), xycoords="axes fraction", color=s.GREY, ha="right")
    handles.append(Line2D([], [], label="this run", color=s.VERMILION))
