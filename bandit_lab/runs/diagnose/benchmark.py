"""What `diagnose simulated=...` tells: recall and false alarms, the detectors beside what sees only the curve."""

from typing import TYPE_CHECKING, Any

from bandit_lab.app.document import Block, Column, Figure, On, Table, Values
from bandit_lab.runs.logs.findings import paragraphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

Both = tuple[dict[str, Any], dict[str, Any]]
"""One failure: the scores of the diagnostics, and of what sees only the reward curve."""


def benchmark_blocks(found: dict[str, Any], picture: bool) -> list[Block]:
    """The numbers, the table of failures, and sentences on the rest."""

    def counted(title: str, place: int, part: str, whole: str) -> Column[Both]:
        return Column(f"{part}_{place}", title, lambda both: share_text(both[place][part], both[place][whole]))

    columns: list[Column[Both]] = [
        Column("failure", "failure", lambda both: both[0]["failure"].replace("_", " ")),
        Column("runs", "runs", lambda both: both[0]["present"]),
        counted("found: diagnose", 0, "found", "present"),
        counted("reward curve only", 1, "found", "present"),
        counted("added where absent", 0, "added", "absent"),
        counted("by reward curve only", 1, "added", "absent"),
    ]
    rows = list(zip(found["diagnose"]["failures"], found["reward_only"]["failures"], strict=True))
    table = Table(rows, columns, title=f"{found['runs']} simulated runs, {found['split']}", on=On.SHOWN)
    drawn = Figure(lambda: _drawn(found), "recall against effect size", "recall")
    return [Values(found, on=On.JSON), table, *paragraphs(_lines(found)), *([drawn] if picture else [])]


def _drawn(found: dict[str, Any]) -> "Drawn":
    from bandit_lab.runs.diagnose.plot import recall_figure

    return recall_figure(found)


def _lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for key, name in (("diagnose", "diagnose"), ("reward_only", "reward curve only")):
        one = found[key]
        lines.append(
            f"{name}: mean recall {one['macro_recall']:.3f}, "
            f"false alarms on healthy runs {share_text(one['false_alarms'], one['healthy'])}"
        )
    lines += _grade_lines(found["diagnose"]["grades"])
    targets = found["targets"]
    lines.append(f"Targets: mean recall >= {targets['recall']:g}, false alarms <= {100 * targets['false_alarms']:g} %.")
    return lines


def _grade_lines(found: dict[str, Any]) -> list[str]:
    """How findings were graded, and whether the true reward, which nobody saw, agrees."""
    lines = []
    for row in found["failures"]:
        name = row["failure"].replace("_", " ")
        line = f"{name}, found: {share_text(row['graded_failure'], row['found'])} graded failure, the others note"
        if row["in_order"] is not None:
            line += (
                f"; at the end {row['lacking_as_failure']:.0%} of the true reward is missing in the former, "
                f"{row['lacking_as_note']:.0%} in the latter (medians; more in {row['in_order']:.0%} of pairs)"
            )
        lines.append(f"{line}.")
    return [*lines, f"Healthy runs with a failure: {share_text(found['healthy_graded_failure'], found['healthy'])}."]


def share_text(part: int, whole: int) -> str:
    """`part of whole (percent)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "-"
