"""Drawing of experiments/real_runs.py."""

import numpy as np

from bandit_lab.study.figures.real_runs.problem import NAMES, fitted_curve, read_logs, softmax_gain
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found

SHADES = (s.VERMILION, s.BLUE, s.GREEN, s.PURPLE, s.GREY)
MARKS, SIGNS = ("o", "s", "^", "D", "v"), "○□△◇▽"


def draw(figure, found: Found, wide: bool) -> None:
    """Small multiples above, differences of AICc and times below."""
    figure.set_figheight(7.2)
    head, top, bottom = figure.subfigures(3, 1, height_ratios=(0.16, 2.2, 1.4))
    for place, (name, shade) in zip((0.01, 0.23, 0.42, 0.67, 0.84), zip(NAMES, SHADES, strict=True), strict=True):
        count = int((found.measured.chosen == NAMES.index(name)).sum())
        head.text(place, 0.7, f"{name} {count}", color=shade, fontsize=6.5, va="center")
    key = "reward over step, own scales; dots: log, line: law fitted"
    head.text(0.01, 0.2, key, fontsize=6.5, va="center")
    _multiples(top, found, 13 if wide else 8)
    left, right = bottom.subplots(1, 2)
    _differences(left, found)
    _factors(right, found)


def _multiples(part, found: Found, columns: int) -> None:
    logs = read_logs(found.setting)
    axes = part.subplots(-(-len(logs) // columns), columns, squeeze=False)
    for panel in axes.flat:
        panel.set(xticks=[], yticks=[])
        panel.set_visible(False)
    order = sorted(logs, key=lambda log: (int(found.measured.chosen.sel(run=log.name)), log.name))
    for panel, log in zip(axes.flat, order, strict=False):
        fit = found.measured.sel(run=log.name)
        panel.set_visible(True)
        panel.plot(log.curve.step, log.curve.reward, ".", color="#B0B0B0", markersize=1.3, markeredgewidth=0)
        panel.plot(log.curve.step, fitted_curve(fit, log.curve.step), color=SHADES[int(fit.chosen)], linewidth=1.1)
        panel.spines[:].set_linewidth(0.4)


def _differences(panel, found: Found) -> None:
    values = np.sort(softmax_gain(found).values)
    shade = np.where(values > 4, s.BLUE, np.where(values < -4, s.VERMILION, s.GREY))
    panel.bar(np.arange(values.size), np.clip(values, -30, 30), color=shade, width=1.0)
    panel.axhline(0, color=s.BLACK, linewidth=0.6)
    panel.set(xlabel="runs, sorted", ylabel="AICc, oscillator less softmax", ylim=(-31, 42))
    panel.text(0, 35, f"by > 4: softmax {int((values > 4).sum())}", color=s.BLUE, fontsize=6.5)
    text = f"by > 4: oscillator {int((values < -4).sum())}"
    panel.text(values.size, -28, text, color=s.VERMILION, fontsize=6.5, ha="right")


def _factors(panel, found: Found) -> None:
    m = found.measured
    span = np.array([0.5, 4.5])
    panel.plot(span, 1 / span, **s.LAW)
    panel.axhline(1.0, **(s.LAW | {"linewidth": 0.8}))
    for code, (name, shade) in enumerate(
        zip((r"$\eta$", r"$K_{ref}$", "$G$"), (s.BLUE, s.VERMILION, s.GREEN), strict=True)
    ):
        for group in np.unique(m.group.values[m.factor_code.values == code]):
            here = m.group.values == group
            origin = str(m.member.values[here][0]).partition(": ")[2].partition(".")[0]
            _say(panel, 0.3 - 0.07 * group, f"{SIGNS[int(group)]} {name} {origin}", shade)
            order = np.argsort(m.factor_ratio.values[here])
            x, y = m.factor_ratio.values[here][order], m.time_ratio.values[here][order]
            panel.plot(
                x, y, marker=MARKS[int(group)], color=shade, markerfacecolor="white", markersize=4, linewidth=0.7
            )
    _say(panel, 0.86, "dashed: predicted, 1/x for\n$\\eta$ and $K_{ref}$, 1 for $G$", s.BLACK)
    panel.set(xscale="log", yscale="log", ylabel="time, over first run's")
    label = "learning rate $\\eta$,\nupdates per cycle $K_{ref}$,\ngroup size $G$ / first run's"
    panel.set_xlabel(label, fontsize=7)
    panel.minorticks_off()
    panel.set_xticks([1, 2, 4], ["1", "2", "4"])
    panel.set_yticks([0.1, 0.25, 0.5, 1, 2], ["0.1", "0.25", "0.5", "1", "2"])
    panel.set(xlim=(0.9, 4.6), ylim=(0.012, 6))


def _say(panel, y: float, text: str, shade: str) -> None:
    panel.text(0.03, y, text, color=shade, fontsize=6.5, transform=panel.transAxes)
