"""One JSON document: `trainer_state.json`, a list of rows, columns, {step: row}, or those inside others.

Rows may stand anywhere in the document (a dictionary per run, a `history` beside a `config`): it is searched to a
fixed depth, and every place that holds rows becomes a run named by the path to it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from grpo_clinic._text import visible
from grpo_clinic.readers import aliases, limits, scalars, source
from grpo_clinic.readers.dialect import is_row
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.table import LogTable, Parsed, RunTables, run_of

_CONTAINERS = frozenset(
    {"log_history", "history", "merged", "rows", "logs", "log", "metrics", "data", "records", "steps", "train"}
)


_START = re.compile(
    r"""[\ufeff\s]*(?: \{\s*(?:["}]|$)
    | (?!\[[^\[\]{}\n]{0,200}\][ \t]*\S)
      \[\s*(?: [\[{"\]] | $ | (?:-?\d[\d.eE+\-]{0,40}|true|false|null|NaN|-?Infinity)\s*(?:,|\]\s*$) ) )""",
    re.VERBOSE,
)


_HEAD = 400
_ASSIGNED = re.compile(r"^[\ufeff\s]*[A-Za-z_]\w{0,40}\s?=\s?")


def sniff(start: str) -> bool:
    """Whether the text begins like a JSON document; `[INFO]`, `[2026-01-01 10:00]` or `{'loss':` do not."""
    return _START.match(start) is not None


def _document(path: Path) -> object:
    """Raises ValueError for broken or too deeply nested JSON, or more of it than may be held."""
    text = source.text(path)
    nodes = text.count("{") + text.count("[")
    if nodes > limits.MAX_NODES:
        raise ValueError(
            f"expected a JSON document of at most {limits.MAX_NODES} lists and objects, got {nodes}; "
            "write it as JSONL (one row per line), which is streamed"
        )
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("expected a JSON document, got one nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"expected a JSON document, got broken JSON ({str(error)[:80]})") from None


def read(path: Path) -> Parsed:
    """Every run in the document. Raises ValueError for broken or too deeply nested JSON, or without any rows."""
    document = _document(path)
    if isinstance(document, dict) and isinstance(document.get("log_history"), list):
        tables = _deal(document["log_history"])
        return Parsed("TRL trainer_state.json", _required(tables), framework=aliases.TRL)
    kinds: set[str] = set()
    tables = {}
    for trail, kind, by_run in _search(document, (), 0):
        kinds.add(kind)
        for run, table in by_run.items():
            name = visible("/".join(part for part in (*(p for p in trail if p not in _CONTAINERS), run) if part))
            tables[_unused(name, tables)] = table
            if len(tables) > limits.MAX_RUNS:
                raise limits.TooLarge(f"expected at most {limits.MAX_RUNS} runs in one log, got more")
    if not tables and isinstance(document, list) and len(document) > 1 and _mostly_numbers(document):
        kinds, tables = {"list of numbers"}, _deal([{"reward": value} for value in document])
    if not tables and isinstance(document, dict) and is_row(document, ReadOptions()):
        kinds, tables = {"one row"}, _deal([document])
    return Parsed("JSON, " + " and ".join(sorted(kinds)), _required(tables))


def streamed(path: Path) -> list[str]:
    """Lines of a console that are stored as pieces of its streams, as Kaggle does."""
    pieces = _document(path)
    dealt = pieces if isinstance(pieces, list) else []
    return "".join(str(one.get("data", "")) for one in dealt if isinstance(one, dict)).splitlines()


def sniff_numbers(start: str) -> bool:
    """Whether the text is nothing but numbers: in brackets, in one line, or a line each; a name may stand before."""
    body = _ASSIGNED.sub("", start[:_HEAD], count=1).strip()
    lines = body.splitlines()
    whole = body[:1] in ("[", "(") or len(lines) == 1 or all(len(line.split()) == 1 for line in lines)
    words = _words(body)[: -1 if len(start) > _HEAD else None]
    return whole and len(words) > 1 and all(scalars.parse(word) is not None for word in words)


def read_numbers(path: Path) -> Parsed | None:
    """Bare numbers as a run of rewards; None if something else is among them."""
    numbers = [scalars.parse(word) for word in _words(_ASSIGNED.sub("", source.text(path), count=1))]
    return None if None in numbers else Parsed("bare numbers", _deal([{"reward": one} for one in numbers]))


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,;]+", text.strip(" \t\r\n[](),;")) if word]


def _unused(name: str, taken: Mapping[str, object]) -> str:
    fresh, count = name, 2
    while fresh in taken:
        fresh, count = f"{name}#{count}", count + 1
    return fresh


def _required(tables: dict[str, LogTable]) -> dict[str, LogTable]:
    if not tables:
        raise ValueError("expected JSON rows, columns or {step: row}, got none of these")
    return tables


def _deal(rows: list) -> dict[str, LogTable]:
    tables = RunTables()
    for row in rows:
        if isinstance(row, dict):
            tables.add(row)
    return tables.done()


def _search(
    node: object, trail: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], str, dict[str, LogTable]]]:
    """(path, kind, tables by run) of every place in the document that holds a history."""
    if isinstance(node, list):
        history = _from_list(node)
        if history:
            yield trail, *history
        return
    if not isinstance(node, dict) or depth > limits.MAX_DEPTH:
        return
    history = _from_columns(node) or _from_steps(node)
    if history:
        yield trail, *history
        return
    for key, child in node.items():
        if isinstance(child, dict | list):
            yield from _search(child, (*trail, str(key)[:80]), depth + 1)


def _from_list(rows: list) -> tuple[str, dict[str, LogTable]] | None:
    """A list of rows."""
    if not any(isinstance(row, dict) for row in rows[:10]):
        return None
    tables = _deal(rows)
    return ("list of rows", tables) if tables else None


def _from_columns(node: dict) -> tuple[str, dict[str, LogTable]] | None:
    """{column: [values]} with at least one numeric list; shorter lists leave the last rows empty."""
    lists = {key: value for key, value in node.items() if isinstance(value, list) and _mostly_numbers(value)}
    if not lists or max(map(len, lists.values())) < 2:
        return None
    table = LogTable()
    for i in range(max(map(len, lists.values()))):
        table.add({key: values[i] for key, values in lists.items() if i < len(values)})
    return "columns", {run_of(node): table}


def _mostly_numbers(values: list) -> bool:
    sample = values[:20]
    return bool(sample) and sum(scalars.parse(v) is not None for v in sample) > 0.5 * len(sample)


def _from_steps(node: dict) -> tuple[str, dict[str, LogTable]] | None:
    """{step: {metric: value}}."""
    table = LogTable()
    for key, row in node.items():
        step = scalars.parse(key)
        if step is None or not isinstance(row, dict):
            return None
        table.add({"step": step, **row})
    return ("{step: row}", {"": table}) if table.keys else None
