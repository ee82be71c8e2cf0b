"""Drawing of experiments/complex_stiffness.py."""

from matplotlib.lines import Line2D

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

COLOURS = {"refresh": s.BLUE, "lag": s.GREEN, "pipeline": s.VERMILION}
MARKERS = {"refresh": "o", "lag": "s", "pipeline": "D"}
LINES = ("-", (0, (1, 1.2)))  # the first and the second loop of a model
NAMES = {"grpo": "GRPO: divided by the std", "dr_grpo": "mean only", "rloo": "leave-one-out"}
SIGNS = {"grpo": ("o", s.BLUE), "dr_grpo": ("s", s.GREEN), "rloo": ("x", s.VERMILION)}


def draw(figure, found: Found, wide: bool) -> None:
    """How often a stiffness is complex; what that does to the threshold."""
    figure.set_figheight(3.1 if wide else 5.4)
    axes = figure.subplots(1, 2, width_ratios=(1, 1.35)) if wide else figure.subplots(2, 1, height_ratios=(1, 1.5))
    _draw_shares(axes[0], found)
    _draw_thresholds(axes[1], found)


def _draw_shares(panel, found: Found) -> None:
    for row, name in enumerate(found.setting.advantages):
        marker, colour = SIGNS[name]
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 4.0 if marker != "x" else 6.0}
        panel.plot(found.predicted.arms, found.predicted.complex_share.isel(advantage=row), color=colour, linewidth=1.2)
        panel.plot(found.measured.arms, found.measured.complex_share.isel(advantage=row), **look)
        top = 0.93 - 0.09 * row
        panel.plot(0.06, top, **look, transform=panel.transAxes)
        panel.text(0.11, top, NAMES[name], color=colour, fontsize=7, va="center", transform=panel.transAxes)
    panel.set(xlabel="arms", ylabel="share of bandits with a\ncomplex stiffness", ylim=(-0.02, 0.62), xscale="log")
    sheet.ticks_at(panel.xaxis, found.setting.arms)


def _draw_thresholds(panel, found: Found) -> None:
    panel.axhline(1, **s.LAW)
    where = {"transform": panel.get_yaxis_transform(), "ha": "right", "va": "bottom"}
    panel.text(0.985, 1.06, "law; below: unsafe", fontsize=7, **where)
    ratio = found.measured.threshold / found.predicted.law
    seen: dict[str, int] = {}
    handles = []  # not on the axes: an empty line there would count as one at the corner of the page
    for row, name in enumerate(found.predicted.loop.values):
        model = str(found.predicted.model.values[row])
        second = seen.setdefault(model, 0)
        seen[model] += 1
        colour, face = COLOURS[model], "white" if second == 0 else COLOURS[model]
        marks = s.MEASURED | {"color": colour, "marker": MARKERS[model], "markerfacecolor": face, "markersize": 3.6}
        line: s.Look = {"color": colour, "linestyle": LINES[second % 2], "linewidth": 1.4}
        panel.plot(found.predicted.angle, found.predicted.curve.isel(loop=row), **line)
        panel.plot(found.measured.argument, ratio.isel(loop=row), **marks)
        label = str(name).replace("mu", r"$\mu$").replace("N", "$N$")
        handles.append(Line2D([], [], **line | marks | {"linestyle": line["linestyle"], "label": label}))
    panel.set(xlabel="argument of the stiffness (degrees)", ylabel="threshold / law", yscale="log")
    panel.set(xlim=(0, found.setting.curve.stop), ylim=(0.002, 12))
    sheet.ticks_at(panel.yaxis, (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5))
    panel.legend(handles=handles, loc="lower left", title="lines exact, markers measured", title_fontsize=7)
