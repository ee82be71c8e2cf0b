"""What `diagnose` prints: one line per log, the evidence of a single one, the scores of the benchmark."""

from collections.abc import Sequence
from typing import Any

from bandit_lab.study.pages.findings import measure
from bandit_lab.study.terminal.report import MANY, new_table, number
from bandit_lab.study.terminal.text import middle_cut

SHORT = {
    "reward_hacking": "hacking",
    "advantage_degeneracy": "degeneracy",
    "policy_concentration": "concentration",
    "dynamical_instability": "instability",
}
LEGEND = (
    "Scores: 1 and more: the failure is there; a dash: the log cannot tell. healthy: no failure among those that could "
    "be judged. note: it is there and has done no harm that shows. no clear gain: the reward shows nothing learned."
)
BRIEF = dict(zip(SHORT, ("hack", "degen", "conc", "inst"), strict=True))


def tables(rows: list[dict[str, Any]]) -> list[Any]:
    """Everything that is printed for logs."""
    done = [row for row in rows if row["verdict"] is not None]
    shown: list[Any] = [runs_table(rows)]
    if len(done) == 1:
        one = done[0]
        shown += [*one["recognised"], evidence_table(one)]
        shown += [f"Not judged: {text}." for text in one["missing"]] + [f"Beware: {text}." for text in one["traps"]]
        shown += [f"Note: {text}." for text in one["remarks"]]
    shown += [LEGEND] if len(done) > 1 else []
    return shown + [f"{row['log']}: {row['status']}" for row in rows if row["status"] != "ok"]


def runs_table(rows: list[dict[str, Any]]) -> Any:
    """One line per log: verdict, the four scores (1 and more: the failure is there), the table's outcome beside it."""
    many, outcomes = len(rows) >= MANY, any("outcome" in row for row in rows)
    head = ("n", *BRIEF.values()) if many else ("points", *SHORT.values())
    table = new_table("", "log", *head, "verdict", *(["outcome"] if outcomes else []))
    for row in rows:
        cells = [middle_cut(row["log"], 26) if many else row["log"]]
        if row["verdict"] is None:
            cells += ["-"] * 6
        else:
            cells += [str(row["n_points"]), *(number(row["scores"][name], 2) for name in SHORT)]
            cells.append(row_verdict(row, many))
        outcome = row.get("outcome", "-")
        table.add_row(*cells, *([middle_cut(outcome, 26) if many else outcome] if outcomes else []))
    for place, column in enumerate(table.columns):
        column.no_wrap = many
        column.min_width = 4 if 0 < place <= 1 + len(SHORT) else None
    return table


def verdict_text(verdict: Sequence[str], short: bool, notes: Sequence[str] = (), gained: bool = True) -> str:
    """The verdict in plain words; findings that have done no harm stand behind `note:`."""
    words = {name: BRIEF.get(name, name) if short else name.replace("_", " ") for name in verdict}
    between = " + " if short else ", "
    failures = between.join(word for name, word in words.items() if name not in notes)
    noted = between.join(word for name, word in words.items() if name in notes)
    idle = "" if gained or failures != "healthy" else "no clear gain"
    return ", ".join(text for text in (failures, f"note: {noted}" if noted else "", idle) if text)


def row_verdict(row: dict[str, Any], short: bool) -> str:
    """The same for a row of the summary."""
    notes = [name for name, grade in row.get("severity", {}).items() if grade == "note"]
    return verdict_text(row["verdict"], short, notes, row.get("gained", True))


def evidence_table(row: dict[str, Any]) -> Any:
    """Every number of one log against its threshold."""
    table = new_table("", "measure", "steps", "value", "threshold", "what was seen")
    table.columns[-1].justify = "left"
    for one in row["evidence"]:
        window = f"{one['window'][0]:g} to {one['window'][1]:g}"
        table.add_row(measure(one["metric"]), window, number(one["value"], 3), number(one["threshold"], 3), one["text"])
    return table


def benchmark_tables(found: dict[str, Any]) -> list[Any]:
    """Recall and false alarms on simulated runs, the detectors beside what sees only the reward curve."""
    head = ("failure", "runs", "found: diagnose", "reward curve only", "added where absent", "by reward curve only")
    table = new_table(f"{found['runs']} simulated runs, {found['split']}", *head)
    for one, other in zip(found["diagnose"]["failures"], found["reward_only"]["failures"], strict=True):
        cells = [share(each["found"], each["present"]) for each in (one, other)]
        cells += [share(each["added"], each["absent"]) for each in (one, other)]
        table.add_row(one["failure"].replace("_", " "), str(one["present"]), *cells)
    lines = []
    for key, name in (("diagnose", "diagnose"), ("reward_only", "reward curve only")):
        one = found[key]
        lines.append(
            f"{name}: mean recall {one['macro_recall']:.3f}, "
            f"false alarms on healthy runs {share(one['false_alarms'], one['healthy'])}"
        )
    lines += _grade_lines(found["diagnose"]["grades"])
    targets = found["targets"]
    lines.append(f"Targets: mean recall >= {targets['recall']:g}, false alarms <= {100 * targets['false_alarms']:g} %.")
    return [table, *lines]


def _grade_lines(found: dict[str, Any]) -> list[str]:
    """How findings were graded, and whether the true reward, which nobody saw, agrees."""
    lines = []
    for row in found["failures"]:
        name = row["failure"].replace("_", " ")
        line = f"{name}, found: {share(row['graded_failure'], row['found'])} graded failure, the others note"
        if row["in_order"] is not None:
            line += (
                f"; at the end {row['lacking_as_failure']:.0%} of the true reward is missing in the former, "
                f"{row['lacking_as_note']:.0%} in the latter (medians; more in {row['in_order']:.0%} of pairs)"
            )
        lines.append(f"{line}.")
    return [*lines, f"Healthy runs with a failure: {share(found['healthy_graded_failure'], found['healthy'])}."]


def share(part: int, whole: int) -> str:
    """`part of whole (percent)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "-"
