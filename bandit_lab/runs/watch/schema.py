"""JSON lines that all have the same names and plain numbers, read into an array at once.

msgspec makes an object of every line, which has the numbers as Python floats. To ask each object for each number would
cost as much as the reading. So msgspec writes the objects down again, as MessagePack. There a float is one byte, 0xcb,
and its eight bytes from the highest to the lowest [1]. Rows of the same names then have the same length, and NumPy
reads a column with a stride. No number is rounded on the way.

[1] https://github.com/msgpack/msgpack/blob/master/spec.md
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from bandit_lab.runs.read.record import Floats
from bandit_lab.runs.watch.tail import Text

NUMBERS = frozenset({int, float})
UNREADABLE = (ValueError, msgspec.MsgspecError)  # the second is no ValueError in older versions
PIECE = 2**17
"""Bytes of text made into objects at a time, so few that these stay in the processor's cache."""
_NEWLINE = ord("\n")
_FLOAT = 9
"""Bytes of a float in MessagePack."""


class Schema:
    """Lines with these names, every one of them once and a number, in any order. Raises ValueError for odd names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        fields = [(f"_{place}", float) for place in range(len(names))]
        renamed = {f"_{place}": name for place, name in enumerate(names)}
        kind: Any = msgspec.defstruct("Row", fields, rename=renamed, forbid_unknown_fields=True, gc=False)
        self._decoder = msgspec.json.Decoder(kind)
        self._encoder = msgspec.msgpack.Encoder()
        self._packed = bytearray()
        one = kind(*[0.0] * len(names))
        self._width = len(self._encoder.encode(one))
        keys = [len(self._encoder.encode(name)) for name in names]
        first = self._width - sum(keys) - _FLOAT * len(names)
        self._places = (first + np.cumsum(keys) + _FLOAT * np.arange(len(names)) + 1).tolist()

    def values(self, text: Text) -> Floats | None:
        """The numbers [names, lines] of whole lines; None where a line is anything else."""
        made, first = [np.empty((len(self._places), 0))], 0
        with memoryview(text) as view, contextlib.suppress(*UNREADABLE):
            while first < len(view):
                piece = bytes(view[first : first + PIECE])
                last = piece.rfind(b"\n") + 1
                if not last:  # a line that is longer
                    piece = bytes(view[first:])
                    last = piece.find(b"\n") + 1
                lines = np.count_nonzero(np.frombuffer(piece, np.uint8, last) == _NEWLINE)
                rows = self._decoder.decode_lines(memoryview(piece)[:last])
                if not last or len(rows) != lines:
                    return None
                made.append(self._columns(rows))
                first += last
            return np.concatenate(made, axis=1)
        return None

    def _columns(self, rows: list[Any]) -> Floats:
        self._encoder.encode_into(rows, self._packed)
        start = len(self._packed) - self._width * len(rows)  # behind the length of the list
        made = np.empty((len(self._places), len(rows)))
        for place, column in zip(self._places, made, strict=True):
            column[:] = np.ndarray(len(rows), ">f8", self._packed, start + place, (self._width,))
        return made


def schema_of(row: Mapping[str, Any]) -> Schema | None:
    """For rows of these names, all of them numbers; None where this one is not so."""
    if not {*map(type, row.values())} <= NUMBERS or "global_step/max_steps" in row:
        return None
    with contextlib.suppress(ValueError):  # names with quotes or control characters
        return Schema(tuple(row))
    return None
