"""One page per run, as HTML with its picture inside and as Markdown beside the picture: to be pasted into an issue.

Names and texts of a log are written by others: HTML is escaped, Markdown loses what would be markup, and characters
that are not plainly printed are spelt out in both.
"""

import base64
import html
import re
from pathlib import Path

from bandit_lab._text import visible

FOLDER = "report"
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color:#111}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}"
    "img{max-width:100%;height:auto}code{background:#f2f2f2;padding:0 .2em}"
)
_WIDE = " body{max-width:none}"

Section = tuple[str, list[str], list[list[str]]]
"""Title, lines of text, rows of a table (the first is its head)."""


def page_names(titles: list[str]) -> list[str]:
    """A file name for each title: plain letters, and different from each other."""
    names: list[str] = []
    for title in titles:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", title).strip("._")[:80] or "run"
        same = sum(name == plain or name.startswith(f"{plain}~") for name in names)
        names.append(plain if not same and plain != "index" else f"{plain}~{same + 1}")
    return names


def write_page(folder: Path, name: str, title: str, picture: bytes, sections: list[Section], alt: str) -> None:
    """Write `report/<name>.html`, `.md` and `.png` in the run folder. `alt` says what the picture shows."""
    place = _room(folder)
    (place / f"{name}.png").write_bytes(picture)
    (place / f"{name}.html").write_text(as_html(title, picture, sections, alt), encoding="utf-8")
    (place / f"{name}.md").write_text(as_markdown(title, f"{name}.png", sections, alt), encoding="utf-8")


def write_index(folder: Path, title: str, heading: str, parts: list[str]) -> None:
    """Write `report/index.html`, as wide as the window, from parts that are HTML."""
    text = "\n".join([*_head(title, heading, _STYLE + _WIDE), *parts, "</body></html>", ""])
    (_room(folder) / "index.html").write_text(text, encoding="utf-8")


def _room(folder: Path) -> Path:
    (folder / FOLDER).mkdir(exist_ok=True)
    return folder / FOLDER


def as_html(title: str, picture: bytes, sections: list[Section], alt: str) -> str:
    """A self-contained page without scripts."""
    parts = [*_head(title, title, _STYLE), image(picture, alt)]
    for name, lines, rows in sections:
        parts.append(f"<h2>{escaped(name)}</h2>")
        parts += [f"<p>{escaped(line)}</p>" for line in lines]
        parts += html_table([[escaped(cell) for cell in row] for row in rows])
    return "\n".join([*parts, "</body></html>", ""])


def escaped(text: str) -> str:
    """Text as HTML shows it as it stands."""
    return html.escape(visible(text))


def _head(title: str, heading: str, style: str) -> list[str]:
    return [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>',
        f"<style>{style}</style></head>",
        f"<body><h1>{escaped(heading)}</h1>",
    ]


def image(picture: bytes, alt: str) -> str:
    """A PNG inside the page."""
    data = base64.b64encode(picture).decode("ascii")
    return f'<p><img alt="{escaped(alt)}" src="data:image/png;base64,{data}"></p>'


def html_table(rows: list[list[str]]) -> list[str]:
    """Rows of HTML cells, the first being the head."""
    if not rows:
        return []
    head, *body = rows
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body]
    return ["<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>", *lines, "</table>"]


def as_markdown(title: str, picture: str, sections: list[Section], alt: str) -> str:
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
    one_line = visible(" ".join(text.split()))
    return re.sub(r"([\\`*_{}\[\]<>|#!~$])", r"\\\1", one_line).replace("@", "@\u200b")
