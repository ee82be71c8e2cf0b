"""Drawing of experiments/temperature.py."""

import numpy as np

from bandit_lab.study.plots import style
from bandit_lab.study.reproduce.experiment import Found

COLOURS = {0.0: style.BLUE, 0.9: style.VERMILION}


def draw(figure, found: Found, wide: bool) -> None:
    """Three panels: reuse, growth, lead."""
    figure.set_figheight(2.7 if wide else 7.2)
    axes = figure.subplots(1, 3) if wide else figure.subplots(3, 1)
    _draw_reuse(axes[0], found)
    _draw_growth(axes[1], found)
    _draw_lead(axes[2], found)


def _loops(found: Found, momentum: float) -> np.ndarray:
    return np.flatnonzero(found.predicted.momentum.values == momentum)


def _intervals(axis, found: Found) -> None:
    ticks = sorted(set(found.predicted.refresh_interval.values.tolist()))
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(t) for t in ticks])
    axis.set_xlabel("refresh interval N (steps)")


def _key(axis, x: float, y: float) -> None:
    axis.text(x, y, "lines: predicted\ncircles: measured", transform=axis.transAxes, fontsize=7)


def _draw_reuse(axis, found: Found) -> None:
    shares = found.predicted.reused_share.values
    axis.axhline(1, **style.LAW)
    for momentum, colour in COLOURS.items():
        mine = _loops(found, momentum)
        n = found.predicted.refresh_interval.values[mine]
        for place, share in enumerate(shares):
            line = found.predicted.reuse_per_interval.values[mine, place]
            axis.plot(n, line, color=colour, linewidth=1.3)
            axis.plot(n, found.measured.reuse_per_interval.values[mine, place], **style.MEASURED | {"color": colour})
            if momentum > 0:
                axis.annotate(
                    f"{share:g}", (n[-1], line[-1]), (5, -2), textcoords="offset points", color=colour, fontsize=7
                )
    axis.text(
        0.03,
        0.05,
        r"$\mu$ = 0.9, at these shares" "\nof the threshold",
        color=style.VERMILION,
        transform=axis.transAxes,
        fontsize=7,
    )
    axis.text(0.03, 0.93, r"$\mu$ = 0: N-fold at every share", color=style.BLUE, transform=axis.transAxes, fontsize=7)
    _key(axis, 0.03, 0.24)
    _intervals(axis, found)
    axis.set(ylabel="variance, reused / fresh / N", ylim=(0.35, 1.2))
    axis.set_xlim(0.8, 2 * max(found.predicted.refresh_interval.values))
    axis.set_title("One batch for a block: N-fold variance")


def _draw_growth(axis, found: Found) -> None:
    for momentum, colour in COLOURS.items():
        loop = _loops(found, momentum)[-1 if momentum else 0]
        n = int(found.predicted.refresh_interval[loop])
        axis.plot(found.predicted.fine_share, found.predicted.growth_line[loop], color=colour, linewidth=1.6)
        axis.plot(found.measured.share, found.measured.growth[loop], **style.MEASURED | {"color": colour})
        high = float(found.predicted.growth_line[loop, -1])
        place = (0.87, high) if momentum else (0.97, 0.72 * found.setting.warning)
        axis.text(*place, f"N = {n}, $\\mu$ = {momentum:g}", color=colour, ha="right", va="center", fontsize=7)
    axis.axhline(found.setting.warning, color=style.GREY, linewidth=0.8)
    axis.text(0.08, 1.06 * found.setting.warning, "warning", color=style.GREY, fontsize=7)
    axis.axvline(1, color=style.GREY, linewidth=0.8, linestyle=":")
    axis.set(yscale="log", xlim=(0.05, 1.02), xlabel="learning rate / threshold")
    axis.set_ylabel("variance / learning rate (1 at 0.1)")
    axis.set_title("It grows without bound at the threshold")
    _key(axis, 0.03, 0.8)


def _draw_lead(axis, found: Found) -> None:
    for momentum, colour in COLOURS.items():
        mine = _loops(found, momentum)
        n = found.predicted.refresh_interval.values[mine]
        axis.plot(n, found.predicted.lead.values[mine], color=colour, linewidth=1.6)
        axis.plot(n, found.measured.lead.values[mine], **style.MEASURED | {"color": colour})
        last = float(found.predicted.lead.values[mine[-1]])
        axis.annotate(
            f"$\\mu$ = {momentum:g}", (n[-1], last), (5, -2), textcoords="offset points", color=colour, fontsize=7
        )
    _intervals(axis, found)
    axis.set(ylabel="lead (share of the threshold)", ylim=(0, 0.75))
    axis.set_xlim(0.8, 2.6 * max(found.predicted.refresh_interval.values))
    axis.set_title("Lead of the warning")
    _key(axis, 0.03, 0.05)
