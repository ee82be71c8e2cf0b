"""TensorBoard event files, through the `tensorboard` package (optional: `pip install tensorboard`).

Only scalars are kept. The framing of the file is walked first, so that a hostile length never reaches the library.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_clinic.readers import limits, source
from grpo_clinic.readers.table import LogTable, Parsed

_FRAME = struct.Struct("<Q")


def read(path: Path) -> Parsed:
    """The scalars of one event file, a row per step. Raises ValueError without the library or without scalars."""
    cut = _whole_until(path, source.check(path))
    table, notes = LogTable(), ["the file ends inside a record"] if cut else []
    for step, values in _by_step(_events(path, notes)):
        table.add({"step": step, **values})
    if not table.keys:
        raise ValueError("expected an event file with scalars, got none")
    return Parsed("TensorBoard events", {"": table}, tuple(notes))


def _whole_until(path: Path, size: int) -> bool:
    """Whether the last record is cut off. Raises ValueError for a record that cannot be one."""
    position = 0
    with open(path, "rb") as file:
        while position + 12 <= size:
            file.seek(position)
            (length,) = _FRAME.unpack(file.read(8))
            if length > limits.MAX_RECORD:
                raise ValueError(f"expected event records of at most {limits.MAX_RECORD} bytes, got one of {length}")
            position += 16 + length
    return position != size


def _library() -> tuple[Any, Any, Any]:
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.util import tensor_util
    except ImportError:
        raise ValueError(
            "expected the tensorboard package to read event files, got none: pip install tensorboard, "
            "or export the scalars as CSV"
        ) from None
    return RawEventFileLoader, Event, tensor_util


def _events(path: Path, notes: list[str]) -> Iterator[tuple[int, str, float]]:
    """(step, tag, value) of every scalar, in order of writing; stops at the first damaged record, with a note.

    A decoded message may take a hundred times its bytes. So long records, as pictures are, stay undecoded.
    """
    loader, message, tensor_util = _library()
    count, long = 0, 0
    try:
        for record in loader(str(path)).Load():
            if len(record) > limits.MAX_LINE:
                long += 1
                continue
            event = message.FromString(record)
            for value in event.summary.value:
                number = _scalar(value, tensor_util)
                if number is not None and len(value.tag) <= limits.MAX_KEY:
                    count += 1
                    if count > limits.MAX_CELLS:
                        raise ValueError(f"expected at most {limits.MAX_CELLS} numbers in one log, got more")
                    yield int(event.step), str(value.tag), number
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:  # the protobuf and TensorFlow errors share no base class
        if count == 0:
            raise ValueError(f"expected a TensorBoard event file, got a damaged one ({type(error).__name__})") from None
        notes.append(f"a damaged record ({type(error).__name__}): what stands before it was read")
    if long:
        notes.append(f"{long} records of more than {limits.MAX_LINE} bytes skipped")


def _scalar(value: Any, tensor_util: Any) -> float | None:
    """The number of one summary value; None for histograms, pictures, texts and tensors of more than one element."""
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    if value.WhichOneof("value") != "tensor" or len(value.tensor.tensor_shape.dim) > 0:
        return None
    if value.tensor.dtype not in (1, 2, 3, 4, 6, 9, 14, 19):  # float, double and integer kinds of TensorFlow
        return None
    return float(tensor_util.make_ndarray(value.tensor).item())


def _by_step(events: Iterator[tuple[int, str, float]]) -> Iterator[tuple[int, dict[str, float]]]:
    """Scalars of one step that follow each other, as one row; a tag that comes again starts a new row."""
    row: dict[str, float] = {}
    current = 0
    for step, tag, number in events:
        if row and (step != current or tag in row):
            yield current, row
            row = {}
        current, row[tag] = step, number
    if row:
        yield current, row
