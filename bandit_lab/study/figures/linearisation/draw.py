"""Drawing of experiments/linearisation.py."""

import numpy as np
from matplotlib.colors import ListedColormap

from bandit_lab.study.figures.linearisation.problem import FAR
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

FILLS = ("#D9ECF9", "#FCEBC4", "#E8A07A")
THROWN_LABEL = (-2.9, 1.7)  # where the first block throws out
COLOURS = (s.BLUE, s.PURPLE, s.GREEN, s.VERMILION)
MARKERS = ("o", "^", "s", "D")
TOP = 12.0  # logits: where runs farther out are drawn


def draw(figure, found: Found, wide: bool) -> None:
    """Boundary over prediction against displacement; amplitude against learning rate; map of basins."""
    figure.set_figheight(2.9 if wide else 7.2)
    axes = figure.subplots(1, 3) if wide else figure.subplots(3, 1)
    _draw_boundary(axes[0], found)
    _draw_amplitude(axes[1], found)
    _draw_basins(axes[2], found)


def _loops(found: Found):
    """(place, look) of every loop."""
    for place, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        yield place, s.MEASURED | {"color": colour, "marker": marker, "markersize": 3.4}


def _name_loops(panel, found: Found, left: float, top: float) -> None:
    """Marker and name of every loop, in axes coordinates."""
    for place, look in _loops(found):
        name = str(found.measured.loop.values[place]).replace("mu", r"$\mu$").replace("N", "$N$")
        text = {"color": look["color"], "fontsize": 7, "va": "center", "transform": panel.transAxes}
        panel.plot(left, top - 0.085 * place, **look, transform=panel.transAxes)
        panel.text(left + 0.04, top - 0.085 * place, name, **text)


def _draw_boundary(panel, found: Found) -> None:
    panel.axhline(1, **s.EXACT | {"linewidth": 1.2})
    for place, look in _loops(found):
        measured = found.measured.isel(loop=place)
        ratio = measured.boundary / found.predicted.threshold.isel(loop=place)
        panel.plot(measured.displacement, ratio.isel(steps=-1), **look)
        panel.plot(
            measured.displacement, ratio.isel(steps=0), **look | {"marker": "", "linestyle": ":", "linewidth": 1}
        )
    short, long = (f"{steps:,}" for steps in found.setting.steps)
    note = f"line: predicted\nmarkers: measured, {long} steps\ndotted: measured, {short} steps"
    panel.text(0.97, 0.06, note, ha="right", fontsize=7, transform=panel.transAxes)
    _name_loops(panel, found, 0.33, 0.7)
    panel.set(xlabel="displacement at the start (logits)", ylabel="boundary / linear threshold", ylim=(0.45, 1.1))


def _draw_amplitude(panel, found: Found) -> None:
    excess = np.array(found.setting.excess)
    for place, look in _loops(found):
        measured = found.measured.isel(loop=place)
        lost = measured.farthest.values > FAR
        panel.plot(excess[~lost], measured.amplitude[~lost], **look | {"clip_on": True})
        if lost.any():
            panel.plot(excess[lost], np.full(lost.sum(), TOP), **look)
    if (found.measured.farthest > FAR).any():
        text = {"fontsize": 7, "ha": "right", "va": "center"}
        panel.text(0.9, 0.95, "thrown\nfar out", transform=panel.transAxes, **text)
    beyond, amplitude = found.predicted.orbit_ratio - 1, found.predicted.orbit_amplitude
    attracts = np.abs(found.predicted.orbit_slope) < 1
    panel.plot(beyond.where(attracts), amplitude, **s.EXACT | {"linewidth": 1.2})
    panel.plot(beyond.where(~attracts), amplitude, **s.EXACT | {"linewidth": 1.2, "linestyle": ":"})
    panel.set(xscale="log", yscale="log", xlim=(excess[0] / 1.5, excess[-1] * 1.5), ylim=(0.04, 1.25 * TOP))
    panel.set(xlabel=r"$\eta$ / threshold - 1", ylabel="amplitude of the gap (logits)")
    _name_loops(panel, found, 0.06, 0.95)
    note = "line: predicted (A)\ndotted: repels\nmarkers: measured"
    panel.text(0.97, 0.02, note, ha="right", fontsize=7, transform=panel.transAxes)
    sheet.ticks_at(panel.xaxis, (0.01, 0.03, 0.1, 0.3, 1))
    sheet.plain_log(panel.yaxis, (1.0,))


def _draw_basins(panel, found: Found) -> None:
    """Fills are measured, lines predicted."""
    basin, line = found.measured.basin, s.EXACT | {"linewidth": 1.4}
    panel.pcolormesh(
        basin.start, basin.ratio, basin, cmap=ListedColormap(FILLS), vmin=-0.5, vmax=2.5, shading="nearest", linewidth=0
    )
    panel.axhline(1, **line)
    ratio, attracts = found.predicted.fine_ratio, np.abs(found.predicted.point_slope) < 1
    for side in found.predicted.side:
        panel.plot(found.predicted.thrown_edge.sel(side=side), ratio, **line)
        point = found.predicted.orbit_point.sel(side=side)
        panel.plot(point.where(attracts), ratio, **line | {"linewidth": 1})
        panel.plot(point.where(~attracts), ratio, **line | {"linewidth": 1, "linestyle": ":"})
    text = {"fontsize": 7, "ha": "center", "va": "center"}
    panel.text(0.5 * float(basin.start[0] + basin.start[-1]), 0.5 * float(1 + basin.ratio[0]), "all return", **text)
    panel.text(0.7 * float(basin.start[-1]), 1.75, "cycle", **text)
    panel.text(THROWN_LABEL[0], THROWN_LABEL[1], "thrown\nfar out", **text)
    panel.text(0.97, 0.04, "fills measured, lines predicted", **text | {"ha": "right"}, transform=panel.transAxes)
    panel.set(xlabel="displacement at the start (logits)", ylabel=r"$\eta$ / threshold")
    panel.set_title(str(found.measured.loop.values[0]).replace("mu", r"$\mu$").replace("N", "$N$"), fontsize=7)
