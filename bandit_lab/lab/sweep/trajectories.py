"""Example runs on both sides of both boundaries, under the curves of two oscillators: lag N, and lag the mean age."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bandit_lab.app.plots import style as s
from bandit_lab.app.plots.heading import put_above
from bandit_lab.lab.sweep.examples import TITLES

if TYPE_CHECKING:
    import xarray


def trajectory_panels(results: "xarray.Dataset") -> Figure:
    """Four panels, of a data set that has examples."""
    with s.column():
        return _panels(results)


def finding(results: "xarray.Dataset") -> str:
    """How far both oscillators are from the runs well below the threshold, and which of them grows where a run decays.

    Errors are root mean squares in units of the largest displacement of a run, of the first two runs.
    """
    names = ("example_oscillator_mean_age", "example_oscillator_law")
    mean_age, law = (_off(results, name) for name in names)
    told = f"The oscillator {mean_age} with the policy's mean age as lag, and {law} with the law's"
    early = [word for word, name in zip(("the former", "the latter"), names, strict=True) if _grows(results, 2, name)]
    if not early or _grows(results, 2, "example_reward"):
        return told
    who = "both grow" if len(early) == 2 else f"{early[0]} grows"
    return f"{told}; near the threshold {who} too early"


def _off(results: "xarray.Dataset", name: str) -> str:
    if any(_grows(results, i, name) for i in (0, 1)):
        return "grows where runs decay"
    return f"is {np.sqrt(np.mean([_error(results, i, name) ** 2 for i in (0, 1)])):.0%} off"


def _curve(results: "xarray.Dataset", index: int, name: str) -> np.ndarray:
    """[T + 1] displacement of a run's or formula's reward from the fixed point."""
    length, fixed = int(results["example_length"][index]), float(results["example_reward"].attrs["fixed_point"])
    return np.asarray(results[name].values[index, : length + 1] - fixed)


def _error(results: "xarray.Dataset", index: int, name: str) -> float:
    run = _curve(results, index, "example_reward")
    off = _curve(results, index, name) - run
    return float(np.sqrt(np.mean(off**2)) / np.max(np.abs(run)))


def _grows(results: "xarray.Dataset", index: int, name: str) -> bool:
    """Whether its last quarter goes farther than its first, or to no finite number."""
    curve = np.abs(_curve(results, index, name))
    quarter = len(curve) // 4
    return not np.max(curve[-quarter:]) <= np.max(curve[:quarter])


def _panels(results: "xarray.Dataset") -> Figure:
    figure, axes = plt.subplots(2, 2, figsize=(s.COLUMN, 3.5))
    fixed = float(results["example_reward"].attrs["fixed_point"])
    for index, axis in enumerate(axes.flat):
        run, published, mean_age = (
            1e3 * _curve(results, index, f"example_{name}")
            for name in ("reward", "oscillator_law", "oscillator_mean_age")
        )
        length = len(run) - 1
        time = np.arange(length + 1)
        top = 1.25 * np.nanmax(np.abs(run))
        axis.axhline(0, color=s.GREY, linewidth=0.6)
        shown = np.unique(np.linspace(0, length, 60).round().astype(int))
        axis.plot(time, _until_gone(mean_age, top), **s.EXACT)
        axis.plot(time, _until_gone(published, top), **s.LAW)
        axis.plot(time[shown], run[shown], **(s.MEASURED | {"markersize": 2.2, "markeredgewidth": 0.6}))
        axis.set(ylim=(-top, top), xlim=(0, length))
        axis.set_title(f"{TITLES[index]}\n\u03b7 = {float(results['example_learning_rate'][index]):.3g}")
    figure.supylabel(r"$10^3$ (reward $-$ fixed point)", fontsize=8)
    for axis in axes[1]:
        axis.set_xlabel("step (updates)")
    looks = [
        (s.MEASURED, "run of the mean update"),
        (s.EXACT, "oscillator, lag = mean age of the acting policy"),
        (s.LAW, "oscillator, lag = refresh interval (the law's)"),
    ]
    handles = [Line2D([], [], label=text, **look) for look, text in looks]
    figure.legend(handles=handles, loc="outside lower center")
    about = results["example_reward"].attrs
    where = f"drift at {about['drift']}, \u03bc = {about['momentum']:g}, N = {about['refresh_interval']}"
    put_above(figure, finding(results), [f"{s.trained(results)}; {where}; from rest, displaced from {fixed:.3g}"])
    return figure


def _until_gone(curve: np.ndarray, top: float) -> np.ndarray:
    """The curve up to where it first leaves the frame; what a diverging formula does afterwards says nothing."""
    gone = ~(np.abs(curve) <= 1.3 * top)
    return np.where(np.cumsum(gone) > 0, np.nan, curve)
