"""Drawing of experiments/slow_start.py."""

import xarray

from bandit_lab.study.figures.slow_start.problem import GOOD
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found

SHADE = (s.BLUE, s.GREEN, s.VERMILION)
SHADES = (s.BLACK, s.BLUE, s.GREEN, s.ORANGE, s.VERMILION)
SMALL = s.MEASURED | {"markersize": 3.2, "linewidth": 0.8}


def draw(figure, found: Found, wide: bool) -> None:
    """Four panels, in a row or two by two."""
    figure.set_figheight(2.4 if wide else 4.3)
    panels = figure.subplots(1, 4) if wide else figure.subplots(2, 2).ravel()
    for panel, fill in zip(panels, (_draw_sweep, _draw_delays, _draw_r_squared, _draw_gain), strict=True):
        fill(panel, found)


def _draw_sweep(panel, found: Found) -> None:
    gone = found.predicted.gone
    for place, (mu, shade) in enumerate(zip(found.predicted.momentum.values, SHADES, strict=False)):
        panel.plot(gone, found.predicted.success.sel(momentum=mu), color=shade, linewidth=1.2)
        points = found.measured.success.sel(momentum=mu)[::3]
        panel.plot(gone[::3], points, "o", color=shade, markersize=2.2, markerfacecolor="white")
        panel.text(28.5, 0.42 - 0.09 * place, rf"$\mu$ = {mu:g}", color=shade, fontsize=6.5, ha="right")
    text = {"fontsize": 6.5, "va": "top", "transform": panel.transAxes}
    panel.text(0.015, 0.98, "lines:\npredicted\ncircles:\nmeasured", **text)
    xlabel = "$t\\,\\eta/(1-\\mu)$ (" + s.RATE_UNIT.replace(" ", "\n", 1) + ")"
    panel.set(xlabel=xlabel, ylabel="success", xlim=(14, 29), ylim=(0, 1))


def _draw_delays(panel, found: Found) -> None:
    d = found.predicted.delay_constant
    panel.plot(d, d, color=s.GREY, linewidth=0.9)
    panel.plot(d, found.predicted.delay_leading, **s.LAW)
    for place, (rate, shade) in enumerate(zip(found.predicted.rate.values, (s.BLUE, s.VERMILION), strict=True)):
        panel.plot(d, found.predicted.delay.sel(rate=rate), color=shade, linewidth=1.2)
        panel.plot(d, found.measured.delay.sel(rate=rate), **(SMALL | {"color": shade}))
        text = rf"$\eta/(1-\mu)$ = {rate:g}"
        panel.text(0.03, 0.82 - 0.09 * place, text, color=shade, fontsize=6.5, transform=panel.transAxes)
    unit = "(" + s.RATE_UNIT.replace(" unit", "\nunit") + ")"
    panel.text(0.03, 0.71, unit, fontsize=6.5, va="top", transform=panel.transAxes)
    panel.text(0.03, 0.91, "- - leading order", fontsize=6.5, transform=panel.transAxes)
    panel.text(19.5, 3, "constant force", color=s.GREY, fontsize=6.5, ha="right")
    panel.set(xlabel=r"$\mu/(1-\mu)$ (steps)", ylabel="delay (steps)", xlim=(0, 20), ylim=(0, 70))


def _draw_r_squared(panel, found: Found) -> None:
    panel.axhline(GOOD, color=s.GREY, linewidth=0.9)
    m = found.measured
    _by_answers(panel, found, "rival_r_squared", m.r_squared_low, m.r_squared_high)
    panel.text(0.98, 0.04, "circles: median\nbars: 90 %", fontsize=6.5, ha="right", transform=panel.transAxes)
    panel.set(ylabel=r"$R^2$ of the wrong law", ylim=(0.7, 1))


def _draw_gain(panel, found: Found) -> None:
    panel.axhline(0, color=s.GREY, linewidth=0.9)
    m = found.measured
    _by_answers(panel, found, "aicc_gain", m.gain_low, m.gain_high)
    panel.set(ylabel="AICc, wrong law less true", ylim=(-10, 60))
    names = ("softmax from 12 %", "softmax from 27 %", "inertia, no softmax")
    for place, (name, shade) in enumerate(zip(names, SHADE, strict=True)):
        panel.text(0.17, 0.93 - 0.09 * place, name, color=shade, fontsize=6.5, transform=panel.transAxes)


def _by_answers(panel, found: Found, name: str, low: xarray.DataArray, high: xarray.DataArray) -> None:
    """Predicted lines and measured medians with 90 % ranges over the answers per point, one colour per origin."""
    answers = found.predicted.answers
    for place, shade in enumerate(SHADE):
        middle = found.measured[name][place]
        panel.plot(answers, found.predicted[name][place], color=shade, linewidth=1.2)
        shifted = answers * 1.08 ** (place - 1)
        error = [middle - low[place], high[place] - middle]
        panel.errorbar(shifted, middle, error, **(SMALL | {"color": shade, "clip_on": True}))
    panel.set(xscale="log", xlabel="answers per point")
    panel.minorticks_off()
    ticks = [one for one in (4, 16, 64, 256, 1024) if one <= float(answers.max())]
    panel.set_xticks(ticks, [str(one) for one in ticks])
