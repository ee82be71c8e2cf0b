"""The tables of a sweep on the terminal."""

from typing import Any

from bandit_lab.study.settings.grid import log_spaced_choice
from bandit_lab.study.sweep.plan import SweepPlan
from bandit_lab.study.terminal import report

THRESHOLD_NAMES = {
    "leading_order": "law",
    "exact": "exact threshold",
    "measured_learning_rate": "measured threshold",
    "sampled_learning_rate": "sampled boundary",
}
ONSET_NAMES = {"exact": "exact onset", "measured_learning_rate": "measured onset"}
INTERVAL_NAMES = {"leading_order": "law", "exact": "exact", "measured_refresh_interval": "measured"}
SHOWN = 16
"""Rows of a table in the refresh interval, about."""


def print_summary(plan: SweepPlan, summary: dict[str, Any]) -> None:
    """Short tables: stiffness by its routes, thresholds at a few refresh intervals or learning rates."""
    form = report.FORMS.get(summary["convention"], summary["convention"])
    settings = plan.settings
    what = " ".join([settings.bandit["name"], settings.advantage["name"], settings.estimator["name"]])
    report.show(f"{what}, staleness {settings.staleness['name']}; momentum convention: {form}")
    stiffness = report.new_table(
        "stiffness (reward / logit^2)", "drift", "beta", "Hessian", "closed form", "relaxation"
    )
    for row in summary["stiffness"]["rows"]:
        cells = (report.numbers(row[key], 8) for key in ("hessian", "closed_form", "relaxation"))
        stiffness.add_row(row["drift"], f"{row['kl_weight']:g}", *cells)
    report.show(stiffness)
    for row in summary["stiffness"]["rows"]:
        if row.get("critical_kl_weight") is not None or row.get("relaxation_reason"):
            more = row.get("critical_kl_weight")
            hint = f"; one exists from kl_weight = {more:.5g}" if more is not None else ""
            report.show(f"{row['drift']}, beta = {row['kl_weight']:g}: {row['relaxation_reason']}{hint}")
    for note in dict.fromkeys(row["note"] for row in summary["stiffness"]["rows"] if "note" in row):
        report.show(f"Note: {note}.")
    by_interval = summary["boundary"] == "refresh_interval"
    report.show(*(_interval_report(summary) if by_interval else _rate_report(plan, summary)))
    errors = [abs(r["relative_error"]) for r in summary["threshold"] if r["relative_error"] is not None]
    ring = [abs(r["relative_error"]) for r in summary["transition"] if r["relative_error"] is not None]
    report.show(
        f"largest relative error against the exact theory: threshold {report.number(max(errors, default=None), 2)} "
        f"({len(errors)} rows), onset of oscillation {report.number(max(ring, default=None), 2)} ({len(ring)} rows)"
    )
    if summary["sampled"] is not None:
        sampled = summary["sampled"]
        reason = f" ({sampled['path_reason']})" if "path_reason" in sampled else ""
        report.show(f"sampled runs: {sampled['path']} path{reason}, random numbers {sampled['rng']}")
        report.show(sampled["note"])


def _rate_report(plan: SweepPlan, summary: dict[str, Any]) -> list[Any]:
    """The table of a few rows, why cells of it are empty, and how many rows it leaves out."""
    columns = ["drift", "mu", "N", "law", "exact", "measured", "rel. error", "onset exact", "onset measured", "sampled"]
    table = report.new_table(
        "learning rate (eta) at which stability is lost, and at which oscillation begins", *columns
    )
    chosen = _few(plan)
    pairs = list(zip(summary["threshold"], summary["transition"], strict=True))
    shown = [p for p in pairs if p[0]["refresh_interval"] in chosen and p[0]["kl_weight"] == plan.kl_weight[0]]
    for row, ring in shown:
        table.add_row(
            row["drift"],
            f"{row['momentum']:g}",
            f"{row['refresh_interval']:g}",
            *(report.number(row[key], 5) for key in ("leading_order", "exact", "measured_learning_rate")),
            report.number(row["relative_error"], 2),
            *(report.number(ring[key], 5) for key in ("exact", "measured_learning_rate")),
            report.number(row.get("sampled_learning_rate"), 3),
        )
    thresholds, onsets = ([pair[part] for pair in shown] for part in (0, 1))
    empty = _empty(thresholds, THRESHOLD_NAMES) + _empty(onsets, ONSET_NAMES)
    return [table, *empty, *_left_out(len(shown), len(pairs))]


def _empty(rows: list[dict[str, Any]], names: dict[str, str]) -> list[str]:
    """One line per reason why cells of the table are empty."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        for key, name in names.items():
            if row.get(key) is None and (reason := row.get(f"{key}_reason")):
                of = counts.setdefault(reason, {})
                of[name] = of.get(name, 0) + 1
    rows_of = lambda n: f"{n} row" + "s" * (n > 1)  # noqa: E731
    where = {reason: ", ".join(f"{name} ({rows_of(n)})" for name, n in of.items()) for reason, of in counts.items()}
    return [f"No {cells}: {reason}." for reason, cells in where.items()]


def _left_out(shown: int, rows: int) -> list[str]:
    return [f"{shown} of {rows} rows; all of them are in summary.json and results.zarr"] if shown < rows else []


def _few(plan: SweepPlan) -> set[float]:
    few = plan.sampled_interval if len(plan.sampled_interval) else log_spaced_choice(plan.refresh_interval, 4)
    return {n.item() for n in few}


def _interval_report(summary: dict[str, Any]) -> list[Any]:
    table = report.new_table(
        "refresh interval (steps) at which stability is lost", "drift", "mu", "eta", "law", "exact", "measured"
    )
    rows = summary["threshold"]
    shown = rows[:: max(1, len(rows) // SHOWN)]
    for row in shown:
        numbers = (report.number(row[key], 5) for key in ("leading_order", "exact", "measured_refresh_interval"))
        table.add_row(row["drift"], f"{row['momentum']:g}", report.number(row["learning_rate"], 4), *numbers)
    return [table, *_empty(shown, INTERVAL_NAMES), *_left_out(len(shown), len(rows))]
