"""A finished run folder as a document, without computing anything."""

import json
from pathlib import Path
from typing import Any

from bandit_lab.app.document import ABSENT, Block, Column, Document, On, Table, Values
from bandit_lab.app.folder.results import opened
from bandit_lab.app.folder.store import RESULTS, SUMMARY
from bandit_lab.app.terminal.commands import COMMANDS


def finished(command: str, folder: Path, incomplete: str = "") -> Document:
    """A finished run folder as a document: content of its summary, its data, its pictures."""
    summary = json.loads((folder / SUMMARY).read_bytes())
    data = None
    if (folder / RESULTS).exists():
        with opened(folder / RESULTS) as stored:
            data = stored.load()
    single = {key: value for key, value in summary.items() if not isinstance(value, dict | list)}
    sections: dict[str, list[Block]] = {"": [Values(single)]}
    for key, value in summary.items():
        if isinstance(value, dict):
            sections[key] = [Values(value)]
        elif isinstance(value, list):
            rows = bool(value) and all(isinstance(row, dict) for row in value)
            sections[key if rows else ""] = [_table(value)] if rows else [*sections[""], Values({key: value})]
    module: Any = COMMANDS[command].load()
    if data is not None and hasattr(module, "figures_of"):
        sections[""] = [*sections[""], *module.figures_of(data)]
    return Document(command, sections, data, incomplete=incomplete)


def _table(rows: list[dict[str, Any]]) -> Table[dict[str, Any]]:
    """A table of rows as JSON has them; what is nested in a cell is not shown."""

    def of(key: str) -> Column[dict[str, Any]]:
        nested = any(isinstance(row.get(key), dict | list) for row in rows)
        return Column(key, key.replace("_", " "), lambda row: row.get(key, ABSENT), on=On.JSON if nested else On.ALL)

    return Table(rows, [of(key) for key in dict.fromkeys(key for row in rows for key in row)])
