"""Drawing of experiments/diagnostics.py."""

import numpy as np
import xarray

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Found

DARK = 0.6  # share from which a field is too dark for black digits
SHORT = ("healthy", "hacking", "degeneracy", "concentration", "instability")
SPLIT = ("healthy", "hacking", "degen-\neracy", "concen-\ntration", "insta-\nbility")
COLOURS = (s.BLACK, s.VERMILION, s.ORANGE, s.PURPLE, s.BLUE)


def draw(figure, found: Found, wide: bool) -> None:
    """Reward of all five, what separates each, and both tables of verdicts."""
    measured = found.measured
    if wide:
        figure.set_figheight(5.2)
        panels = figure.subplot_mosaic([["curve", "curve", "held", "silent"], ["curve", "curve", "entropy", "late"],
                                        ["diag", "diag", "only", "only"]], height_ratios=[1, 1, 1.75])  # fmt: skip
    else:
        figure.set_figheight(8.6)
        panels = figure.subplot_mosaic([["curve", "curve"], ["held", "silent"], ["entropy", "late"], ["diag", "diag"],
                                        ["only", "only"]], height_ratios=[1.5, 0.9, 0.9, 1.6, 1.6])  # fmt: skip
    for place, colour in enumerate(COLOURS):
        one = measured.isel(kind=place)
        panels["curve"].plot(*_smooth(measured.step.values, one.reward.values), color=colour, linewidth=1.3)
        panels["curve"].text(
            0.98, 0.31 - 0.07 * place, SHORT[place], color=colour, ha="right", fontsize=7,
            transform=panels["curve"].transAxes,
        )  # fmt: skip
    panels["curve"].set(ylabel="training reward", xlabel="step", ylim=(-0.05, 1.0))
    panels["curve"].set_title("what the curve shows (means of 9 steps)", fontsize=8)
    _beside(panels, measured)
    _table(panels["diag"], measured.by_diagnostics.values, "runs, with diagnostics (may name several)")
    _table(panels["only"], measured.by_curve.values, "runs, from the reward curve alone")


def _beside(panels, measured: xarray.Dataset) -> None:
    """Held-out result, silent groups, entropy, raw reward: the failing run against the healthy one."""
    steps = measured.step.values
    drawn = {
        "held": ("held_out", 1, "held-out result (reward)"),
        "silent": ("silent", 2, "silent groups (share)"),
        "entropy": ("entropy", 3, "entropy (nats)"),
        "late": ("reward", 4, "raw reward"),
    }
    for name, (variable, place, label) in drawn.items():
        x = measured.evaluation.values if variable == "held_out" else steps
        for kind in (0, place):
            panels[name].plot(x, measured[variable].isel(kind=kind), color=COLOURS[kind], linewidth=0.9)
        panels[name].set_title(label, fontsize=7.5)
        panels[name].set_ylim(bottom=0)
        panels[name].set_xlim(0, steps[-1] + 1)
        panels[name].set_xlabel("step", fontsize=7)
        panels[name].tick_params(labelsize=6.5)


def _smooth(step: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ones = np.ones(9) / 9
    return np.convolve(step, ones, mode="valid"), np.convolve(values, ones, mode="valid")


def _table(axis, counts: np.ndarray, title: str) -> None:
    shares = counts / np.maximum(counts.max(), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > DARK else "black"
            axis.text(column, row, str(count), color=colour, ha="center", va="center", fontsize=7)
    axis.set_xticks(range(len(SHORT)), SPLIT, fontsize=6.5)
    axis.set_yticks(range(len(SHORT)), SHORT, fontsize=6.5)
    axis.set_xlabel("named", fontsize=7)
    axis.set_ylabel("true", fontsize=7)
    axis.tick_params(length=0)
    axis.set_title(title, fontsize=8)
