"""Drawing of experiments/group_size.py."""

import matplotlib
import numpy as np

from bandit_lab.study.plots import style

KEY = "lines: predicted\ncircles: measured"


def draw(figure, found, wide):
    figure.set_figheight(5.2 if wide else 9.4)
    axes = figure.subplots(2, 2).ravel() if wide else figure.subplots(4, 1)
    _draw_curves(axes[0], found, "rloo", "Leave-one-out: one curve for all G")
    _draw_curves(axes[1], found, "grpo", "Divided by the group's std: not one curve")
    _draw_map(axes[2], found)
    _draw_variance(axes[3], found)


def _draw_curves(axis, found, rule, title):
    time, sizes = found.predicted.time.values, found.predicted.group_size.values
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(sizes)))
    axis.plot(time, found.predicted.reward_infinite.sel(rule=rule), zorder=3, **style.LAW)
    for row, (size, colour) in enumerate(zip(sizes, colours, strict=True)):
        if rule == "grpo":
            axis.plot(time, found.predicted.reward.sel(rule=rule, group_size=size), color=colour, linewidth=1.3)
        seen = slice(1 + row % 3, None, 3)
        some = style.MEASURED | {"color": colour, "markersize": 3.2}
        axis.plot(time[seen], found.measured.reward.sel(rule=rule, group_size=size)[seen], **some)
        place = (0.97, 0.06 + 0.085 * (len(sizes) - 1 - row))
        axis.text(*place, f"G = {size}", color=colour, transform=axis.transAxes, ha="right", fontsize=7)
    axis.text(0.97, 0.06 + 0.085 * len(sizes), "- - G = infinity", transform=axis.transAxes, ha="right", fontsize=7)
    axis.set(ylim=(0, 1.03), xlabel=f"learning rate x steps\n({style.RATE_UNIT})", ylabel="expected reward")
    axis.text(0.03, 0.97, KEY, transform=axis.transAxes, va="top", fontsize=7)
    axis.set_title(title)


def _draw_map(axis, found):
    sizes, fine = found.measured.group_size.values, found.predicted.fine_size.values
    for level, colour in zip(found.predicted.level.values, (style.VERMILION, style.BLUE, style.GREEN), strict=True):
        line = found.predicted.failure_line.sel(level=level)
        axis.plot(fine, line, color=colour, linewidth=1.6)
        axis.plot(fine, found.predicted.failure_law.sel(level=level), **style.LAW | {"linewidth": 1.0})
        some = style.MEASURED | {"color": colour}
        axis.plot(sizes, found.measured.failure_at_level.sel(level=level), **some)
        last = int(np.flatnonzero(np.isfinite(line))[-1])
        axis.annotate(
            f"{level:g}", (fine[last], line[last]), (4, -2), textcoords="offset points", color=colour, fontsize=7
        )
    axis.set(xscale="log", yscale="log", xlabel="group size G", ylabel="failure probability 1 - p", ylim=(1e-4, 0.7))
    axis.set_xlim(1.7, 2.1 * fine[-1])
    axis.set_title("Group factor $c_G(p)$: where it is 0.5, 0.9, 0.99")
    axis.text(0.03, 0.06, "dashed: 1 - 1/(8 G p(1-p))", transform=axis.transAxes, fontsize=7)
    axis.text(0.97, 0.97, KEY, transform=axis.transAxes, ha="right", va="top", fontsize=7)


def _draw_variance(axis, found):
    sizes = found.predicted.group_size.values
    names = {"noisy": (style.BLUE, "rewards 0.9 and 0.2"), "balanced": (style.VERMILION, "certain rewards, p = 1/2")}
    for case, (colour, name) in names.items():
        for loop, marker in enumerate("os"):
            line = found.predicted.variance.sel(case=case, loop=loop)
            axis.plot(sizes, line, color=colour, linewidth=1.5, linestyle="-" if loop == 0 else (0, (4, 2)))
            seen = found.measured.variance.sel(case=case, loop=loop)
            axis.plot(sizes, seen, **style.MEASURED | {"color": colour, "marker": marker, "markersize": 4 - loop})
        slope = float(found.predicted.variance_slope.sel(case=case, loop=0))
        place = (0.97, 0.9) if case == "noisy" else (0.03, 0.06)
        side = "right" if case == "noisy" else "left"
        text = f"{name}: slope {slope:.2f}"
        axis.text(*place, text, color=colour, transform=axis.transAxes, ha=side, fontsize=7)
    axis.set(xscale="log", yscale="log", xlabel="group size G", ylabel="variance (reward$^2$)")
    axis.text(
        0.97, 0.84, "lines: predicted\nmarkers: measured", transform=axis.transAxes, ha="right", va="top", fontsize=7
    )
    axis.set_title("Stationary variance (circles N = 1, squares N = 4)")
