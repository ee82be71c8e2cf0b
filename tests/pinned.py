"""Numbers that stay: an answer as a flat table, compared with the one that was written when it was last looked at.

Such a table says that a number has changed, not that it was right: other tests hold it against a second witness. It
notices a change where they have no case. Who changes a number on purpose writes the table anew and says so:

    PINNED=write python -m pytest -p no:xdist FILE        # one that calls `check`: test_numbers.py, test_..._numbers.py

A number that rounding decides (where a run that never settles stands) is another on another processor. On one, or as
one computes, what differs is marked and not held:

    PINNED=loosen OPENBLAS_CORETYPE=Prescott XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 python -m pytest -p no:xdist FILE
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

TABLES = Path(__file__).parent / "numbers"
CLOSE = 1e-6
"""Relative: far above rounding on another processor, far below what a wrong term does."""
NOTHING = 1e-11
ROUNDING = "~"
"""In place of a number that rounding decides."""
LONGEST_WORD = 60
LONGEST = 9
WORDS = {"name", "unit", "status", "meaning", "reason", "convention"}
"""Fields that are texts for a reader: of these it is noted whether they are there."""


def flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and name of an answer with its place; of a sentence its numbers, of a long array its moments."""
    if hasattr(value, "data_vars"):
        value = {name: array.values for name, array in value.variables.items()}
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, list | tuple) and all(isinstance(one, int | float | np.number) for one in value):
        value = np.array(value)
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key == "relative_error" and one is not None:
                one = 1 + one  # the ratio: a difference of two numbers is known no better than they are
            yield from flat(one is not None if key in WORDS else one, f"{at}.{key}")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiubc" and value.size > LONGEST:
        yield from flat(moments(value), at)
    elif isinstance(value, list | tuple | np.ndarray):
        yield f"{at}#", len(value)
        for place, one in enumerate(value):
            yield from flat(one, f"{at}.{one['key'] if isinstance(one, Mapping) and 'key' in one else place}")
    elif isinstance(value, complex | np.complexfloating):
        yield at, float(value.real)
        if abs(value.imag) > NOTHING:
            yield f"{at}.im", float(value.imag)
    elif isinstance(value, bool | np.bool_ | int | np.integer):
        yield at, int(value)
    elif isinstance(value, float | np.floating):
        yield at, float(value)
    elif value is None or (isinstance(value, str) and len(value) <= LONGEST_WORD and not value[:1].isupper()):
        yield at, value
    elif isinstance(value, str):
        yield at, " ".join(re.findall(r"\d[\d.]*(?:e[-+]?\d+)?", value))


def moments(values: np.ndarray) -> dict[str, Any]:
    """What a change of any entry, or of their order, changes."""
    parts = {"re": values.real, "im": values.imag} if np.iscomplexobj(values) else {"": values}
    answer: dict[str, Any] = {"shape": "x".join(map(str, values.shape))}
    for name, part in parts.items():
        line = part.astype(float).ravel()
        finite = np.isfinite(line)
        line = np.where(finite, line, 0.0)
        weights = np.cos(np.arange(line.size))
        with np.errstate(over="ignore"):
            square = (line**2).mean()
        answer |= {f"{name}finite": int(finite.sum()), f"{name}mean": line.mean(), f"{name}square": square}
        answer[f"{name}weighed"] = (weights * line).mean()
    return answer


ODD = [True, None, "x", float("nan"), -1, -0.5, 0, 0.3, 1, 1.0, 1.5, 10**9, [1, 2], {"a": 1}]


def refusals(take: Callable[[Any], Any]) -> dict[str, str]:
    """Of odd values that are refused: what is expected instead."""
    answers = {}
    for value in ODD:
        try:
            take(value)
        except ValueError as error:
            answers[str(value)] = str(error).partition(", got")[0].lower()
    return answers


def check(table: str, case: str, answer: Any, close: float = CLOSE) -> None:
    """Hold an answer against its line of a table, or write (PINNED=write) or loosen that."""
    path = TABLES / f"{table}.json"
    seen, mode = dict(flat(answer)), os.environ.get("PINNED")
    if mode:
        lines = json.loads(path.read_text()) if path.exists() else {}
        if mode == "write":
            lines[case] = {at: float(f"{one:.10g}") if isinstance(one, float) else one for at, one in seen.items()}
        else:
            assert seen.keys() == lines[case].keys()
            kept = {at: same(one, seen[at], close) for at, one in lines[case].items()}
            lines[case] = {at: one if kept[at] else ROUNDING for at, one in lines[case].items()}
        rows = (f"{json.dumps(name)}: {json.dumps(lines[name])}" for name in sorted(lines))
        path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        return
    expected = json.loads(path.read_text())[case]
    assert seen.keys() == expected.keys()
    other = {at: (one, seen[at]) for at, one in expected.items() if not same(one, seen[at], close)}
    assert not other, f"{len(other)} of {len(expected)} numbers have changed: {dict(list(other.items())[:5])}"


def same(one: Any, other: Any, close: float) -> bool:
    """Equal, or numbers that are, or one that rounding decides."""
    if isinstance(one, float) and isinstance(other, float):
        nothing = NOTHING if close <= CLOSE else close / 100
        return one == other or abs(one - other) <= max(close * abs(one), nothing) or (one != one and other != other)
    return one in (other, ROUNDING)
