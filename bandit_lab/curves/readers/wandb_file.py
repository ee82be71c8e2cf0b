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

from bandit_lab.curves import limits, source
from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.table import LogTable

MAGIC = b":W&B"
_HEADER, _BLOCK = 7, 32 * 1024
_PIECE = struct.Struct("<IHB")
_CUT, _WHOLE, _FIRST, _MIDDLE, _LAST = range(5)
_LARGEST_RECORD = 64 * 1024**2


def read(path: Path, options: ReadOptions) -> Parsed:
    """The history, a row per step. Raises ValueError without the package, for a damaged file or one without history."""
    message, errors = _library()
    source.check(path)
    table, cut = LogTable(), False
    try:
        for data in records(path):
            if data is None:
                cut = True
                continue
            row = _row(message.FromString(data))
            if row:
                table.add(row)
    except errors:
        raise ValueError("expected records of wandb, got others") from None
    if not table.keys:
        raise ValueError("expected an offline run of wandb with a history, got none")
    return Parsed("wandb offline run", {"": table}, ("the file ends inside a record",) if cut else ())


def config(path: Path) -> dict[str, Any]:
    """The run's settings by dotted key. Raises ValueError as `read` does."""
    message, errors = _library()
    found: dict[str, Any] = {}
    try:
        for data in filter(None, records(path)):
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


def records(path: Path) -> Iterator[bytes | None]:
    """The records of the file in order; None at its end if that is inside a record. Raises ValueError for damage."""
    parts: list[bytes] = []
    with open(path, "rb") as file:
        if file.read(_HEADER)[: len(MAGIC)] != MAGIC:
            raise ValueError("expected the header of a .wandb file, got another")
        for kind, data in _pieces(file):
            if kind == _CUT:
                yield None
                return
            if (kind in (_WHOLE, _FIRST)) == bool(parts):
                raise ValueError("expected the pieces of a wandb record in order, got others")
            parts.append(data)
            if sum(map(len, parts)) > _LARGEST_RECORD:
                raise limits.TooLarge(f"expected wandb records of at most {_LARGEST_RECORD} bytes, got a larger one")
            if kind in (_WHOLE, _LAST):
                yield b"".join(parts)
                parts = []
    if parts:
        yield None


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
