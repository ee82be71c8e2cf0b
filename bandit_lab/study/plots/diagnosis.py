"""Runs as `diagnose` sees them: reward with held-out results, entropy and silent groups below, evidence shaded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bandit_lab.study.plots import style as s
from bandit_lab.study.plots.curves import COLUMNS
from bandit_lab.study.terminal.text import middle_cut

if TYPE_CHECKING:
    from bandit_lab.study.diagnose.picture import DiagnosisPicture

_RAW: s.Look = {"linestyle": "none", "marker": ".", "color": s.GREY, "markersize": 4.5, "markeredgewidth": 0}
_SMOOTH: s.Look = {"color": s.BLUE, "linewidth": 1.6}
_HELD_OUT: s.Look = {"linestyle": "none", "marker": "^", "color": s.GREEN, "markersize": 4, "markerfacecolor": "white"}
_COLOURS = (s.VERMILION, s.PURPLE, s.ORANGE)


def diagnosis_figure(picture: "DiagnosisPicture") -> Figure:
    """Reward above, one low panel for each further quantity below."""
    below = list(picture.others.items())
    figure, axes = plt.subplots(
        1 + len(below), 1, figsize=(7.0, 3.6 + 0.9 * len(below)), sharex=True, squeeze=False,
        gridspec_kw={"height_ratios": [3.0] + [1.0] * len(below)},
    )  # fmt: skip
    top = axes[0, 0]
    handles: list[Line2D | Patch] = _reward(top, picture)
    for axis, (label, series), colour in zip(axes[1:, 0], below, _COLOURS, strict=False):
        axis.plot(series.step, series.value, color=colour, linewidth=1.1)
        axis.set_ylabel(label, fontsize=7.5)
    for number, (first, last, text) in enumerate(picture.marks, start=1):
        for axis in axes[:, 0]:
            axis.axvspan(first, last, facecolor=s.YELLOW, alpha=0.15, linewidth=0)
        place = first + (last - first) * 0.03 * (number - 1)
        top.text(place, top.get_ylim()[1], f" {number}", va="top", fontsize=8, weight="bold")
        handles.append(Patch(facecolor=s.YELLOW, alpha=0.3, label=f"{number}: {text}"))
    title = f"{middle_cut(picture.title, 80)}\n{picture.verdict}".replace("$", r"\$")
    top.set_title(title, fontsize=9)
    unit = picture.unit if picture.unit == "unknown" else f"{picture.unit}s"
    axes[-1, 0].set_xlabel(f"step (unit {unit})" if unit == "unknown" else f"step ({unit})")
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=7.5)
    return figure


def small_multiples(pictures: "Sequence[DiagnosisPicture]") -> Figure:
    """A page of runs: reward, held-out results, evidence shaded, verdict in the title."""
    columns = min(COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(0.6 + 2.15 * columns, 0.9 + 1.6 * rows), squeeze=False)
    for axis, picture in zip(axes.flat, pictures, strict=False):
        _small(axis, picture)
    for axis in axes.flat[len(pictures) :]:
        axis.set_visible(False)
    units = {picture.unit for picture in pictures}
    figure.supxlabel(f"step ({units.pop()}s)" if len(units) == 1 else "step (as each log counts)", fontsize=8)
    figure.supylabel("reward", fontsize=8)
    handles: list[Line2D | Patch] = [
        Line2D([], [], label="logged reward", **(_RAW | {"markersize": 8})),
        Line2D([], [], label="running mean", **_SMOOTH),
    ]
    if any(picture.held_out is not None for picture in pictures):
        handles.append(Line2D([], [], label="held-out result", **_HELD_OUT))
    if any(picture.marks for picture in pictures):
        handles.append(Patch(facecolor=s.YELLOW, alpha=0.4, label="what the verdict rests on"))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(4, 1 + columns // 2), fontsize=7)
    return figure


def _small(axis: plt.Axes, picture: "DiagnosisPicture") -> None:
    axis.plot(picture.step, picture.reward, **(_RAW | {"markersize": 2.2}))
    axis.plot(picture.smooth_step, picture.smooth, **(_SMOOTH | {"linewidth": 1.1}))
    if picture.held_out is not None:
        axis.plot(picture.held_out.step, picture.held_out.value, **(_HELD_OUT | {"markersize": 2.6}))
    for first, last, _ in picture.marks:
        axis.axvspan(first, last, facecolor=s.YELLOW, alpha=0.3, linewidth=0)
    colour = s.VERMILION if picture.harm else s.BLACK
    axis.set_title(f"{middle_cut(picture.title, 30)}\n{picture.brief}".replace("$", r"\$"), fontsize=6.5, color=colour)
    axis.tick_params(labelsize=6.5)
    axis.locator_params(nbins=4)


def _reward(axis: plt.Axes, picture: "DiagnosisPicture") -> list[Line2D | Patch]:
    axis.plot(picture.step, picture.reward, **_RAW)
    axis.plot(picture.smooth_step, picture.smooth, **_SMOOTH)
    axis.set_ylabel("reward")
    handles: list[Line2D | Patch] = [
        Line2D([], [], label="logged reward", **(_RAW | {"markersize": 8})),
        Line2D([], [], label="running mean", **_SMOOTH),
    ]
    if picture.held_out is not None:
        axis.plot(picture.held_out.step, picture.held_out.value, **_HELD_OUT)
        handles.append(Line2D([], [], label="held-out result", **_HELD_OUT))
    if picture.lost.size:
        axis.plot(picture.lost, np.full(picture.lost.size, axis.get_ylim()[0]), "|", color=s.PURPLE, clip_on=False)
        handles.append(Line2D([], [], label="reward not finite", color=s.PURPLE, marker="|", linestyle="none"))
    return handles
