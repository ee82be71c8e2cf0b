"""One page per run, as HTML with its picture inside and as Markdown beside the picture: to be pasted into an issue.

Names and texts of a log are written by others: HTML is escaped, and Markdown loses what would be markup.
"""

import base64
import html
import re
from pathlib import Path
from typing import Any

from bandit_lab import __version__
from bandit_lab.study.fit.panels import events, panel
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.fit.summary import interval_name
from bandit_lab.study.fit.table import forecast_line, interval, with_interval
from bandit_lab.study.fit.work import Fitted
from bandit_lab.study.progress import ProgressCallback
from bandit_lab.study.report import number

FOLDER = "report"
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color:#111}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}"
    "img{max-width:100%;height:auto}code{background:#f2f2f2;padding:0 .2em}"
)
VERDICTS = {
    "healthy": "No failure mode was found in what the log holds.",
    "reward_hacking": "Reward hacking: the training reward goes up and what counts does not follow.",
    "advantage_degeneracy": "Advantage degeneracy: most groups are silent, their answers all got the same reward.",
    "policy_concentration": "Policy concentration: the entropy has fallen to a small share of what it was.",
    "dynamical_instability": "Dynamical instability: sustained oscillation, growing fluctuations or a collapse.",
}

Section = tuple[str, list[str], list[list[str]]]
"""Title, lines of text, rows of a table (the first is its head)."""


def file_names(fitted: list[Fitted]) -> list[str]:
    """A file name for each run."""
    return page_names([one.log.name for one in fitted])


def page_names(titles: list[str]) -> list[str]:
    """A file name for each title: plain letters, and different from each other."""
    names: list[str] = []
    for title in titles:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", title).strip("._")[:80] or "run"
        same = sum(name == plain or name.startswith(f"{plain}~") for name in names)
        names.append(plain if not same and plain != "index" else f"{plain}~{same + 1}")
    return names


def write_pages(
    fitted: list[Fitted], rows: list[dict[str, Any]], folder: Path, settings: FitSettings, advance: ProgressCallback
) -> None:
    """Write `report/<run>.html`, `.md` and `.png` for every fitted run."""
    from bandit_lab.study.plots import draw_run

    (folder / FOLDER).mkdir(exist_ok=True)
    with_model = [row for row in rows if row["model"] is not None]
    for done, (one, row, name) in enumerate(zip(fitted, with_model, file_names(fitted), strict=True), start=1):
        picture = draw_run(panel(one))
        sections = page(one, row, settings)
        title = f"Fit of {row['log']}"
        (folder / FOLDER / f"{name}.png").write_bytes(picture)
        (folder / FOLDER / f"{name}.html").write_text(as_html(title, picture, sections), encoding="utf-8")
        (folder / FOLDER / f"{name}.md").write_text(as_markdown(title, f"{name}.png", sections), encoding="utf-8")
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


def verdict_line(name: str) -> str:
    """One sentence for a verdict; the name alone for that of a user's own detector."""
    return VERDICTS.get(name, f"{name.replace('_', ' ')}.")


def _verdict(one: Fitted) -> list[str]:
    if one.diagnosis is None:
        return ["Not asked for."]
    lines = [verdict_line(name) for name in one.diagnosis.verdict]
    lines += [f"Not judged: {text}." for text in one.diagnosis.missing]
    return lines + [f"Beware: {text}." for text in one.diagnosis.traps]


def _evidence(one: Fitted) -> list[list[str]]:
    if one.diagnosis is None or not one.diagnosis.evidence:
        return []
    marked = {(first, last, text): str(place) for place, (first, last, text) in enumerate(events(one), start=1)}
    rows = [["", "measure", "steps", "value", "threshold", "what was seen"]]
    for found in one.diagnosis.evidence:
        metric = found.metric.replace("_", " ")
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
        rows.append([name.replace("_", " "), number(found["value"]), error, interval(found[key]), found["unit"]])
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


_ALT = "reward against step, with the fitted law"


def as_html(title: str, picture: bytes, sections: list[Section], alt: str = _ALT) -> str:
    """A self-contained page without scripts."""
    image = base64.b64encode(picture).decode("ascii")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        f"<style>{_STYLE}</style></head>",
        f"<body><h1>{html.escape(title)}</h1>",
        f'<p><img alt="{html.escape(alt)}" src="data:image/png;base64,{image}"></p>',
    ]
    for name, lines, rows in sections:
        parts.append(f"<h2>{html.escape(name)}</h2>")
        parts += [f"<p>{html.escape(line)}</p>" for line in lines]
        parts += html_table([[html.escape(cell) for cell in row] for row in rows])
    return "\n".join([*parts, "</body></html>", ""])


def html_table(rows: list[list[str]]) -> list[str]:
    """Rows of HTML cells, the first being the head."""
    if not rows:
        return []
    head, *body = rows
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body]
    return ["<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>", *lines, "</table>"]


def write_overview(rows: list[dict[str, Any]], folder: Path, settings: FitSettings) -> None:
    """Write `report/index.html`: all logs in one table, with links to their pages, and the small multiples."""
    key = interval_name(settings.level)
    table = [
        ["log", "points", "model", "R2", "of explainable", f"plateau, {key[9:]} %", "verdict", "outcome", "status"]
    ]
    for row in rows:
        name = html.escape(row["log"])
        page = Path(row["page"]).name if "page" in row else ""
        cells = [f'<a href="{page}">{name}</a>' if page else name]
        if row["model"] is None:
            cells += ["-"] * 6
        else:
            share, verdict = number(row["r_squared_explainable"], 2), ", ".join(row.get("verdict", []))
            plateau = with_interval(row["parameters"]["plateau"], key)
            cells += [str(row["n_points"]), row["model"], number(row["r_squared"], 2), share, plateau, verdict]
        table.append([*cells, html.escape(row.get("outcome", "")), html.escape(row["status"])])
    pictures = [base64.b64encode(path.read_bytes()).decode("ascii") for path in sorted(folder.glob("fits*.png"))]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Fits</title>',
        f"<style>{_STYLE} body{{max-width:none}}</style></head><body><h1>Fits of {len(rows)} logs</h1>",
        *html_table(table),
        *(f'<p><img alt="reward against step, all runs" src="data:image/png;base64,{one}"></p>' for one in pictures),
    ]
    (folder / FOLDER / "index.html").write_text("\n".join([*parts, "</body></html>", ""]), encoding="utf-8")


def as_markdown(title: str, picture: str, sections: list[Section], alt: str = _ALT) -> str:
    """The same as Markdown; the picture lies beside it."""
    parts = [f"## {_plain(title)}", "", f"![{alt}]({picture})", ""]
    for name, lines, rows in sections:
        parts += [f"### {name}", ""]
        parts += [f"- {_plain(line)}" for line in lines]
        if rows:
            head, *body = ([_plain(cell) for cell in row] for row in rows)
            parts += [""] if lines else []
            parts += [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
            parts += [f"| {' | '.join(row)} |" for row in body]
        parts.append("")
    return "\n".join(parts)


def _plain(text: str) -> str:
    """Text without line breaks, in which no character is markup, a mention or a reference."""
    one_line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>|#!~$])", r"\\\1", one_line).replace("@", "@\u200b")
