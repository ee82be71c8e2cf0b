"""Reward curves with their fits: one run in detail, many as small multiples."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bandit_lab.app.plots import style as s
from bandit_lab.app.terminal.report import middle_cut
from bandit_lab.runs.fit.work import Fitted
from bandit_lab.runs.logs.findings import begun, marks
from bandit_lab.runs.logs.runs import LogRow

COLUMNS = 4
NOISE = "#D9ECF9"
RAW: s.Look = {"linestyle": "none", "marker": ".", "color": s.GREY, "markersize": 4.5, "markeredgewidth": 0}
FIT: s.Look = {"color": s.BLUE, "linewidth": 1.6}
HELD_OUT: s.Look = {"linestyle": "none", "marker": "^", "color": s.GREEN, "markersize": 4, "markerfacecolor": "white"}
ARRIVAL: s.Look = {"color": s.BLACK, "linestyle": (0, (1, 1.5)), "linewidth": 1.1}


@dataclass(frozen=True)
class RunPanel:
    """What is drawn of one run. Steps and rewards in the log's units; `model` is the law's name.

    `plateau`, `arrival` = (value, low, high), ends may be infinite; `held_out` = (steps, values); `lost` steps
    without a finite reward; `events` = (first step, last step, text) that are shaded and numbered.
    """

    title: str
    step: np.ndarray
    reward: np.ndarray
    fitted: np.ndarray
    sigma: float
    model: str
    unit: str = "step"
    plateau: tuple[float, float, float] | None = None
    arrival: tuple[float, float, float] | None = None
    held_out: tuple[np.ndarray, np.ndarray] | None = None
    lost: np.ndarray = field(default_factory=lambda: np.zeros(0))
    events: Sequence[tuple[float, float, str]] = ()


def panel(row: LogRow[Fitted]) -> RunPanel:
    """The picture's content for one run."""
    curve, best = row.curve, row.found.best
    plateau, tau = best.parameters["plateau"], best.parameters.get("tau_95")
    first = float(curve.step[0])
    held_out = None if curve.eval is None else (curve.eval.step, curve.eval.value)
    bounded = tau is not None and np.isfinite(tau.high)
    return RunPanel(
        title=row.log.name,
        step=curve.step,
        reward=curve.reward,
        fitted=best.fitted,
        sigma=best.parameters["sigma"].value,
        model=best.law,
        unit=curve.step_unit,
        plateau=(plateau.value, plateau.low, plateau.high),
        arrival=(first + tau.value, first + tau.low, first + tau.high) if tau is not None and bounded else None,
        held_out=held_out,
        lost=curve.nonfinite_steps,
        events=marks(row.found.diagnosis),
    )


def run_figure(panel: RunPanel) -> Figure:
    """One run: logged rewards, the law with its noise, plateau, held-out results, events."""
    figure, axis = plt.subplots(figsize=(7.0, 4.6))
    handles = _run(axis, panel)
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=7.5)
    return figure


def run_on(axis: Axes, panel: RunPanel) -> None:
    """The picture of a run on given axes."""
    s.legend_on(axis, _run(axis, panel))


def _run(axis: Axes, panel: RunPanel) -> list[Line2D | Patch]:
    handles = _curve(axis, panel, detailed=True)
    axis.set(xlabel=step_label(panel.unit), ylabel="reward")
    axis.set_title(_title(middle_cut(panel.title, 90)), fontsize=9)
    return handles


def small_multiples(panels: Sequence[RunPanel]) -> Figure:
    """A page of runs, at most PER_PAGE of them."""
    beside = len(panels) if len(panels) < 3 else 4  # entries of the legend in a line: a narrow page holds not all four
    figure, axes = subplots_of([panel.unit for panel in panels], 0.75 + 0.15 * (4 // beside), 1.55)
    for axis, panel in zip(axes, panels, strict=True):
        _curve(axis, panel, detailed=False)
        axis.set_title(f"{_title(middle_cut(panel.title, 30))}\n{panel.model.replace('_', ' ')}", fontsize=6.5)
    handles = [
        Line2D([], [], label="logged reward", **RAW),
        Line2D([], [], label="chosen law", **FIT),
        Patch(color=NOISE, label="90 % of its noise"),
        Patch(facecolor="none", edgecolor=s.ORANGE, label="its plateau, 90 % interval, cut at the frame"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=beside, fontsize=7)
    return figure


def subplots_of(units: Sequence[str], head: float, each: float) -> tuple[Figure, list[Axes]]:
    """A page of small panels, one per run, with the labels that they share.

    units: of each run's steps. head, each: inches above the panels, and of a row of them.
    """
    columns = min(COLUMNS, len(units))
    rows = -(-len(units) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(0.6 + 2.15 * columns, head + each * rows), squeeze=False)
    for axis in axes.flat:
        axis.tick_params(labelsize=6.5)
        axis.locator_params(nbins=4)
    for axis in axes.flat[len(units) :]:
        axis.set_visible(False)
    figure.supxlabel(step_label(units[0]) if len(set(units)) == 1 else "step (as each log counts)", fontsize=8)
    figure.supylabel("reward", fontsize=8)
    return figure, list(axes.flat[: len(units)])


def step_label(unit: str) -> str:
    """What stands below an axis of steps in a log's unit."""
    return "step (unit not known)" if unit == "unknown" else f"step ({unit}s)"


def _curve(axis: Axes, panel: RunPanel, *, detailed: bool) -> list[Line2D | Patch]:
    """Draw one run; returns the legend's handles."""
    handles: list[Line2D | Patch] = []
    band = 1.645 * panel.sigma
    axis.fill_between(panel.step, panel.fitted - band, panel.fitted + band, color=NOISE, linewidth=0)
    axis.plot(panel.step, panel.reward, **(RAW if detailed else RAW | {"markersize": 2.5}))
    axis.plot(panel.step, panel.fitted, **(FIT if detailed else FIT | {"linewidth": 1.2}))
    low, high = _frame(panel, detailed=detailed)
    axis.set_ylim(low, high)
    handles += [
        Line2D([], [], label="logged reward", **(RAW | {"markersize": 8})),
        Line2D([], [], label=panel.model.replace("_", " "), **FIT),
        Patch(color=NOISE, label="90 % of the noise around it"),
    ]
    if panel.plateau is not None:
        handles += _plateau(axis, panel, low, high)
    if detailed:
        handles += _extras(axis, panel)
    return handles


def _plateau(axis: Axes, panel: RunPanel, low: float, high: float) -> list[Line2D | Patch]:
    """A bracket at the right end that holds the interval of the chosen law's plateau, cut at the frame."""
    assert panel.plateau is not None
    bottom, top = (float(np.clip(end, low, high)) for end in panel.plateau[1:])
    width = 0.02 * float(np.ptp(panel.step))
    axis.bar(panel.step[-1] + 1.5 * width, top - bottom, width, bottom, facecolor="none", edgecolor=s.ORANGE)
    text = "plateau of this law, 90 % interval"
    if not np.all(np.isfinite(panel.plateau)):
        text += "\n(open where it meets the frame)"
    elif (bottom, top) != panel.plateau[1:]:
        text += "\n(goes on beyond the frame)"
    return [Patch(facecolor="none", edgecolor=s.ORANGE, label=text)]


def _extras(axis: Axes, panel: RunPanel) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    if panel.held_out is not None:
        axis.plot(*panel.held_out, **HELD_OUT)
        handles.append(Line2D([], [], label="held-out result", **HELD_OUT))
    if panel.arrival is not None and panel.arrival[0] <= axis.get_xlim()[1]:
        axis.axvline(panel.arrival[0], **ARRIVAL)
        handles.append(Line2D([], [], label="95 % of the gain", **ARRIVAL))
    if panel.lost.size:
        bottom = axis.get_ylim()[0]
        axis.plot(panel.lost, np.full(panel.lost.size, bottom), "|", color=s.PURPLE, clip_on=False)
        handles.append(Line2D([], [], label="reward not finite", color=s.PURPLE, marker="|", linestyle="none"))
    for first, numbers, line in begun([first for first, _, _ in panel.events], float(np.ptp(panel.step))):
        below = "\n" * line
        axis.text(first, axis.get_ylim()[1], f"{below} {numbers}", va="top", fontsize=8, weight="bold")
    for number, (first, last, text) in enumerate(panel.events, start=1):
        axis.axvspan(first, last, facecolor=s.YELLOW, alpha=0.18, linewidth=0)
        handles.append(Patch(facecolor=s.YELLOW, alpha=0.3, label=f"{number}: {text}"))
    return handles


def _frame(panel: RunPanel, *, detailed: bool) -> tuple[float, float]:
    """Reward range that shows all points, and up to half as much more of the plateau's interval."""
    shown = [panel.reward.min(), panel.reward.max()]
    if detailed and panel.held_out is not None:
        shown += [panel.held_out[1].min(), panel.held_out[1].max()]
    room = 0.5 * (max(shown) - min(shown)) or 0.5
    wanted = list(shown)
    wanted += [] if panel.plateau is None else [v for v in panel.plateau if np.isfinite(v)]
    low, high = max(min(wanted), min(shown) - room), min(max(wanted), max(shown) + room)
    margin = 0.06 * (high - low) or 0.1
    return float(low - margin), float(high + margin)


def _title(text: str) -> str:
    return text.replace("$", r"\$")
