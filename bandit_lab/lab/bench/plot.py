"""The picture of `bench`: bars against NumPy."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from bandit_lab.app.plots.style import BLUE, GREY, ORANGE

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
