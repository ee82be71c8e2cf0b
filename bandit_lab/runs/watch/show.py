"""The run that is watched on one terminal page, and as a document for the HTML page."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandit_lab._text import visible
from bandit_lab.app.document import Block, Column, Document, Figure, On, Paragraph, Table, Values
from bandit_lab.app.document.as_page import HEAD as PAGE_HEAD
from bandit_lab.app.document.value import number
from bandit_lab.runs.logs.findings import verdict_text
from bandit_lab.runs.monitor import Alarm
from bandit_lab.runs.watch.state import Watched

_LEVELS = " ▁▂▃▄▅▆▇█"
WIDE, HIGH = 64, 6
"""Size of the small plot [characters]."""
TITLE = "A run that is watched"
HEAD = f"{PAGE_HEAD}<title>{TITLE}</title>"
"""How the HTML page begins."""


def lines(run: Watched) -> list[str]:
    """What is known, one sentence a line."""
    monitor = run.monitor
    if not monitor.rows and run.final is None:
        told = f"{run.lines} rows without a reward" if run.lines else run.source.waiting or "waits for rows"
        return [f"{run.source.about}: {told}"]
    state = f"step {monitor.step:g}, {monitor.rows} rewards" if monitor.rows else "judged as a whole"
    state += f", taken up again {monitor.restarts} times" if monitor.restarts else ""
    made = [f"{run.source.about}: {state}", f"verdict: {verdict(run)}"]
    made += [f"  {'' if _stands(run, one) else 'earlier alarm, not in the whole log: '}{alarm_text(one)}"
             for one in monitor.alarms]  # fmt: skip
    made += [f"forecast: {_forecast(run)}", f"margin: {_margin(run)}"]
    return [*made, *(f"note: {event}" for event in run.source.events[-3:])]


def verdict(run: Watched) -> str:
    """What `diagnose` says once no more comes; before, the alarms, with the strongest score below one."""
    if run.final is not None:
        return verdict_text(run.final, short=False)
    words = ", ".join(run.monitor.verdict).replace("_", " ")
    below = {name: score for name, score in run.monitor.scores.items() if name not in run.monitor.verdict}
    if not below:
        return words
    name = max(below, key=lambda one: below[one])
    return f"{words} (nearest: {name.replace('_', ' ')}, score {below[name]:.2f}; 1 is its threshold)"


def _stands(run: Watched, alarm: Alarm) -> bool:
    return run.final is None or alarm.failure in run.final.verdict


def alarm_text(alarm: Alarm) -> str:
    """One alarm in words."""
    return f"{alarm.failure.replace('_', ' ')} at step {alarm.step:g}: {visible(alarm.text)}"


def _forecast(run: Watched) -> str:
    value = run.forecast
    if value.value is None:
        return f"none: {value.reason}"
    return f"reward {value.text()} at step {run.horizon:.0f} (90 % interval)"


def _margin(run: Watched) -> str:
    value = run.margin
    if value.value is None:
        return f"unknown: {value.reason}"
    return f"{number(value.value, 3)} times to the threshold of stability"


def small_plot(values: np.ndarray, wide: int = WIDE, high: int = HIGH) -> list[str]:
    """A curve [n] in block characters, its highest and lowest mean at the left."""
    groups = np.array_split(values, min(wide, values.size))
    means = np.array([group.mean() for group in groups])
    low, high_end = float(means.min()), float(means.max())
    eighths = np.round((means - low) / max(high_end - low, 1e-300) * (8 * high - 1)).astype(int) + 1
    rows = []
    for level in range(high - 1, -1, -1):
        marks = "".join(_LEVELS[int(np.clip(one - 8 * level, 0, 8))] for one in eighths)
        label = number(high_end, 3) if level == high - 1 else number(low, 3) if level == 0 else ""
        rows.append(f"{label:>9} {marks}")
    return rows


def terminal(run: Watched) -> Any:
    """The page for rich."""
    from rich.text import Text

    curve = run.monitor.curve()
    plot = [] if curve is None else small_plot(curve.reward)
    return Text("\n".join([*plot, "", *lines(run)] if plot else lines(run)), overflow="fold")


def document(run: Watched) -> Document:
    """The HTML page, and what the Python interface gives."""
    columns: Sequence[Column[Alarm]] = [
        Column("failure", "alarm", lambda one: one.failure, text=lambda one: one.failure.replace("_", " ")),
        Column("step", "at step", lambda one: one.step),
        Column("row", "row", lambda one: one.row),
        Column("text", "evidence", lambda one: one.text, left=True),
    ]
    blocks: list[Block] = [Paragraph(line) for line in lines(run)]
    curve = run.monitor.curve()
    if curve is not None and curve.reward.size > 1:
        blocks.insert(
            0, Figure(lambda: _drawn(run), "reward against step, alarms marked, forecast with interval", dpi=110)
        )
    about = {
        "log": str(run.source.path),
        "verdict": list(run.monitor.verdict if run.final is None else run.final.verdict),
        "step": run.monitor.step,
        "rewards": run.monitor.rows,
        "restarts": run.monitor.restarts,
        "forecast": run.forecast,
        "margin": run.margin,
    }
    blocks += [Values(about, on=On.JSON), Table(run.monitor.alarms, columns, name="alarms")]
    return Document(TITLE, {"": blocks})


def _drawn(run: Watched) -> Any:
    import matplotlib.pyplot as plt

    from bandit_lab.app.plots import style as s

    curve = run.monitor.curve()
    assert curve is not None
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    axes.plot(curve.step, curve.reward, color=s.BLUE, linewidth=1.2, label="reward (block means)")
    if curve.eval is not None:
        axes.plot(curve.eval.step, curve.eval.value, "^", color=s.GREEN, markersize=4, label="held-out")
    for place, alarm in enumerate(run.monitor.alarms):
        axes.axvline(alarm.step, color=s.VERMILION, linestyle="--", linewidth=1, label=None if place else "alarm")
        label, at = alarm.failure.replace("_", " "), (alarm.step, 0.02 + 0.09 * place)
        axes.annotate(label, at, xycoords=("data", "axes fraction"), fontsize=8, ha="right", color=s.VERMILION)
    value = run.forecast
    if value.value is not None and value.low is not None and value.high is not None:
        error = [[value.value - value.low], [value.high - value.value]]
        axes.errorbar([run.horizon], [value.value], yerr=error, fmt="D", color=s.BLACK, capsize=3, markersize=4,
                      label="forecast, 90 %")  # fmt: skip
    axes.set_xlabel("step")
    axes.set_ylabel("reward")
    axes.legend(fontsize=8, frameon=False)
    return figure
