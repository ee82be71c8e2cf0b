"""Pictures of `bench`: bars against NumPy, and how speed and memory change with the work."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bandit_lab.app.plots.style import BLACK, BLUE, GREY, ORANGE, SKY, VERMILION

if TYPE_CHECKING:
    import xarray

LOOK = {"numpy": (ORANGE, "NumPy, vectorised"), "reference": (GREY, "reference path"), "fast": (BLUE, "fast path")}
WIDTH = 3.4  # inches, one column


def throughput_bars(results: "xarray.Dataset") -> Figure:
    """Speed of every implementation and case on a logarithmic axis; the ratio to NumPy beside the fast bar."""
    cases, engines = results["case"].values.tolist(), results["engine"].values.tolist()
    speed = (results["work"] / results["seconds"].median("repetition")).values / 1e6
    height = 0.8 / len(engines)
    figure, axes = plt.subplots(figsize=(WIDTH, 0.75 + 0.4 * len(cases)))
    for place, name in enumerate(engines):
        colour, label = LOOK[name]
        at = np.arange(len(cases)) + (place - (len(engines) - 1) / 2) * height
        axes.barh(at, speed[:, place], height, color=colour, label=label)
        if name == "fast":
            for row, y in enumerate(at):
                times = float(results["fast_over"].sel(engine="numpy")[row])
                axes.annotate(f"×{times:.3g}", (speed[row, place], y), (3, 0), textcoords="offset points",
                              va="center", fontsize=7)  # fmt: skip
    axes.set(xscale="log", yticks=range(len(cases)), yticklabels=cases, xlabel="million seed-steps per second")
    axes.set_xlim(speed.min() / 2, speed.max() * 6)
    axes.invert_yaxis()
    axes.legend(loc="lower center", bbox_to_anchor=(0.35, 1.0), ncols=len(engines), fontsize=7, columnspacing=0.8,
                handlelength=1.0, borderpad=0.1)  # fmt: skip
    return figure


def scaling_panels(results: "xarray.Dataset", labels: Mapping[str, str]) -> Figure:
    """Six panels of speed on logarithmic axes; cores with the line of proportional speed."""
    figure, axes = plt.subplots(2, 3, figsize=(2 * WIDTH, 4.0), sharey=True)
    for panel, axis in zip(labels, axes.flat, strict=True):
        mine = results["panel"].values == panel
        x, speed = results["x"].values[mine], results["speed"].values[mine] / 1e6
        axis.plot(x, speed, "o-", color=BLUE, markersize=4, linewidth=1.4)
        if panel == "cores" and len(x):
            axis.plot(x, speed[0] * x / x[0], "--", color=BLACK, linewidth=1.0, label="in proportion")
            axis.legend(fontsize=7)
        axis.set(xscale="log", yscale="log", xlabel=labels[panel])
        if len(x):
            axis.set_xticks(x, [f"{v:,}" for v in x], rotation=45 if x.max() > 999 else 0, ha="center")
        axis.minorticks_off()
    lowest, highest = axes[0, 0].get_ylim()
    if highest / lowest < 10:  # at least a decade, or noise fills the picture
        axes[0, 0].set_ylim(lowest / 2, highest * 2)
    figure.supylabel("million seed-steps per second", fontsize=9)
    axes[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return figure


def memory_panels(results: "xarray.Dataset") -> Figure:
    """Peak memory above that of importing JAX against steps and against seeds."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.2), sharey=True)
    kinds = results["memory_axis"].values
    for axis, name, colour in zip(axes, ("steps", "seeds"), (SKY, VERMILION), strict=True):
        mine = (kinds == name) | ((kinds == "paper") & (name == "seeds"))
        axis.plot(results[f"memory_{name}"].values[mine], results["memory"].values[mine] / 1e6, "o-", color=colour)
        other = "seeds" if name == "steps" else "steps"
        fixed = results[f"memory_{other}"].values[kinds == name][0]
        axis.set(xscale="log", xlabel=f"{name} ({fixed:,} {other})")
    axes[0].set_ylim(0, 1.2 * float(results["memory"].max()) / 1e6)
    axes[0].set_ylabel("MB above import jax")
    return figure
