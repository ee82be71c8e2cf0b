"""Drawing of experiments/linearisation.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

COLOURS = (s.BLUE, s.PURPLE, s.GREEN, s.VERMILION)
MARKERS = ("o", "^", "s", "D")
FAR, TOP = 10.0, 12.0  # logits: a run farther out stays for long where the policy hardly moves; where it is drawn


def draw(figure, found: Found, wide: bool) -> None:
    """Boundary over prediction against displacement; amplitude against learning rate."""
    figure.set_figheight(2.9 if wide else 4.8)
    axes = figure.subplots(1, 2) if wide else figure.subplots(2, 1)
    axes[0].axhline(1, **s.EXACT | {"linewidth": 1.2})
    excess = np.array(found.setting.excess)
    for i, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 3.4}
        measured = found.measured.isel(loop=i)
        ratio = measured.boundary / found.predicted.threshold.isel(loop=i)
        axes[0].plot(measured.displacement, ratio.isel(steps=-1), **look)
        axes[0].plot(
            measured.displacement, ratio.isel(steps=0), **look | {"marker": "", "linestyle": ":", "linewidth": 1}
        )
        lost = measured.farthest.values > FAR
        axes[1].plot(excess[~lost], measured.amplitude[~lost], **look | {"clip_on": True})
        if lost.any():
            axes[1].plot(excess[lost], np.full(lost.sum(), TOP), **look)
        name = str(measured.loop.values).replace("mu", r"$\mu$").replace("N", "$N$")
        axes[1].text(0.04, 0.93 - 0.085 * i, name, color=colour, fontsize=7, transform=axes[1].transAxes)
    short, long = (f"{steps:,}" for steps in found.setting.steps)
    note = f"markers: runs of {long} steps\ndotted: of {short} steps"
    axes[0].text(0.97, 0.06, note, ha="right", fontsize=7, transform=axes[0].transAxes)
    if (found.measured.farthest > FAR).any():
        text = {"fontsize": 7, "ha": "right", "va": "center"}
        axes[1].text(0.9, 0.96, "far out for long", transform=axes[1].transAxes, **text)
    beyond, amplitude = found.predicted.orbit_ratio - 1, found.predicted.orbit_amplitude
    attracts = np.abs(found.predicted.orbit_slope) < 1
    axes[1].plot(beyond.where(attracts), amplitude, **s.EXACT | {"linewidth": 1.2})
    axes[1].plot(beyond.where(~attracts), amplitude, **s.EXACT | {"linewidth": 1.2, "linestyle": ":"})
    axes[0].set(xlabel="displacement at the start (logits)", ylabel="boundary / linear threshold", ylim=(0.45, 1.1))
    axes[1].set(xscale="log", yscale="log", xlim=(excess[0] / 1.5, excess[-1] * 1.5), ylim=(0.04, 1.25 * TOP))
    axes[1].set(xlabel=r"$\eta$ / threshold - 1", ylabel="amplitude of the gap (logits)")
    sheet.ticks_at(axes[1].xaxis, (0.01, 0.03, 0.1, 0.3, 1))
    sheet.plain_log(axes[1].yaxis, (1.0,))
