"""The four panels of `mismatch`."""

from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Results
from experiments.shared import sheet
from experiments.shared.mismatch_axes import hot_weights

ARM_COLOURS = {2: s.VERMILION, 4: s.ORANGE, 10: s.PURPLE, 100: s.BLACK}


def draw_critical(axis: Axes, results: Results) -> None:
    """Critical KL weights against the sampler's temperature."""

    def one(name: str, colour: str, **where: Any) -> xarray.DataArray:
        line = results.predicted[f"{name}_line"].sel(where)
        axis.plot(results.predicted.fine_temperature, line, color=colour)
        measured = results.measured[name].sel(where)
        axis.plot(results.measured.temperature, measured, **s.MEASURED | {"color": colour})
        return line

    one("critical", s.BLUE, rule="std")
    one("critical", s.GREEN, rule="std, weights")
    ends = {2: one("critical", ARM_COLOURS[2], rule="mean-only")}
    ends |= {k: one("critical_arms", ARM_COLOURS[k], arms=k) for k in results.setting.arms}
    for k, line in ends.items():
        axis.annotate(
            f"K = {k}", (2.1, float(line[-1])), (2, -2), textcoords="offset points", color=ARM_COLOURS[k], fontsize=6.5
        )
    axis.axvline(1, color=s.GREY, linewidth=0.8, linestyle=":")
    axis.text(2.13, 2.05, "std", color=s.BLUE, fontsize=7)
    axis.text(1.04, 2.2, r"std, weights $\pi/b$", color=s.GREEN, fontsize=7)
    sheet.note(axis, 0.98, 0.47, "mean-only, K arms", color=ARM_COLOURS[2], ha="right")
    axis.set(xlabel="sampler's temperature", ylabel="critical KL weight", ylim=(0, 2.45), xlim=(0.62, 2.42))
    axis.set_title("a: below its line training collapses", loc="left")


def _draw_own(axis: Axes, results: Results, advantage: str) -> None:
    line = results.predicted.own_line.sel(advantage=advantage)
    axis.plot(results.predicted.fine_weight, line, color=s.GREY, linewidth=1.2, linestyle="--")


def draw_hot(axis: Axes, results: Results) -> None:
    """Ends of runs under a hot sampler against the KL weight."""
    weights, top = hot_weights(results.setting), results.setting.gone
    _draw_own(axis, results, "dr_grpo")
    for place, k in enumerate(results.measured.hot_arms.values):
        colour = ARM_COLOURS[int(k)]
        line = results.predicted.hot_line[place]
        axis.plot(results.predicted.fine_weight, line, color=colour)
        axis.plot(weights[place], results.measured.hot[place], **s.MEASURED | {"color": colour})
        gone = results.measured.hot_gone[place].values > 0.5
        axis.plot(weights[place][gone], np.full(gone.sum(), top), **s.MEASURED | {"color": colour, "marker": "^"})
        sheet.note(axis, 0.99, 0.72 - 0.1 * place, f"K = {k}", color=colour, ha="right")
    sheet.note(axis, 0.99, 0.82, "K = 2, temperature 1", color=s.GREY, ha="right")
    sheet.note(axis, 0.03, 0.82, "triangles: collapsed")
    axis.set(xscale="log", xlim=(0.2, 1.05), ylim=(-2, 1.08 * top))
    sheet.ticks_at(axis.xaxis, (0.2, 0.3, 0.5, 1.0))
    axis.set(xlabel="KL weight", ylabel="log-odds at the end")
    axis.set_title(f"b: temperature {results.setting.hot.tau:g}, mean only: runs collapse", loc="left")


def draw_cold(axis: Axes, results: Results) -> None:
    """Ends of runs under a cold sampler, with the std, by correction."""
    looks = {
        "none": (s.BLUE, "no correction"),
        "truncated": (s.ORANGE, r"$\pi/b$, at most 2"),
        "pi/b": (s.GREEN, r"$\pi/b$"),
    }
    _draw_own(axis, results, "grpo")
    for place, (one, (colour, label)) in enumerate(looks.items()):
        axis.plot(results.predicted.fine_weight, results.predicted.cold_line.sel(cold_correction=one), color=colour)
        seen = results.measured.cold.sel(cold_correction=one)
        axis.plot(seen.cold_weight, seen, **s.MEASURED | {"color": colour})
        sheet.note(axis, 0.6, 0.9 - 0.1 * place, label, color=colour)
    sheet.note(axis, 0.6, 0.6, "temperature 1", color=s.GREY)
    axis.set(xscale="log", xlim=(1.0, 3.2), ylim=(0, 8.5), xlabel="KL weight", ylabel="log-odds at the end")
    sheet.ticks_at(axis.xaxis, (1.0, 1.5, 2.0, 3.0))
    axis.set_title("c: cold sampler, std: weights overshoot", loc="left")


def draw_repair(axis: Axes, results: Results) -> None:
    """Ends against the bound of the weights."""
    looks = {"tis": (s.BLUE, "truncated"), "icepop": (s.VERMILION, "masked")}
    for place, (one, (colour, label)) in enumerate(looks.items()):
        axis.plot(results.predicted.fine_bound, results.predicted.repair_line.sel(correction=one), color=colour)
        seen = results.measured.repair_runs.sel(correction=one)
        axis.plot(seen.bound, seen, **s.MEASURED | {"color": colour})
        sheet.note(axis, 0.65, 0.32 - 0.1 * place, label, color=colour)
    without, own = results.predicted.repair_ends.values
    above: dict[str, Any] = {"va": "bottom", "textcoords": "offset points", "xytext": (0, 1.5)}
    for height, text, x, side in ((without, "no correction", 3.08, "right"), (own, "temperature 1", 1.03, "left")):
        axis.axhline(height, color=s.GREY, linewidth=0.8, linestyle=":")
        axis.annotate(text, (x, height), ha=side, color=s.GREY, fontsize=7, **above)
    axis.set(xlabel="upper bound of the weights", ylabel="log-odds at the end", ylim=(0, 2.3), xlim=(1, 3.1))
    axis.set_title("d: cold sampler, mean only: weights repair it", loc="left")
