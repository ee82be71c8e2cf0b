"""Drawing of experiments/three_phases.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found


def draw(figure, found: Found, wide: bool) -> None:
    """Gains, speed by stage, curvature, equal budget."""
    panels = figure.subplots(2, 3) if wide else figure.subplots(3, 2)
    figure.set_figheight(4.2 if wide else 5.6)
    a, b, c, d, e, f = panels.ravel()
    predicted, measured = found.predicted, found.measured
    ends = np.array([2.0, float(np.nanmax(measured.gain)) + 0.1])
    points = {"fmt": "o", "color": s.BLACK, "markersize": 2.2, "elinewidth": 0.6, "markeredgewidth": 0.5}
    for panel, x in ((a, predicted.gain), (b, 1 / measured.mean_std)):
        panel.errorbar(x, measured.gain, measured.gain_error, **points)
        panel.plot(ends, ends, **(s.EXACT if panel is a else s.LAW))
        panel.set_ylabel("measured gain")
    _say(a, 0.03, 0.97, "line: measured\n= predicted", va="top")
    _say(b, 0.97, 0.03, "dashed: gain\n= 1/mean std", ha="right")
    a.set_xlabel("predicted gain")
    b.set_xlabel("1/mean std (1/reward)")
    _draw_stages(c, predicted, measured)
    _draw_curvature(d, predicted, measured)
    for panel, condition in ((e, 0), (f, -1)):
        _draw_budget(panel, found, condition)
    for panel, letter in zip(panels.ravel(), "abcdef", strict=True):
        panel.set_title(letter, loc="left", fontweight="bold")


def _say(panel, x: float, y: float, text: str, **where) -> None:
    panel.text(x, y, text, fontsize=6.5, transform=panel.transAxes, **where)


def _draw_curvature(panel, predicted, measured) -> None:
    success = np.linspace(0.001, 0.999, 400)
    constant, std = float(predicted.curvature_constant), np.sqrt(success * (1 - success))
    panel.plot(std, constant * np.abs(std**2 * (1 - 2 * success)), **s.EXACT)
    panel.plot([0, 0.5], [0, constant / 8], **s.LAW)
    seen = np.sqrt(measured.success * (1 - measured.success))
    panel.plot(seen, np.abs(measured.curvature), **s.MEASURED | {"markersize": 2.5})
    panel.text(0.22, 0.09, "bound", ha="right", fontsize=7)
    _say(panel, 0.03, 0.97, "line: predicted\ncircles: measured", va="top")
    panel.set(xlabel="std (reward)", ylabel="|curvature| (1/logit$^2$)")


def _draw_stages(panel, predicted, measured) -> None:
    looks = ((s.BLUE, "o"), (s.GREEN, "^"), (s.VERMILION, "s"))
    for i, (color, marker) in enumerate(looks):
        seen, line = measured.isel(overlap=i), predicted.isel(overlap=i)
        panel.plot(line.stage, line.speed_ratio, color=color)
        look = {"color": color, "marker": marker, "markersize": 3, "elinewidth": 0.6, "markerfacecolor": "white"}
        panel.errorbar(seen.stage, seen.speed_ratio, seen.speed_ratio_error, linestyle="none", **look)
        text = f"overlap {float(seen.overlap):g}"
        panel.text(0.02, 1.0 - 0.11 * i, text, color=color, fontsize=7, va="top", transform=panel.transAxes)
    panel.axhline(2.0, **s.LAW | {"linewidth": 0.8})
    _say(panel, 0.03, 0.02, "lines: predicted\nmarkers: measured\ndashed: 1/(largest std)")
    panel.set(ylim=(1.25, None), xlabel="share of way to 90 %", ylabel="speed ratio")


def _draw_budget(panel, found: Found, condition: int) -> None:
    looks = {0.0: (s.BLACK, "mean only"), 0.5: (s.GREEN, r"/ std$^{1/2}$"), 1.0: (s.BLUE, "/ std")}
    fair, powers = found.setting.fair, list(found.measured.power.values)
    for i, power in enumerate(powers):
        color, name = looks[float(power)]
        curve = found.measured.final.sel(power=power).isel(condition=condition)
        panel.plot(curve.rate, curve, "o-", color=color, markersize=2.5, linewidth=1)
        if condition == 0:
            panel.text(0.97, 0.05 + 0.11 * i, name, color=color, ha="right", fontsize=7, transform=panel.transAxes)
    if condition == 0:
        _say(panel, 0.97, 0.05 + 0.11 * len(powers), "measured:", ha="right")
    where = "orthogonal" if condition == 0 else f"overlap {fair.overlap[condition]:g}, conflict"
    panel.set_title(where, fontsize=7, loc="right")
    panel.set(xscale="log", ylabel="reward, equal budget")
    panel.set_xlabel(f"learning rate\n({s.RATE_UNIT})", fontsize=7)
    sheet.ticks_at(panel.xaxis, found.setting.fair.rates[::2])
