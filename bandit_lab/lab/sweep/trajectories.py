"""Example runs on both sides of both boundaries, under the curves of two oscillators: lag N, and lag the mean age."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bandit_lab.app.plots import style as s
from bandit_lab.lab.sweep.examples import TITLES

if TYPE_CHECKING:
    import xarray


def trajectory_panels(results: "xarray.Dataset") -> Figure:
    """Four panels, of a data set that has examples."""
    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.8))
    fixed = float(results["example_reward"].attrs["fixed_point"])
    for index, axis in enumerate(axes.flat):
        part = results.isel(example=index)
        length = int(part["example_length"])
        time = np.arange(length + 1)
        run = 1e3 * (part["example_reward"].values[: length + 1] - fixed)
        top = 1.25 * np.nanmax(np.abs(run))
        published = 1e3 * (part["example_oscillator_law"].values[: length + 1] - fixed)
        mean_age = 1e3 * (part["example_oscillator_mean_age"].values[: length + 1] - fixed)
        axis.axhline(0, color=s.GREY, linewidth=0.6)
        shown = np.unique(np.linspace(0, length, 110).round().astype(int))
        axis.plot(time, _until_gone(mean_age, top), **s.EXACT)
        axis.plot(time, _until_gone(published, top), **s.LAW)
        axis.plot(time[shown], run[shown], **(s.MEASURED | {"markersize": 2.6, "markeredgewidth": 0.7}))
        axis.set(ylim=(-top, top), xlim=(0, length))
        axis.set_title(rf"{TITLES[index]}: $\eta$ = {float(part['example_learning_rate']):.3g}")
    for axis in axes[:, 0]:
        axis.set_ylabel(r"$10^3$ (reward $-$ fixed point)")
    for axis in axes[1]:
        axis.set_xlabel("step (updates)")
    looks = [
        (s.MEASURED, "run of the mean update"),
        (s.EXACT, "oscillator, lag = mean age of the acting policy"),
        (s.LAW, "oscillator, lag = refresh interval (the law's)"),
    ]
    handles = [Line2D([], [], label=text, **look) for look, text in looks]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    about = results["example_reward"].attrs
    where = f"drift at {about['drift']}, \u03bc = {about['momentum']:g}, N = {about['refresh_interval']}"
    text = f"{s.trained(results)}; {where}; from rest, slightly displaced"
    figure.suptitle(s.lines(text, figure.get_figwidth()), fontsize=8)
    return figure


def _until_gone(curve: np.ndarray, top: float) -> np.ndarray:
    """The curve up to where it first leaves the frame; what a diverging formula does afterwards says nothing."""
    gone = ~(np.abs(curve) <= 1.3 * top)
    return np.where(np.cumsum(gone) > 0, np.nan, curve)
