"""Drawing of experiments/adam.py."""

import matplotlib
import numpy as np

from bandit_lab.study.plots import style
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

KEY = "lines: predicted\ncircles: measured"


def draw(figure, found: Found, wide: bool) -> None:
    """Three panels: threshold, response, curves."""
    figure.set_figheight(2.7 if wide else 7.2)
    axes = figure.subplots(1, 3) if wide else figure.subplots(3, 1)
    _draw_threshold(axes[0], found)
    _draw_response(axes[1], found)
    _draw_curves(axes[2], found)


def _draw_threshold(axis, found: Found) -> None:
    sizes = found.predicted.group_size.values
    for optimizer, colour, name in (
        ("adam", style.BLUE, "Adam (unit: logits),\nsecond moment held"),
        ("sgd", style.GREY, "heavy ball"),
    ):
        line = found.predicted.threshold.sel(optimizer=optimizer).values
        axis.plot(sizes, line, color=colour, linewidth=1.6)
        axis.plot(sizes, found.measured.threshold.sel(optimizer=optimizer), **style.MEASURED | {"color": colour})
        place = (0.97, 0.9) if optimizer == "sgd" else (0.03, 0.15)
        side = "right" if optimizer == "sgd" else "left"
        axis.text(*place, name, color=colour, ha=side, transform=axis.transAxes, fontsize=7)
    law = found.predicted.threshold.sel(optimizer="adam").values[-1] * np.sqrt(sizes[-1] / sizes)
    axis.plot(sizes, law, **style.LAW | {"linewidth": 1.0})
    axis.text(0.03, 0.05, r"dashed: $\sim 1/\sqrt{G}$", transform=axis.transAxes, fontsize=7)
    axis.set(xscale="log", yscale="log", xlabel="group size G", ylabel=f"threshold learning rate\n({style.RATE_UNIT})")
    axis.text(0.97, 0.68, KEY, ha="right", va="top", transform=axis.transAxes, fontsize=7)
    axis.margins(y=0.2)
    sheet.ticks_at(axis.xaxis, sizes)
    sheet.plain_log(axis.yaxis)
    axis.set_title(f"N = {found.setting.held.refresh_interval}, $\\beta_1$ = {found.setting.held.momentum:g}")


def _draw_response(axis, found: Found) -> None:
    fine = found.predicted.fine_factor.values
    axis.axhline(-1, color=style.GREY, linewidth=0.8, linestyle=":")
    axis.plot(fine, found.predicted.response_held_line, **style.LAW)
    axis.plot(fine, found.predicted.response_line, **style.EXACT)
    bars = style.MEASURED | {"capsize": 2, "elinewidth": 1}
    axis.errorbar(found.measured.factor, found.measured.response, 2 * found.measured.response_error, **bars)
    axis.text(0.03, 0.4, "second\nmoment\nheld", transform=axis.transAxes, fontsize=7)
    axis.text(
        0.97, 0.93, "predicted, self-consistent", color=style.BLUE, ha="right", transform=axis.transAxes, fontsize=7
    )
    axis.text(0.97, 0.84, "circles: measured", ha="right", transform=axis.transAxes, fontsize=7)
    axis.text(0.97, 0.17, "unstable", color=style.GREY, ha="right", transform=axis.transAxes, fontsize=7)
    axis.set(xscale="log", ylim=(-1.6, 0.8), xlabel="learning rate / held threshold", ylabel="response after one step")
    sheet.ticks_at(axis.xaxis, [0.25, 0.5, 1, 2, 4])
    axis.set_xlim(0.9 * fine[0], 1.1 * fine[-1])
    axis.set_title(f"Noisy runs, G = {found.setting.group_size}, N = 1, $\\beta_1$ = 0")


def _draw_curves(axis, found: Found) -> None:
    sizes = found.predicted.curve_size.values
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(sizes)))
    for row, (size, colour) in enumerate(zip(sizes, colours, strict=True)):
        axis.plot(found.predicted.step, found.predicted.reward.sel(curve_size=size), color=colour, linewidth=1.3)
        some = style.MEASURED | {"color": colour, "markersize": 3}
        axis.plot(found.measured.step, found.measured.reward.sel(curve_size=size), **some)
        place = (0.97, 0.06 + 0.09 * row)
        axis.text(*place, f"G = {size}", color=colour, ha="right", transform=axis.transAxes, fontsize=7)
    axis.text(0.97, 0.06 + 0.09 * len(sizes), KEY, ha="right", transform=axis.transAxes, fontsize=7)
    axis.set(xlabel="step (updates)", ylabel="expected reward")
    axis.set_title("Mean curves under Adam")
