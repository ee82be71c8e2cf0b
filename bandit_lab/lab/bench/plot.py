"""The picture of `bench`: bars against NumPy."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from bandit_lab.app.plots.heading import put_above
from bandit_lab.app.plots.style import BLUE, COLUMN, GREY, ORANGE, column

if TYPE_CHECKING:
    import xarray

LOOK = {"numpy": (ORANGE, "NumPy, vectorised"), "reference": (GREY, "reference path"), "fast": (BLUE, "fast path")}


def throughput_bars(results: "xarray.Dataset") -> Figure:
    """Speed of every implementation and case on a logarithmic axis; the ratio to NumPy beside the fast bar."""
    with column():
        return _bars(results)


def finding(results: "xarray.Dataset") -> str:
    """How much faster than NumPy the fast path is, over all cases."""
    times = results["fast_over"].sel(engine="numpy").values
    span = " to ".join(f"{one:.2g}" for one in sorted({float(times.min()), float(times.max())}))
    return f"The fast path runs at {span} times the speed of vectorised NumPy"


def _bars(results: "xarray.Dataset") -> Figure:
    cases, engines = results["case"].values.tolist(), results["engine"].values.tolist()
    speed = (results["work"] / results["seconds"].median("repetition")).values / 1e6
    height = 0.8 / len(engines)
    figure, axes = plt.subplots(figsize=(COLUMN, 0.75 + 0.32 * len(cases)))
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
    figure.legend(loc="outside lower center", ncols=len(engines), columnspacing=0.8, handlelength=1.0)
    about = results.attrs
    where = f"{about['threads']} threads on {about['processor']}"
    put_above(figure, finding(results), [f"{about['sizes']}; N: refresh interval, else 1; {where}"])
    return figure
