"""Drawing of experiments/overdamped_limit.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found

SMALL = s.MEASURED | {"markersize": 3.2, "linewidth": 0.8}
SHADES = (s.VERMILION, s.ORANGE, s.GREEN, s.BLUE)


def draw(figure, found: Found, wide: bool) -> None:
    """Four panels, in a row or two by two."""
    figure.set_figheight(2.3 if wide else 4.2)
    panels = figure.subplots(1, 4) if wide else figure.subplots(2, 2).ravel()
    for panel, fill in zip(panels, (_draw_curves, _draw_distance, _draw_times, _draw_family), strict=True):
        fill(panel, found)


def _draw_curves(panel, found: Found) -> None:
    zeta, gone = found.predicted.damping_ratio.values, found.predicted.gone
    for place, (wanted, shade) in enumerate(zip(found.setting.damping.shown, SHADES, strict=True)):
        i = int(np.argmin(np.abs(np.log(zeta / wanted))))
        panel.plot(gone, found.predicted.closed_form[i], color=shade, linewidth=1.2)
        panel.plot(gone[::3], found.measured.curve[i][::3], "o", color=shade, markersize=2.2, markerfacecolor="white")
        panel.text(5, 0.44 - 0.1 * place, rf"$\zeta$ = {zeta[i]:.2g}", color=shade, fontsize=6.5, ha="right")
    panel.plot(gone, found.predicted.exponential, **s.LAW)
    panel.text(5, 0.04, "- - exponential", fontsize=6.5, ha="right")
    panel.text(0.1, 1.48, "lines: predicted\ncircles: measured", fontsize=6.5, va="top")
    panel.set(xlabel=r"time / $\tau$", ylabel="share of the gain", xlim=(0, 5), ylim=(0, 1.5))


def _draw_distance(panel, found: Found) -> None:
    zeta = found.predicted.damping_ratio
    panel.plot(zeta[zeta > 1.3], found.predicted.distance_leading[zeta > 1.3], **s.LAW)
    panel.plot(zeta, found.predicted.distance_closed_form, **s.EXACT)
    panel.plot(zeta, found.measured.distance, **SMALL)
    panel.set(yscale="log", ylabel="distance to exponential / gain", ylim=(None, 1))
    panel.text(1.5, 0.13, "closed form", fontsize=6.5, color=s.BLUE)
    panel.text(0.05, 0.08, "- - leading order", fontsize=6.5, transform=panel.transAxes)
    _damping_axis(panel)


def _draw_times(panel, found: Found) -> None:
    zeta, m = found.predicted.damping_ratio, found.measured
    error = [m.fitted_time - m.fitted_time_low, m.fitted_time_high - m.fitted_time]
    panel.axhline(1.0, **s.LAW)
    panel.plot(zeta, found.predicted.fitted_time, **s.EXACT)
    panel.errorbar(zeta, m.fitted_time, error, **(SMALL | {"clip_on": True}))
    panel.set(ylim=(0.6, 4), ylabel=r"fitted time / $\tau$")
    panel.text(0.98, 0.9, f"R² = {float(m.r_squared.min()):.2f} or more\nat every $\\zeta$", fontsize=6.5, ha="right",
               va="top", transform=panel.transAxes)  # fmt: skip
    _damping_axis(panel)


def _draw_family(panel, found: Found) -> None:
    p, m = found.predicted, found.measured
    error = [m.family_time - m.family_time_low, m.family_time_high - m.family_time]
    panel.plot(p.size, p.inverse_stiffness, **s.LAW)
    panel.plot(p.size, p.apparent_time, **s.EXACT)
    panel.errorbar(p.size, m.family_time, error, **SMALL)
    panel.set(xscale="log", yscale="log", xlabel=r"relative size $M$", ylabel="fitted time (steps)", ylim=(100, 2000))
    panel.minorticks_off()
    panel.set_yticks([100, 200, 500, 1000, 2000], ["100", "200", "500", "1000", "2000"])
    panel.text(2.2, 640, "inverse\nstiffness", fontsize=6.5, ha="center")
    panel.text(100, 220, "bent by\nsoftmax", fontsize=6.5, ha="right", color=s.BLUE)


def _damping_axis(panel) -> None:
    panel.set(xscale="log", xlabel=r"damping ratio $\zeta$")
    panel.minorticks_off()
    ticks = [one for one in (0.25, 0.5, 1, 2, 4, 8) if one <= 1.02 * panel.dataLim.x1]
    panel.set_xticks(ticks, [f"{one:g}" for one in ticks])
