"""The picture of `plot=branch`, from its data set alone: expected reward against learning rate over threshold."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab.app.plots import style as s

if TYPE_CHECKING:
    import xarray

WIDTH, HEIGHT = 3.4, 3.3  # inches: one column
LOOKS = {"fixed_point": s.BLUE, "cycle": s.VERMILION}
NAMES = {"fixed_point": "fixed point", "cycle": "cycle", "circle": "circle (measured)"}
KINDS = {"flip": "flip", "neimark_sacker": "Neimark-Sacker", "fold": "fold", "branch_point": "branch point"}
UNSTABLE = (0, (3, 2))
_ROOM = 0.12  # of the height, for labels


def drawn(data: "xarray.Dataset") -> Figure:
    """The picture at one column's width."""
    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    draw_on(axes, data)
    return figure


def draw_on(axes: Axes, data: "xarray.Dataset") -> None:
    """The same on given axes, with the finding as title."""
    every = [data[f"{name}_reward"].values for name in NAMES if f"{name}_reward" in data]
    low, high = min(one.min() for one in every), max(one.max() for one in every)
    room = _ROOM * max(high - low, 1e-6)
    axes.set_ylim(low - room, high + 1.6 * room)
    ratios = data["fixed_point_ratio"].values
    axes.set_xlim(ratios[0], ratios[-1] + 0.02)  # markers are whole
    for name, colour in LOOKS.items():
        if f"{name}_reward" in data:
            _line(axes, data, name, colour)
    if "circle_reward" in data:
        _circle(axes, data)
    _law(axes, data)
    _bifurcations(axes, data)
    axes.set_xlabel("learning rate / exact threshold")
    axes.set_ylabel("expected reward")
    axes.set_title(s.lines(data.attrs["finding"], WIDTH - 0.6), fontsize=8)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.45, -0.18), "ncols": 2, "columnspacing": 1.0}
    axes.legend(handlelength=1.8, title=f"{data.attrs['setting']}; dashed: repels", title_fontsize=8, **below)


def _line(axes: Axes, data: "xarray.Dataset", name: str, colour: str) -> None:
    """Solid where it attracts, dashed where it does not; a cycle by its least and largest reward."""
    ratio, reward, stable = (data[f"{name}_{key}"].values for key in ("ratio", "reward", "stable"))
    columns = reward.T[: 1 if name == "fixed_point" else 2]
    for i, column in enumerate(columns):
        for kept, how in ((stable, "-"), (~stable, UNSTABLE)):
            shown = kept | np.append(False, kept[:-1]) if how == "-" else kept  # no gap between the two
            label = data.attrs.get(name, NAMES[name]) if i == 0 and how == "-" else None
            axes.plot(ratio, np.where(shown, column, np.nan), color=colour, linestyle=how, linewidth=1.6, label=label)


def _circle(axes: Axes, data: "xarray.Dataset") -> None:
    """Least and largest reward of long runs; a cross where they still changed."""
    ratio, reward, settled = (data[f"circle_{key}"].values for key in ("ratio", "reward", "settled"))
    look: dict[str, Any] = s.MEASURED | {"color": s.VERMILION, "clip_on": True}
    axes.fill_between(ratio, *reward.T, color=s.VERMILION, alpha=0.12, linewidth=0)
    for chosen, marker, label in ((settled, "o", NAMES["circle"]), (~settled, "x", "still changing")):
        if chosen.any():
            both, twice = reward[chosen].T.ravel(), np.tile(ratio[chosen], 2)
            axes.plot(twice, both, **look | {"marker": marker, "label": label})


def _law(axes: Axes, data: "xarray.Dataset") -> None:
    if "law" not in data.attrs:
        return
    place = data.attrs["law"] / data.attrs["threshold"]
    left, right = axes.get_xlim()
    if left <= place <= right:
        axes.axvline(place, label="published law", **s.LAW)
    else:
        side = 0.02 if place < left else 0.98
        text = (
            f"\N{LEFTWARDS ARROW} published law: {place:.2g}"
            if place < left
            else f"law: {place:.2g} \N{RIGHTWARDS ARROW}"
        )
        axes.text(
            side, 0.97, text, transform=axes.transAxes, fontsize=8, va="top", ha="left" if place < left else "right"
        )


def _bifurcations(axes: Axes, data: "xarray.Dataset") -> None:
    """A filled marker at each, with its kind."""
    kinds, of, ratios = (data[f"bifurcation_{key}"].values for key in ("kind", "of", "ratio"))
    for kind, where, ratio, reward in zip(kinds, of, ratios, data["bifurcation_reward"].values, strict=True):
        ends = reward[1:] if where == "fixed_point" else reward
        axes.plot([ratio] * len(ends), ends, linestyle="none", marker="D", markersize=4.5, color=s.BLACK, zorder=4)
        name = KINDS[str(kind)] if where == "fixed_point" else f"{KINDS[str(kind)]} of the cycle"
        place: dict[str, Any] = (
            {"xytext": (-4, 6), "va": "bottom"} if where == "cycle" else {"xytext": (-4, -6), "va": "top"}
        )
        axes.annotate(name, (ratio, reward[1]), textcoords="offset points", ha="right", fontsize=8, **place)
