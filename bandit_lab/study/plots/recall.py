"""Recall against the size of the planted effect, by the diagnostics and from the reward curve alone."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import beta

from bandit_lab.study.plots import style as s

_UNITS = {
    "reward_hacking": "fall of the true reward",
    "advantage_degeneracy": "share of silent groups",
    "policy_concentration": "share of the entropy lost",
    "dynamical_instability": "swing of the reward, peak to peak",
}


def recall_figure(found: dict[str, Any]) -> Figure:
    """Four panels; `found` is the `benchmark` of summary.json. Bars are 95 % Clopper-Pearson intervals."""
    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.6), sharey=True)
    looks = (("diagnose", s.BLUE, "o", "diagnose"), ("reward_only", s.ORANGE, "s", "reward curve alone"))
    for axis, (failure, unit) in zip(axes.flat, _UNITS.items(), strict=True):
        for place, (key, colour, marker, label) in enumerate(looks):
            rows = [row for row in found[key]["recall_by_effect"][failure] if row["runs"]]
            low, high, hits, runs = (
                np.array([row[k] for row in rows], float) for k in ("low", "high", "found", "runs")
            )
            middle = 0.5 * (low + high) + (place - 0.5) * 0.12 * (high - low)
            ends = np.nan_to_num(beta.ppf(0.025, hits, runs - hits + 1)), beta.ppf(0.975, hits + 1, runs - hits)
            share = hits / runs
            bars = np.array([share - ends[0], np.where(hits < runs, ends[1], 1.0) - share])
            axis.errorbar(middle, share, np.maximum(bars, 0), color=colour, marker=marker, markersize=4, capsize=2,
                          linewidth=1.2, label=label)  # fmt: skip
        axis.axvline(found["demanded"][failure], color=s.GREY, linestyle=(0, (4, 3)), linewidth=1)
        axis.set(xlabel=f"{unit}", ylim=(-0.03, 1.05))
        axis.set_title(failure.replace("_", " "))
    for axis in axes[:, 0]:
        axis.set_ylabel("share of runs found")
    axes[0, 0].legend(loc="center right")
    axes[0, 0].text(found["demanded"]["reward_hacking"], 0.02, " recall demanded from here", fontsize=7, color=s.GREY)
    return figure
