"""One JSON document: `trainer_state.json`, a list of rows, columns, {metric: {step: value}}, or those inside others.

Rows may stand anywhere in the document (a dictionary per run, a `history` beside a `config`): it is searched to a
fixed depth, and every place that holds rows becomes a run named by the path to it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from grpo_clinic._text import visible
from grpo_clinic.readers import aliases, console, csv_table, limits, scalars, source
from grpo_clinic.readers.dialect import is_row
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.registry import register_reader
from grpo_clinic.readers.table import LogTable, RunTables, run_of

_CONTAINERS = frozenset(
    {"log_history", "history", "merged", "rows", "logs", "log", "metrics", "data", "records", "steps", "train"}
)


_START = re.compile(
    r"""[\ufeff\s]*(?: \{\s*(?:["}]|$)
    | (?!\[[^\[\]{}\n]{0,200}\][ \t]*\S)
      \[\s*(?: [\[{"\]] | $ | (?:-?\d[\d.eE+\-]{0,40}|true|false|null|NaN|-?Infinity)\s*(?:,|\]\s*$) ) )""",
    re.VERBOSE,
)


_HISTORY = re.compile(r'"log_history"\s{0,20}:\s{0,20}\[')
_NEXT = re.compile(r"[\s,]{0,2000}")


def sniff(start: str) -> bool:
    """Whether the text begins like a JSON document; `[INFO]`, `[2026-01-01 10:00]` or `{'loss':` do not."""
    return _START.match(start) is not None


def read(path: Path, options: ReadOptions) -> Parsed:
    """Every run in the document. Raises ValueError for broken or too deeply nested JSON, or without any rows."""
    return from_text(source.text(path))


def from_text(text: str) -> Parsed:
    """Every run in a JSON text. Raises ValueError as `read` does."""
    nodes = text.count("{") + text.count("[")
    if nodes > limits.MAX_NODES:
        raise ValueError(
            f"expected a JSON document of at most {limits.MAX_NODES} lists and objects, got {nodes}; "
            "write it as JSONL (one row per line), which is streamed"
        )
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("expected a JSON document, got one nested too deeply") from None
    except ValueError as error:
        if rows := _cut_off(text):
            notes = (f"the document is cut off or damaged: the {len(rows)} rows before that place were read",)
            return Parsed("TRL trainer_state.json", _required(_deal(rows)), notes, aliases.TRL)
        raise ValueError(f"expected a JSON document, got broken JSON ({str(error)[:80]})") from None
    if isinstance(document, dict) and isinstance(document.get("log_history"), list):
        tables = _deal(document["log_history"])
        return Parsed("TRL trainer_state.json", _required(tables), framework=aliases.TRL)
    kinds: set[str] = set()
    tables = {}
    for trail, kind, found in _search(document, (), 0):
        kinds.add(kind)
        for run, table in found.items():
            name = visible("/".join(part for part in (*(p for p in trail if p not in _CONTAINERS), run) if part))
            tables[_unused(name, tables)] = table
            if len(tables) > limits.MAX_RUNS:
                raise limits.TooLarge(f"expected at most {limits.MAX_RUNS} runs in one log, got more")
    if not tables and isinstance(document, list) and len(document) > 1 and _mostly_numbers(document):
        kinds, tables = {"list of numbers"}, _deal([{"reward": value} for value in document])
    if not tables and isinstance(document, dict) and is_row(document, ReadOptions()):
        kinds, tables = {"one row"}, _deal([document])
    return Parsed("JSON, " + " and ".join(sorted(kinds)), _required(tables))


def _cut_off(text: str) -> list:
    """The rows of a `log_history` up to where a document breaks off; none where there is no such list."""
    found = _HISTORY.search(text)
    rows: list = []
    place = found.end() if found else len(text)
    decoder = json.JSONDecoder()
    while (start := _NEXT.match(text, place)) and text[start.end() : start.end() + 1] == "{":
        try:
            row, place = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            break
        rows.append(row)
    return rows


def _unused(name: str, taken: Mapping[str, object]) -> str:
    fresh, count = name, 2
    while fresh in taken:
        fresh, count = f"{name}#{count}", count + 1
    return fresh


def _required(tables: dict[str, LogTable]) -> dict[str, LogTable]:
    if not tables:
        raise ValueError("expected JSON rows, columns or {metric: {step: value}}, got none of these")
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
        found = _from_list(node)
        if found:
            yield trail, *found
        return
    if not isinstance(node, dict) or depth > limits.MAX_DEPTH:
        return
    found = _from_columns(node) or _from_series(node) or _from_steps(node)
    if found:
        yield trail, *found
        return
    for key, child in node.items():
        if isinstance(child, dict | list):
            yield from _search(child, (*trail, str(key)[:80]), depth + 1)


def _from_list(rows: list) -> tuple[str, dict[str, LogTable]] | None:
    """A list of rows, or TensorBoard's [[wall time, step, value], ...]."""
    if rows and all(isinstance(row, list) and len(row) == 3 for row in rows[:10]):
        table = LogTable()
        for row in rows:
            if isinstance(row, list) and len(row) == 3:
                table.add({"step": row[1], "reward": row[2]})
        return ("TensorBoard export", {"": table}) if table.keys else None
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


def _from_series(node: dict) -> tuple[str, dict[str, LogTable]] | None:
    """{metric: {step: value}}, or {metric: {"step": [...], "value": [...]}}."""
    series = {key: pairs for key, value in node.items() if isinstance(value, dict) and (pairs := _pairs(value))}
    if not series:
        return None
    table = LogTable()
    steps = sorted({step for pairs in series.values() for step in pairs})
    for step in steps:
        table.add({"step": step, **{key: pairs[step] for key, pairs in series.items() if step in pairs}})
    return "{metric: {step: value}}", {"": table}


def _pairs(node: dict) -> dict[float, object]:
    """{step: value} of one metric, empty if the dictionary is not that."""
    steps = next((node[key] for key in ("step", "steps", "x") if isinstance(node.get(key), list)), None)
    values = next((node[key] for key in ("value", "values", "y") if isinstance(node.get(key), list)), None)
    if steps is not None and values is not None:
        items: list[tuple[object, object]] = list(zip(steps, values, strict=False))
    else:
        items = list(node.items())
    pairs = {}
    for key, value in items:
        step = scalars.parse(key)
        if step is None or step != step or scalars.parse(value) is None:
            return {}
        pairs[step] = value
    return pairs


def _from_steps(node: dict) -> tuple[str, dict[str, LogTable]] | None:
    """{step: {metric: value}}."""
    table = LogTable()
    for key, row in node.items():
        step = scalars.parse(key)
        if step is None or not isinstance(row, dict):
            return None
        table.add({"step": step, **row})
    return ("{step: row}", {"": table}) if table.keys else None


@register_reader("json_document")
class JsonDocument:
    """One JSON document; console text where it turns out to be none, unless it is called `.json`."""

    order = 60

    def owns(self, path: Path, start: bytes) -> bool:
        """By its beginning; a file that is called CSV is none."""
        return path.suffix.lower() not in csv_table.SUFFIXES and sniff(source.first_text(start))

    def read(self, path: Path, options: ReadOptions) -> Parsed:
        """As `read` of this file."""
        return console.or_console(read, path, options, surely=path.suffix.lower() == ".json")
