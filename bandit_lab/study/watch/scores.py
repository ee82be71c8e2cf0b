"""What `watch simulated=...` tells: the rate of false alarms with its interval, the delay of every failure."""

from typing import Any

from bandit_lab.study.document import Block, Column, Document, Paragraph, Table, Value, Values
from bandit_lab.study.watch.benchmark import Delay

LEVEL = 0.95


def clopper_pearson(part: int, whole: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a rate (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy import stats

    rest = (1 - level) / 2
    low = float(stats.beta.ppf(rest, part, whole - part + 1)) if part else 0.0
    high = float(stats.beta.isf(rest, part + 1, whole - part)) if part < whole else 1.0
    return low, high


def document(found: dict[str, Any]) -> Document:
    """Rates and delays."""
    wrong, runs = found["false_alarms"], found["runs"]
    low, high = clopper_pearson(wrong["any"], runs)
    rate = Value(wrong["any"] / runs).within(low, high, LEVEL, "not bounded")

    def middle(delay: Delay, name: str, unit: str) -> Value:
        return Value.of(getattr(delay, name), "never found", unit)

    columns: list[Column[Delay]] = [
        Column("failure", "failure", lambda one: one.failure.replace("_", " ")),
        Column(
            "false_alarms", "false alarms", lambda one: wrong[one.failure], text=lambda one: f"{wrong[one.failure]}"
        ),
        Column("runs", "runs with it", lambda one: one.runs),
        Column("alarmed", "alarm after onset", lambda one: one.alarmed),
        Column("found", "of its name", lambda one: one.found),
        Column("early", "alarm before onset", lambda one: one.early),
        Column("delay_rows", "median delay, rows", lambda one: middle(one, "rows", "rows"), digits=3),
        Column("delay_share", "share of the run", lambda one: middle(one, "share", "1"), digits=2),
    ]
    text = (
        f"False alarms over whole runs: {wrong['any']} of {runs} healthy runs, {100 * wrong['any'] / runs:.2f} % "
        f"(95 % interval {100 * low:.2f} to {100 * high:.2f} %); promised without"
        f" patience: {100 * found['target']:g} %. "
        f"Patience is half the run. Without it, which adds stalled: {wrong['without_patience']}."
    )
    values = Values(
        {
            "split": found["split"],
            "seed": found["seed"],
            "runs": runs,
            "target": found["target"],
            "false_alarm_rate": rate,
            "without_patience": Value(wrong["without_patience"] / runs),
        }
    )
    blocks: list[Block] = [values, Paragraph(text), Table(found["delays"], columns, name="delays")]
    return Document(f"Alarms on simulated runs, {found['split']}", {"watch": blocks})
