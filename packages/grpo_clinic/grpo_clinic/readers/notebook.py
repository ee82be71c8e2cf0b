"""A notebook (`.ipynb`): the table that the trainer shows below a cell, or else the text that cells printed.

The table is transformers' `NotebookProgressCallback` (`Step`, `Training Loss`, then the logged names). Nothing in a
notebook is run.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from grpo_clinic.readers import aliases, console, limits, scalars, source
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.table import LogTable, Parsed

_NAMES = {"training loss": "loss", "validation loss": "eval_loss", "step": "step", "epoch": "epoch"}


class _Tables(HTMLParser):
    """Rows of cells of every table in a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def read(path: Path, options: ReadOptions) -> Parsed:
    """The longest table with a reward, else the printed text. Raises ValueError for anything but a notebook."""
    try:
        book = json.loads(source.text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, limits.TooLarge) or "at most" in str(error):
            raise
        raise ValueError("expected a notebook, got broken JSON") from None
    if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
        raise ValueError("expected a notebook with cells, got something else")
    tables, printed = [], []
    for output in _outputs(book["cells"]):
        shown = output.get("data")
        data = shown if isinstance(shown, dict) else {}
        page = _text(data.get("text/html"))
        if "<table" in page:
            parser = _Tables()
            parser.feed(page)
            tables += [history for table in parser.tables if (history := _table(table)) is not None]
        printed.append(_text(output.get("text")) + _text(data.get("text/plain")))
    if tables:
        best = max(tables, key=lambda table: table.rows)
        more = (f"{len(tables) - 1} shorter tables in the notebook left out",) if len(tables) > 1 else ()
        return Parsed("notebook, table of the trainer", {"": best}, more, aliases.TRL)
    parsed = console.from_lines((line for text in printed for line in text.splitlines()), options)
    return replace(parsed, format=f"notebook, {parsed.format}")


def _outputs(cells: list) -> Iterator[dict]:
    for cell in cells:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                yield output


def _text(value: object) -> str:
    """A notebook's text: a string, or a list of them."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _table(rows: list[list[str]]) -> LogTable | None:
    """The table with its columns named as in the log; None if it holds no reward."""
    head = [cell.strip() for cell in rows[0]] if rows else []
    keys = [_NAMES.get(name.lower(), name.replace(" / ", "/"))[: limits.MAX_KEY] for name in head]
    if not aliases.candidates("reward", keys):
        return None
    table = LogTable()
    for row in rows[1:]:
        if len(row) == len(keys) and any(scalars.parse(cell) is not None for cell in row):
            table.add({key: cell for key, cell in zip(keys, row, strict=True) if key})
    return table if table.keys else None
