"""A Parquet file, as wandb's history export and pandas write it: a column per metric. Needs `pyarrow`."""

from pathlib import Path
from typing import Any

from grpo_clinic.readers import limits
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.registry import register_reader
from grpo_clinic.readers.table import RunTables

MAGIC = b"PAR1"


def read(path: Path, options: ReadOptions) -> Parsed:
    """The numeric and text columns. Raises ValueError for a damaged or too large file, or without pyarrow.

    What is bounded is what is decoded. A text column comes as numbers into a list of its different texts, as it often
    is stored: a long text that every row repeats would otherwise be written out for each of them.
    """
    try:
        import pyarrow
        from pyarrow import parquet, types
    except ImportError:
        raise ValueError("expected pyarrow for a Parquet file, got none installed (pip install pyarrow)") from None
    try:
        schema = parquet.read_schema(path)
        texts = [f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)]
        wanted = [
            field.name
            for field in schema
            if types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)
            or field.name in texts
        ]  # fmt: skip
        if not wanted:
            raise ValueError("no column of numbers or texts")
        file = parquet.ParquetFile(path, read_dictionary=texts)
        _check_size(file.metadata, wanted)
        tables = RunTables()
        for batch in file.iter_batches(batch_size=1024, columns=wanted):
            columns = [_values(column) for column in batch.columns]
            for row in zip(*columns, strict=True):
                tables.add({k: value for k, value in zip(batch.schema.names, row, strict=True) if value is not None})
    except (limits.TooLarge, MemoryError):  # MemoryError: pyarrow's own is an ArrowException, too
        raise
    except (pyarrow.ArrowException, ValueError) as error:
        raise ValueError(f"expected a Parquet file, got a damaged one ({str(error)[:80]})") from None
    return Parsed("Parquet", tables.done())


def _check_size(metadata: Any, wanted: list[str]) -> None:
    """Raises TooLarge for more numbers, or more bytes behind the compression, than one log may have."""
    cells = metadata.num_rows * len(wanted)
    if cells > limits.MAX_CELLS or len(wanted) > limits.MAX_KEYS:
        raise limits.TooLarge(f"expected at most {limits.MAX_CELLS} numbers in one log, got {cells}")
    size = 0
    for group in range(metadata.num_row_groups):
        columns = (metadata.row_group(group).column(place) for place in range(metadata.num_columns))
        size += sum(column.total_uncompressed_size for column in columns if column.path_in_schema in wanted)
    if size > limits.MAX_UNPACKED_BYTES:
        raise limits.TooLarge(f"expected at most {limits.MAX_UNPACKED_BYTES} bytes in a Parquet file, got {size}")


def _values(column: Any) -> list[Any]:
    """The values of a column; each text once, and none of those that are too long to be kept."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return list(column.to_pylist())
    short = compute.less_equal(compute.utf8_length(column.dictionary), limits.MAX_KEY)
    words = compute.if_else(short, column.dictionary, None).to_pylist()
    return [None if place is None else words[place] for place in column.indices.to_pylist()]


@register_reader("parquet")
class Parquet:
    """Parquet files."""

    order = 10

    def owns(self, path: Path, start: bytes) -> bool:
        """By the first bytes."""
        return start.startswith(MAGIC)

    def read(self, path: Path, options: ReadOptions) -> Parsed:
        """As `read` of this file."""
        return read(path, options)
