"""Drawing of experiments/stiffness.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found

MARKERS = {"refresh": ("o", s.BLUE), "lag": ("s", s.GREEN), "pipeline": ("D", s.VERMILION)}
NAMES = {"refresh": "A: refresh", "lag": "B: lag", "pipeline": "C: pipeline"}


def draw(figure, found: Found, wide: bool) -> None:
    """Thresholds on the diagonal; relative errors beside or below."""
    figure.set_figheight(3.0 if wide else 4.4)
    axes = figure.subplots(1, 2, width_ratios=(1.25, 1)) if wide else figure.subplots(2, 1, height_ratios=(2, 1))
    predicted, measured = found.predicted.threshold, found.measured.threshold
    ends = np.array([predicted.min() / 2, predicted.max() * 2])
    axes[0].plot(ends, ends, **s.EXACT | {"linewidth": 1.2, "zorder": 1})
    error = np.abs(measured / predicted - 1)
    for row, (model, (marker, colour)) in enumerate(MARKERS.items()):
        mine = (predicted.model == model).values
        look = {"marker": marker, "linestyle": "none", "markerfacecolor": "none", "color": colour, "markersize": 3.6}
        axes[0].plot(predicted[mine], measured[mine], markeredgewidth=0.8, **look)
        label = {"fontsize": 7, "color": colour, "transform": axes[0].transAxes}
        axes[0].plot(0.05, 0.93 - 0.09 * row, transform=axes[0].transAxes, **look)
        axes[0].text(0.09, 0.93 - 0.09 * row, NAMES[model], va="center", **label)
        axes[1].plot(predicted[mine], np.maximum(error[mine], 1e-11), markeredgewidth=0.8, **look)
    axes[0].set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes[0].set_ylabel(f"measured threshold $\\eta$\n({s.RATE_UNIT})")
    note = f"line: measured = predicted\n{error.size} random bandits"
    axes[0].text(0.97, 0.05, note, ha="right", fontsize=7, transform=axes[0].transAxes)
    axes[1].axhline(1e-3, **s.LAW | {"linewidth": 1.0})
    axes[1].text(0.97, 1.4e-3, "claimed", ha="right", va="bottom", fontsize=7, transform=axes[1].get_yaxis_transform())
    axes[1].set(xscale="log", yscale="log", xlim=ends, ylim=(1e-11, 2e-2), yticks=[1e-10, 1e-8, 1e-6, 1e-4, 1e-2])
    axes[1].set_ylabel("relative error")
    for panel in axes if wide else axes[1:]:
        panel.set_xlabel(f"predicted threshold $\\eta$ ({s.RATE_UNIT})")
    if not wide:
        axes[0].sharex(axes[1])
        axes[0].tick_params(labelbottom=False)
