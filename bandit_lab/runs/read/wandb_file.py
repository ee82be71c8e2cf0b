"""An offline run of wandb, `run-<id>.wandb`: its history, through the messages of the `wandb` package (optional).

The framing is LevelDB's log format behind a header of seven bytes: blocks of 32 KiB, each record cut into pieces with a
checksum (CRC-32 of type and data), a length and a type (whole, first, middle, last). wandb's own reader of it in Python
is gone since 0.20, its protobuf messages are not. A file that is cut off is read up to there, as of a run that was
killed; a damaged piece is refused, because what stands behind it cannot be told.
"""

import importlib
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bandit_lab.runs.read import limits, source
from bandit_lab.runs.read.normalise import Parsed
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.read.registry import register_reader
from bandit_lab.runs.read.table import LogTable

MAGIC = b":W&B"
_HEADER, _BLOCK = 7, 32 * 1024
_PIECE = struct.Struct("<IHB")
_CUT, _WHOLE, _FIRST, _MIDDLE, _LAST = range(5)


def read(path: Path, options: ReadOptions) -> Parsed:
    """The history, a row per step. Raises ValueError without the package, for a damaged file or one without history."""
    message, errors = _library()
    source.check(path)
    table, notes = LogTable(), list[str]()
    try:
        for data in records(path, notes):
            row = _row(message.FromString(data))
            if row:
                table.add(row)
    except errors:
        raise ValueError("expected records of wandb, got others") from None
    if not table.keys:
        raise ValueError("expected an offline run of wandb with a history, got none")
    return Parsed("wandb offline run", {"": table}, tuple(notes))


def config(path: Path) -> dict[str, Any]:
    """The run's settings by dotted key. Raises ValueError as `read` does."""
    message, errors = _library()
    found: dict[str, Any] = {}
    try:
        for data in records(path, []):
            record = message.FromString(data)
            kind = record.WhichOneof("record_type")
            if kind in ("run", "config"):
                changed = record.run.config if kind == "run" else record.config
                found |= {".".join([item.key, *item.nested_key]).strip("."): _value(item) for item in changed.update}
    except errors:
        raise ValueError("expected records of wandb, got others") from None
    return {key: value for key, value in found.items() if value is not None and not key.startswith("_wandb")}


def _value(item: Any) -> Any:
    """What an item holds; None for what is no JSON."""
    try:
        return json.loads(item.value_json)
    except (ValueError, RecursionError):
        return None


def _library() -> tuple[Any, type[Exception]]:
    try:
        message = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
        errors = importlib.import_module("google.protobuf.message").DecodeError
    except ImportError:
        raise ValueError(
            "expected the wandb package for a .wandb file, got none installed (pip install wandb); "
            "files/output.log beside it is readable without"
        ) from None
    return message, errors


def _row(record: Any) -> dict[str, Any]:
    """What one record adds to the history; nothing for other kinds."""
    if record.WhichOneof("record_type") != "history":
        return {}
    row: dict[str, Any] = {}
    for item in record.history.item:
        row[item.key or ".".join(item.nested_key)] = _value(item)
    row.setdefault("_step", record.history.step.num)
    return row


def records(path: Path, notes: list[str]) -> Iterator[bytes]:
    """The records of the file in order; a note where it ends inside one. Raises ValueError for damage.

    A decoded message may take a hundred times its bytes. So long records are skipped, with a note.
    """
    parts: list[bytes] = []
    inside, long = False, 0
    with open(path, "rb") as file:
        if file.read(_HEADER)[: len(MAGIC)] != MAGIC:
            raise ValueError("expected the header of a .wandb file, got another")
        for kind, data in _pieces(file):
            if kind == _CUT:
                inside = True
                break
            if (kind in (_WHOLE, _FIRST)) == inside:
                raise ValueError("expected the pieces of a wandb record in order, got others")
            inside = kind in (_FIRST, _MIDDLE)
            if sum(map(len, parts)) <= limits.MAX_LINE:
                parts.append(data)
            if inside:
                continue
            record, parts = b"".join(parts), []
            if len(record) <= limits.MAX_LINE:
                yield record
            else:
                long += 1
    if inside:
        notes.append("the file ends inside a record")
    if long:
        notes.append(limits.skipped_records(long))


def _pieces(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(type, data) of each piece; `_CUT` last where the file ends inside one. Raises ValueError for a damaged one."""
    position = _HEADER
    while True:
        left = _BLOCK - position % _BLOCK
        if left < _PIECE.size:  # too short for a piece: filled up with zeros
            file.read(left)
            position += left
            continue
        head = file.read(_PIECE.size)
        if len(head) < _PIECE.size:
            if head:
                yield _CUT, b""
            return
        checksum, length, kind = _PIECE.unpack(head)
        if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or length > left - _PIECE.size:
            raise ValueError("expected pieces of a wandb record, got a damaged file")
        data = file.read(length)
        if len(data) < length:
            yield _CUT, b""
            return
        if zlib.crc32(bytes([kind]) + data) != checksum:
            raise ValueError("expected pieces of a wandb record with their checksum, got a damaged file")
        yield kind, data
        position += _PIECE.size + length


@register_reader("wandb")
class WandbFile:
    """Offline runs of wandb."""

    order = 20

    def owns(self, path: Path, start: bytes) -> bool:
        """By the first bytes."""
        return start.startswith(MAGIC)

    def read(self, path: Path, options: ReadOptions) -> Parsed:
        """As `read` of this file."""
        return read(path, options)
