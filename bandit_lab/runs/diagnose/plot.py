"""Runs as `diagnose` sees them: reward with held-out results, entropy and silent groups below, evidence shaded."""

import textwrap
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bandit_lab.app.plots import style as s
from bandit_lab.app.terminal.report import middle_cut
from bandit_lab.runs.diagnose import Diagnosis
from bandit_lab.runs.fit.plot import COLUMNS, HELD_OUT, RAW, step_label, subplots_of
from bandit_lab.runs.logs.findings import begun, marks, verdict_text
from bandit_lab.runs.logs.runs import LogRow
from bandit_lab.runs.read import Curve

_SMOOTH: s.Look = {"color": s.BLUE, "linewidth": 1.6}
_BEGIN: s.Look = {"color": s.VERMILION, "linestyle": (0, (3, 2)), "linewidth": 1}
_BEHIND = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
_COLOURS = (s.VERMILION, s.PURPLE, s.ORANGE, s.SKY)
_BELOW = {
    "entropy": "entropy\n(nats)",
    "zero_std_frac": "silent\ngroups",
    "kl": "KL\n(nats)",
    "grad_norm": "gradient\nnorm",
}
"""Logged quantities with a panel of their own, and its label."""
_ASKED = {"grad_norm": {"grad_norm_explosion", "gradient_lost"}}
"""Those that are drawn only where the verdict rests on them: on such measures."""
_WHOLE = 0.95
"""Share of a run from which a finding is about all of it."""


def diagnosis_figure(name: str, curve: Curve, found: Diagnosis) -> Figure:
    """Reward above, one low panel for each further quantity below."""
    below = _drawn_below(curve, found)
    figure, axes = plt.subplots(
        1 + len(below), 1, figsize=(5.6, 3.2 + 0.95 * len(below)), sharex=True, squeeze=False,
        gridspec_kw={"height_ratios": [3.0] + [1.0] * len(below)},
    )  # fmt: skip
    for axis, key, colour in zip(axes[1:, 0], below, _COLOURS, strict=False):
        axis.plot(curve.series[key].step, curve.series[key].value, color=colour, linewidth=1.1)
        axis.set_ylabel(_BELOW[key], fontsize=7.5)
        if key == "grad_norm" and np.all(curve.series[key].value > 0):
            axis.set_yscale("log")
        _shade(axis, curve, found)
    handles = _marked(axes[0, 0], curve, found)
    figure.align_ylabels()
    verdict = "\n".join(textwrap.wrap(_verdict(found), 72))
    axes[0, 0].set_title(_title(name, 60, verdict), fontsize=9)
    axes[-1, 0].set_xlabel(step_label(curve.step_unit))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _drawn_below(curve: Curve, found: Diagnosis) -> list[str]:
    """The quantities that have a panel."""
    rests = {one.metric for finding in found.findings if finding.present for one in finding.evidence if one.above}
    logged = [key for key in _BELOW if curve.series.get(key, curve.leading) is not curve.leading]
    return [key for key in logged if key not in _ASKED or rests & _ASKED[key]]


def diagnosis_on(axis: plt.Axes, name: str, curve: Curve, found: Diagnosis) -> None:
    """The reward alone, on given axes."""
    s.legend_on(axis, _marked(axis, curve, found))
    axis.set_title(_title(name, 45, verdict_text(found, True)), fontsize=8.5)
    axis.set_xlabel(step_label(curve.step_unit))


def _marked(axis: plt.Axes, curve: Curve, found: Diagnosis) -> list[Line2D | Patch]:
    """The reward, with numbers on the evidence, each where its steps begin."""
    handles = _reward(axis, curve)
    _shade(axis, curve, found)
    seen = marks(found)
    for number, (first, last, text) in enumerate(seen, start=1):
        told = "the whole run" if _whole(curve, first, last) else f"steps {first:g} to {last:g}"
        handles.append(Patch(facecolor=s.YELLOW, alpha=0.4, label=f"{number}: {text}, {told}"))
    if any(not _whole(curve, first, last) for first, last, _ in seen):
        handles.append(Line2D([], [], label="where it begins", **_BEGIN))
    start, end = float(curve.leading.step[0]), float(curve.leading.step[-1])
    for first, numbers, line in begun([first for first, _, _ in seen], end - start):
        late = first > end - 0.1 * (end - start)
        axis.annotate(
            numbers, (first, 1), (-3 if late else 3, -2 - 11 * line), xycoords=("data", "axes fraction"),
            textcoords="offset points", fontsize=9, weight="bold", color=s.VERMILION, va="top",
            ha="right" if late else "left", bbox=_BEHIND,
        )  # fmt: skip
    return handles


def _shade(axis: plt.Axes, curve: Curve, found: Diagnosis) -> None:
    """The steps of what was found, the first by a line; what holds for the whole run leaves nothing to mark."""
    windows = {(first, last) for first, last, _ in marks(found) if not _whole(curve, first, last)}
    for first, last in sorted(windows):
        axis.axvspan(first, last, facecolor=s.YELLOW, alpha=0.16, linewidth=0)
        axis.axvline(first, **_BEGIN)


def _whole(curve: Curve, first: float, last: float) -> bool:
    return last - first >= _WHOLE * float(curve.leading.step[-1] - curve.leading.step[0])


def _verdict(found: Diagnosis) -> str:
    """The verdict, and what it does not cover: `healthy` says nothing of a failure that could not be judged."""
    unknown = [name.replace("_", " ") for name in found.unjudged]
    text = verdict_text(found, False)
    return f"{text} (not judged: {', '.join(unknown)})" if unknown and "not judged" not in text else text


def _title(name: str, length: int, verdict: str) -> str:
    return f"{middle_cut(name, length)}\n{verdict}".replace("$", r"\$")


def small_multiples(rows: Sequence[LogRow[Diagnosis]]) -> Figure:
    """A page of runs: reward, held-out results, evidence shaded, verdict in the title."""
    figure, axes = subplots_of([row.curve.step_unit for row in rows], 0.9, 1.6)
    for axis, row in zip(axes, rows, strict=True):
        _small(axis, row)
    handles = _handles(any(row.curve.eval is not None for row in rows))
    if any(marks(row.found) for row in rows):
        handles.append(Patch(facecolor=s.YELLOW, alpha=0.4, label="what the verdict rests on"))
    figure.legend(handles=handles, loc="outside upper center", ncols=1 + min(COLUMNS, len(rows)) // 2, fontsize=7)
    return figure


def side_by_side(runs: Sequence[tuple[str, Curve, Diagnosis]]) -> Figure:
    """Rewards of two runs on the same axes' scales, one panel each, what the verdict rests on shaded."""
    figure, axes = plt.subplots(1, len(runs), figsize=(9.0, 3.4), sharey=True, squeeze=False)
    for axis, (name, curve, found) in zip(axes[0], runs, strict=True):
        _reward(axis, curve)
        for first, last, _ in marks(found):
            axis.axvspan(first, last, facecolor=s.YELLOW, alpha=0.3, linewidth=0)
        axis.set_title(_title(name, 45, verdict_text(found, True)), fontsize=8.5)
        axis.set_xlabel(step_label(curve.step_unit))
        axis.label_outer()
    handles = _handles(any(curve.eval is not None for _, curve, _ in runs))
    if any(marks(found) for _, _, found in runs):
        handles.append(Patch(facecolor=s.YELLOW, alpha=0.4, label="what the verdict rests on"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=7.5)
    return figure


def _small(axis: plt.Axes, row: LogRow[Diagnosis]) -> None:
    curve, found = row.curve, row.found
    axis.plot(curve.leading.step, curve.leading.value, **(RAW | {"markersize": 2.2}))
    axis.plot(*_smooth(curve), **(_SMOOTH | {"linewidth": 1.1}))
    if curve.eval is not None:
        axis.plot(curve.eval.step, curve.eval.value, **(HELD_OUT | {"markersize": 2.6}))
    for first, last, _ in marks(found):
        axis.axvspan(first, last, facecolor=s.YELLOW, alpha=0.3, linewidth=0)
    harm, unjudged = len(found.notes) < len(found.severity), found.verdict == ("not_judged",)
    title = _title(row.log.name, 30, verdict_text(found, True))
    axis.set_title(title, fontsize=6.5, color=s.VERMILION if harm else s.GREY if unjudged else s.BLACK)


def _smooth(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Running means of step and reward [n - w + 1], or of what is logged instead."""
    step, value = curve.leading.step, curve.leading.value
    width = int(np.clip(value.size // 15, 1, 40))
    ones = np.ones(width) / width
    return np.convolve(step, ones, mode="valid"), np.convolve(value, ones, mode="valid")


def _handles(held_out: bool, shown: str = "reward") -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = [
        Line2D([], [], label=f"logged {shown}", **(RAW | {"markersize": 8})),
        Line2D([], [], label="running mean", **_SMOOTH),
    ]
    return handles + ([Line2D([], [], label="held-out result", **HELD_OUT)] if held_out else [])


def _reward(axis: plt.Axes, curve: Curve) -> list[Line2D | Patch]:
    axis.plot(curve.leading.step, curve.leading.value, **RAW)
    axis.plot(*_smooth(curve), **_SMOOTH)
    shown = "reward" if curve.reward.size else curve.leading.key
    axis.set_ylabel(shown)
    handles = _handles(curve.eval is not None, shown)
    if curve.eval is not None:
        axis.plot(curve.eval.step, curve.eval.value, **HELD_OUT)
    if (lost := curve.nonfinite_steps).size:
        axis.plot(lost, np.full(lost.size, axis.get_ylim()[0]), "|", color=s.PURPLE, clip_on=False)
        handles.append(Line2D([], [], label="reward not finite", color=s.PURPLE, marker="|", linestyle="none"))
    return handles
