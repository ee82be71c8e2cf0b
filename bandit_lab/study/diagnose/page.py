"""One page per run, as HTML with its picture inside and as Markdown beside the picture, and an overview of all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bandit_lab import __version__
from bandit_lab.curves.diagnose import FAILURES
from bandit_lab.study.diagnose.picture import picture_of
from bandit_lab.study.diagnose.table import LEGEND, row_verdict
from bandit_lab.study.diagnose.work import Judged
from bandit_lab.study.pages.findings import mark_numbers, measure, verdict_line
from bandit_lab.study.pages.page import FOLDER, Section, escaped, html_table, image, page_names, write_index, write_page
from bandit_lab.study.terminal.progress import ProgressCallback
from bandit_lab.study.terminal.report import number

_ALT = "reward against step, with held-out results, entropy and silent groups where logged; evidence shaded"


def write_pages(
    judged: Sequence[Judged | None], rows: list[dict[str, Any]], folder: Path, advance: ProgressCallback
) -> None:
    """Write `report/<run>.html`, `.md` and `.png` for every run that was judged; its page is named in its row."""
    from bandit_lab.study.plots import draw_diagnosis

    done = [(one, row) for one, row in zip(judged, rows, strict=True) if one is not None]
    for place, ((one, row), name) in enumerate(zip(done, page_names([o.log.name for o, _ in done]), strict=True), 1):
        picture = draw_diagnosis(picture_of(one))
        write_page(folder, name, f"Diagnosis of {one.log.name}", picture, page(one, row), _ALT)
        row["page"] = f"{FOLDER}/{name}.html"
        advance(place, len(done))


def page(one: Judged, row: dict[str, Any]) -> list[Section]:
    """The page's content, apart from the picture."""
    found, curve = one.diagnosis, one.curve
    lines = [f"{'A note: ' if name in found.notes else ''}{verdict_line(name)}" for name in found.verdict]
    lines += [f"The table of runs says: {one.log.outcome}."] if one.log.outcome else []
    lines += [f"Not judged: {text}." for text in found.missing]
    lines += [f"Beware: {text}." for text in found.traps] + [f"Note: {text}." for text in found.remarks]
    scores = [["failure", "score (1 and more: it is there)"]]
    scores += [[name.replace("_", " "), number(score, 3)] for name, score in found.scores.items()]
    evidence = [["", "failure", "measure", "steps", "value", "threshold", "what was seen"]]
    marked = mark_numbers(found)
    for entry in row["evidence"]:
        metric, window = measure(entry["metric"]), f"{entry['window'][0]:g} to {entry['window'][1]:g}"
        numbers = [number(entry["value"], 3), number(entry["threshold"], 3)]
        first, last = entry["window"]
        mark = marked.get((first, last, metric), "")
        evidence.append([mark, entry["failure"].replace("_", " "), metric, window, *numbers, entry["text"]])
    read = [*curve.recognised, curve.scale.text, f"step unit: {curve.step_unit}"]
    read += [f"{name}: {origin}" for name, origin in curve.provenance.items()]
    return [
        ("Verdict", lines, scores),
        ("Evidence", [], evidence),
        ("What was read", [*read, f"bandit_lab {__version__}"], []),
    ]


def write_overview(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write `report/index.html`: all logs in one table, with links to their pages, and the small multiples."""
    table = [["log", "points", *(name.replace("_", " ") for name in FAILURES), "verdict", "outcome", "not judged"]]
    for row in rows:
        name = escaped(row["log"])
        cells = [f'<a href="{Path(row["page"]).name}">{name}</a>' if "page" in row else name]
        if row["verdict"] is None:
            table.append([*cells, *["-"] * 6, escaped(row.get("outcome", "")), escaped(row["status"])])
            continue
        cells += [str(row["n_points"]), *(number(row["scores"][name], 2) for name in FAILURES)]
        cells += [escaped(row_verdict(row, False)), escaped(row.get("outcome", ""))]
        table.append([*cells, escaped("; ".join(row["missing"]))])
    pictures = [image(path.read_bytes(), f"all runs: {_ALT}") for path in sorted(folder.glob("diagnoses*.png"))]
    parts = [f"<p>{LEGEND}</p>", *html_table(table), *pictures]
    write_index(folder, "Diagnoses", f"Diagnoses of {len(rows)} logs", parts)
