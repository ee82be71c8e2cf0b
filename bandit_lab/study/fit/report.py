"""The page of one fitted run, to be pasted into an issue, and the overview of all."""

from pathlib import Path
from typing import Any

from bandit_lab import __version__
from bandit_lab.study.fit.panels import panel
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.fit.summary import interval_name
from bandit_lab.study.fit.table import forecast_line, interval, telling, with_interval
from bandit_lab.study.fit.work import Fitted
from bandit_lab.study.pages.findings import mark_numbers, measure, verdict_line
from bandit_lab.study.pages.page import Section, escaped, html_table, image, page_names, write_index, write_page
from bandit_lab.study.terminal.progress import ProgressCallback
from bandit_lab.study.terminal.report import number

_ALT = "reward against step, with the fitted law"


def file_names(fitted: list[Fitted]) -> list[str]:
    """A file name for each run."""
    return page_names([one.log.name for one in fitted])


def write_pages(
    fitted: list[Fitted], rows: list[dict[str, Any]], folder: Path, settings: FitSettings, advance: ProgressCallback
) -> None:
    """Write `report/<run>.html`, `.md` and `.png` for every fitted run."""
    from bandit_lab.study.plots import draw_run

    with_model = [row for row in rows if row["model"] is not None]
    for done, (one, row, name) in enumerate(zip(fitted, with_model, file_names(fitted), strict=True), start=1):
        sections = page(one, row, settings)
        write_page(folder, name, f"Fit of {row['log']}", draw_run(panel(one)), sections, _ALT)
        advance(done, len(fitted))


def page(one: Fitted, row: dict[str, Any], settings: FitSettings) -> list[Section]:
    """The page's content, apart from the picture."""
    return [
        ("Verdict", _verdict(one), _evidence(one)),
        ("Fit", _fit_lines(one, row), _parameters(row, interval_name(settings.level))),
        ("Laws compared", [], _laws(row)),
        ("Forecast", [forecast_line(row)], []),
        ("What was read", _read(one), []),
    ]


def _verdict(one: Fitted) -> list[str]:
    if one.diagnosis is None:
        return ["Not asked for."]
    notes = one.diagnosis.notes
    lines = [f"{'A note: ' if name in notes else ''}{verdict_line(name)}" for name in one.diagnosis.verdict]
    lines += [f"{why[:1].upper()}{why[1:]}." for _, why in one.diagnosis.severity.values() if why]
    lines += [f"Not judged: {text}." for text in one.diagnosis.missing]
    return lines + [f"Beware: {text}." for text in one.diagnosis.traps]


def _evidence(one: Fitted) -> list[list[str]]:
    if one.diagnosis is None or not one.diagnosis.evidence:
        return []
    marked = mark_numbers(one.diagnosis)
    rows = [["", "measure", "steps", "value", "threshold", "what was seen"]]
    for found in one.diagnosis.evidence:
        metric = measure(found.metric)
        window = f"{found.window[0]:g} to {found.window[1]:g}"
        place = marked.get((found.window[0], found.window[1], metric), "")
        rows.append([place, metric, window, number(found.value, 3), number(found.threshold, 3), found.text])
    return rows


def _fit_lines(one: Fitted, row: dict[str, Any]) -> list[str]:
    explained = row["r_squared_explainable"]
    share = "there is nothing but noise to explain" if explained is None else f"{explained:.2f} of what is explainable"
    lines = [
        f"{row['n_points']} points; the law with the smallest AICc is the {row['model'].replace('_', ' ')}: "
        f"R2 = {row['r_squared']:.2f} ({share}).",
        f"Status: {row['status']}.",
    ]
    if one.reading is not None:
        found = one.reading
        lines.append(
            f"Effective stiffness {number(found.stiffness, 3)} {interval([found.low, found.high])} reward per logit^2; "
            f"momentum would give a damping ratio of {number(found.damping_ratio_of_momentum, 3)}."
        )
    return lines


def _parameters(row: dict[str, Any], key: str) -> list[list[str]]:
    rows = [["parameter", "value", "standard error", f"{key[9:]} % interval", "unit"]]
    for name, found in row["parameters"].items():
        error = "not bounded" if found["standard_error"] is None else number(found["standard_error"], 2)
        value = number(found["value"], telling(found[key], 4))
        rows.append([name.replace("_", " "), value, error, interval(found[key]), found["unit"]])
    return rows


def _laws(row: dict[str, Any]) -> list[list[str]]:
    smallest = min(one["aicc"] for one in row["models"].values())
    rows = [["law", "AICc above the best", "Akaike weight", "R2", "status"]]
    for law, one in row["models"].items():
        above = number(one["aicc"] - smallest, 3)
        rows.append([law.replace("_", " "), above, f"{one['weight']:.2f}", f"{one['r_squared']:.2f}", one["status"]])
    return rows


def _read(one: Fitted) -> list[str]:
    curve = one.curve
    lines = [*curve.recognised, curve.scale.text, f"step unit: {curve.step_unit}"]
    lines += list(curve.notes)
    lines += [f"{name}: {origin}" for name, origin in curve.provenance.items()]
    return [*lines, f"bandit_lab {__version__}"]


def write_overview(rows: list[dict[str, Any]], folder: Path, settings: FitSettings) -> None:
    """Write `report/index.html`: all logs in one table, with links to their pages, and the small multiples."""
    key = interval_name(settings.level)
    table = [
        ["log", "points", "model", "R2", "of explainable", f"plateau, {key[9:]} %", "verdict", "outcome", "status"]
    ]
    for row in rows:
        name = escaped(row["log"])
        page = Path(row["page"]).name if "page" in row else ""
        cells = [f'<a href="{page}">{name}</a>' if page else name]
        if row["model"] is None:
            cells += ["-"] * 6
        else:
            share, verdict = number(row["r_squared_explainable"], 2), ", ".join(row.get("verdict", []))
            plateau = with_interval(row["parameters"]["plateau"], key)
            cells += [str(row["n_points"]), row["model"], number(row["r_squared"], 2), share, plateau, verdict]
        table.append([*cells, escaped(row.get("outcome", "")), escaped(row["status"])])
    pictures = [image(path.read_bytes(), "reward against step, all runs") for path in sorted(folder.glob("fits*.png"))]
    write_index(folder, "Fits", f"Fits of {len(rows)} logs", [*html_table(table), *pictures])
