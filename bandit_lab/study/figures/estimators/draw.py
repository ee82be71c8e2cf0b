"""Drawing of experiments/estimators.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

SHADES = (s.GREEN, s.VERMILION, s.PURPLE)
LOOKS = {
    "frozen": (s.BLUE, "o"),
    "uncorrected": (s.GREEN, "s"),
    "ratio": (s.VERMILION, "D"),
    "clipped": (s.PURPLE, "x"),
}


def draw(figure, found: Found, wide: bool) -> None:
    """Thresholds of the estimators, the island, the limit of long blocks."""
    figure.set_figheight(2.6 if wide else 6.4)
    axes = figure.subplots(1, 3) if wide else figure.subplots(3, 1)
    _draw_thresholds(axes[0], found)
    _draw_island(axes[1], found)
    _draw_limit(axes[2], found)


def _draw_thresholds(panel, found: Found) -> None:
    for name in found.setting.estimators:
        predicted, measured = (
            found.predicted.threshold.sel(estimator=name),
            found.measured.threshold.sel(estimator=name),
        )
        colour, marker = LOOKS[name]
        panel.plot(predicted.refresh_interval, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        fill = {"markerfacecolor": "none", "markersize": 3.4 if name != "ratio" else 4.6}
        panel.plot(measured.refresh_interval, measured, **s.MEASURED | {"color": colour, "marker": marker} | fill)
    panel.set(
        xscale="log",
        yscale="log",
        xlabel=r"refresh interval $N$ (steps)",
        ylabel=f"threshold learning rate\n({s.RATE_UNIT})",
    )
    sheet.ticks_at(panel.xaxis, (1, 4, 16, 64))
    text = {"fontsize": 7, "transform": panel.transAxes}
    panel.text(0.05, 0.06, "frozen", color=s.BLUE, **text)
    panel.text(0.05, 0.15, "uncorrected", color=s.GREEN, **text)
    panel.text(0.68, 0.98, "ratio", color=s.VERMILION, ha="right", va="top", **text)
    panel.text(0.97, 0.98, "clipped", color=s.PURPLE, ha="right", va="top", **text)
    panel.text(0.97, 0.75, "in all panels\nlines: predicted\nmarkers: measured", ha="right", va="top", **text)
    low, high = float(found.predicted.threshold.min()), float(found.predicted.threshold.max())
    panel.set_ylim(low / 2, high * 3)


def _draw_island(panel, found: Found) -> None:
    first, last = found.predicted.island.values
    panel.axvspan(first - 0.5, last + 0.5, color=s.FILL[3], linewidth=0)
    for rho, colour in zip(found.setting.islands.rho, SHADES, strict=True):
        predicted, measured = found.predicted.radius.sel(rho=rho), found.measured.radius.sel(rho=rho)
        panel.plot(predicted.length, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        look = s.MEASURED | {"color": colour, "markersize": 2.6, "markeredgewidth": 0.7}
        panel.plot(measured.length[::4], measured[::4], **look)
        panel.text(
            79, float(predicted[-1]) - 0.05, rf"$\rho$ = {rho:g}", color=colour, fontsize=7, ha="right", va="top"
        )
    panel.axhline(1, color=s.GREY, linewidth=0.8)
    grows = found.measured.growing.values > 0
    panel.plot(found.measured.length[grows], np.full(grows.sum(), 1.36), linestyle="none", marker="|", color=s.BLACK)
    panel.text(last + 2, 1.36, "runs grow", fontsize=7, va="center")
    panel.text(last + 2, 1.27, "fill: predicted", fontsize=7, va="center")
    panel.set(xlabel=r"refresh interval $N$ (steps)", ylabel="|multiplier| of a block", ylim=(0.2, 1.45))
    panel.set_xlim(0, found.setting.islands.longest)


def _draw_limit(panel, found: Found) -> None:
    rho = found.predicted.long_rho
    panel.plot(rho, found.predicted.limit, **s.EXACT)
    panel.plot(rho, found.measured.limit, **s.MEASURED)
    for level in (-1, 1):
        panel.axhline(level, color=s.GREY, linewidth=0.8, zorder=0)
    panel.set(xlabel=r"$\rho$ = stale/fresh stiffness", ylabel="multiplier of a long block")
    panel.text(0.05, 0.06, "below -1: period two\nor a vertex", fontsize=7, transform=panel.transAxes)
