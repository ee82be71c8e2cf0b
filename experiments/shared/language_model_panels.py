"""Panels, table and readings of the experiment `language_model`."""

import numpy as np
import xarray
from matplotlib.axes import Axes

from bandit_lab._readings import farthest_from_one
from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce import sheet
from bandit_lab.lab.reproduce.experiment import Results, Setting

WITHIN = 0.25
"""By how much a threshold may be off."""

WORDS = {
    "sgd": "SGD, KL in the loss",
    "reward": "SGD, KL in the reward",
    "clip": "SGD, clip of 0.2",
    "adam": "AdamW",
    "warm": "AdamW, warm-up",
}
LOOKS = {
    "sgd": ("o", s.BLUE),
    "reward": ("s", s.VERMILION),
    "clip": ("^", s.BLUE),
    "adam": ("D", s.GREEN),
    "warm": ("v", s.GREEN),
}


def kind_of(label: str) -> str:
    """`sgd`, `reward`, `clip`, `adam` or `warm`, of a setting's label."""
    return label.partition("_")[0]


def ratios_of(found: Results) -> xarray.DataArray:
    """Measured over predicted threshold."""
    return found.measured.threshold / found.predicted.threshold


def stays(setting: Setting, objective: np.ndarray) -> bool:
    """Whether the last objective is a number, and not lower than the first by what counts."""
    return bool(objective[-1] >= objective[0] - setting.below)


def guarded(found: Results) -> float:
    """Share of SGD's guarded runs that stay; 1 where there are none."""
    each = found.measured.objective.sel(side="guarded")
    mine = [one.values for one in each if kind_of(str(one.bisected.values)) in ("sgd", "reward")]
    ends = [stays(found.setting, one) for one in mine if np.isfinite(one[0])]
    return float(np.mean(ends)) if ends else 1.0


def gain(found: Results) -> float:
    """Objective that a probed run gained in all over what was told from its first updates, the farthest from 1."""
    seen = found.measured.objective.sel(side="probed").values
    asked = np.isfinite(seen[:, 0])
    return farthest_from_one((seen[:, -1] - seen[:, 0])[asked], (found.predicted.end.values - seen[:, 0])[asked])


def draw_ratios(panel: Axes, found: Results) -> None:
    """Threshold over the predicted one, a row per setting."""
    labels = [str(label) for label in found.measured.bisected.values]
    panel.axvspan(1 - WITHIN, 1 + WITHIN, color="0.88", linewidth=0)
    panel.axvline(1, color=s.BLACK, linewidth=1)
    for place, (label, ratio) in enumerate(zip(labels, ratios_of(found).values, strict=True)):
        marker, colour = LOOKS[kind_of(label)]
        panel.plot(ratio, place, **s.MEASURED | {"color": colour, "marker": marker, "markersize": 5})
    words = [f"{WORDS[kind_of(label)]}, N = {int(n)}" for label, n in zip(labels, found.measured.updates, strict=True)]
    panel.set_yticks(range(len(labels)), words, fontsize=sheet.SMALLEST_TEXT)
    panel.set(xscale="log", xlabel="threshold, measured / predicted", xlim=(0.1, 4))
    panel.set_ylim(len(labels) - 0.5, -0.5)
    sheet.ticks_at(panel.xaxis, (0.125, 0.25, 0.5, 1, 2, 4))
    panel.set_title(f"grey: within {WITHIN:.0%}", fontsize=7)


def draw_courses(panel: Axes, found: Results) -> None:
    """Objective of SGD's runs on both sides of their threshold, and beyond it with the guard."""
    mine = found.measured.isel(bisected=[str(one)[:5] == "sgd_1" for one in found.measured.bisected.values])
    sides = (
        ("stays", s.BLUE, "stays"),
        ("leaves", s.VERMILION, "one grid step up, leaves"),
        ("guarded", s.GREEN, f"{found.setting.guard.beyond:g} times that, guarded"),
    )
    for side, colour, words in sides:
        for place, course in enumerate(mine.objective.sel(side=side).values):
            panel.plot(course, color=colour, linewidth=1, label=None if place else words)
    start = float(mine.objective[0, 0, 0])
    panel.set(xlabel="update", ylabel="success - KL weight x KL [reward]", ylim=(start - 0.3, start + 0.15))
    panel.legend(loc="lower left", fontsize=7, frameon=True, edgecolor="none")  # a run falls through it
    panel.set_title("SGD, N = 1, a line per seed", fontsize=7)


def table(found: Results) -> str:
    """Every bisection with its stiffness, its prediction, and what was measured."""
    head = (
        "| setting | N | K (2 s.e.) | stale share | K along | predicted | measured | ratio | left at | runs | guarded |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|---|"]
    for label, ratio in zip(found.measured.bisected.values, ratios_of(found).values, strict=True):
        p, m = found.predicted.sel(bisected=label), found.measured.sel(bisected=label)
        k = f"{float(p.stiffness):.3g} ± {2 * float(p.stiffness_std):.2g}"
        told = (p.stale / p.stiffness, p.along, p.threshold, m.threshold)
        numbers = " | ".join(f"{float(one):.3g}" for one in told)
        end = m.objective.sel(side="guarded").values
        held = "-" if np.isnan(end[0]) else "stays" if stays(found.setting, end) else "leaves"
        ends = f"{float(m.left_at):.0f} | {float(m.runs):.0f} | {held}"
        lines.append(f"| {label} | {int(m.updates)} | {k} | {numbers} | {ratio:.2f} | {ends} |")
    return "\n".join([*lines, "", f"Runs in all: {float(found.measured.runs.sum()):.0f}."])
