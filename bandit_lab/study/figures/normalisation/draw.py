"""Drawing of experiments/normalisation.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found

COLOURS = (s.VERMILION, s.BLUE, s.GREEN, s.PURPLE, s.ORANGE)


def draw(figure, found: Found, wide: bool) -> None:
    """Loss against time; curvature against its bound."""
    figure.set_figheight(3.0 if wide else 4.8)
    left, right = (
        figure.subplots(1, 2, width_ratios=(1.35, 1)) if wide else figure.subplots(2, 1, height_ratios=(1.2, 1))
    )
    _losses(left, found)
    _curvatures(right, found)


def _losses(panel, found: Found) -> None:
    labels = ("mean only", r"std, $G = \infty$", "std, $G$ = 8", "std, $G$ = 64", "silent groups\ndropped, $G$ = 8")
    time = found.predicted.time.values
    for curve, colour, text in zip(found.predicted.curve.values, COLOURS, labels, strict=True):
        predicted, measured = (d.loss.sel(curve=curve).values for d in (found.predicted, found.measured))
        panel.plot(time, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        late = found.predicted.late_law.sel(curve=curve).values
        panel.plot(time, np.where(late < 0.05, late, np.nan), **s.LAW | {"linewidth": 0.8})
        panel.plot(time, measured, **s.MEASURED | {"color": colour, "markersize": 2.8})
        end = np.flatnonzero(np.isfinite(predicted))[-1]
        panel.text(1.25 * time[end], predicted[end], text, color=colour, va="center", fontsize=6.5)
    panel.set_xlim(time[0] / 1.3, 9 * time[-1])
    panel.set(
        xscale="log", yscale="log", xlabel=rf"learning rate $\times$ steps ({s.RATE_UNIT})", ylabel=r"loss $1 - p$"
    )
    panel.set_ylim(found.setting.smallest_loss, 1)
    panel.text(
        0.03, 0.04, "line: exact flow\ndashed: late law\ncircle: measured", transform=panel.transAxes, fontsize=6.5
    )


def _curvatures(panel, found: Found) -> None:
    bound, seen = found.predicted.uniform_bound.values, np.abs(found.measured.curvature.values)
    least = 1e-4 * bound.max()
    shown = seen > least
    panel.plot(bound[shown], seen[shown], ".", color=s.SKY, markersize=2.5, zorder=1)
    panel.plot(bound[-2:], seen[-2:], **s.MEASURED | {"marker": "D", "color": s.VERMILION})
    ends = np.array([bound[shown].min() * 0.8, bound.max() * 1.2])
    panel.plot(ends, ends, **s.EXACT)
    panel.set(xscale="log", yscale="log", xlabel=r"bound $B^2\,\sigma_r$ (reward / logit$^2$)")
    panel.set_ylabel(r"curvature $|u^T H u|$ (reward / logit$^2$)")
    panel.set_ylim(least, ends[1] * 1.3)
    text = {"va": "top", "transform": panel.transAxes, "fontsize": 6.5}
    panel.text(0.05, 0.95, "line: bound reached", color=s.BLUE, **text)
    panel.text(0.05, 0.88, "points: random policies\ndiamond: $p\\,(1-p) = 1/8$\n(both measured)", **text)
