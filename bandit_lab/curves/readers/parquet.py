"""A Parquet file, as wandb's history export and pandas write it: a column per metric. Needs `pyarrow`."""

from pathlib import Path

from bandit_lab.curves import limits
from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.table import RunTables

MAGIC = b"PAR1"


def read(path: Path, options: ReadOptions) -> Parsed:
    """The numeric and text columns. Raises ValueError for a damaged or too large file, or without pyarrow."""
    try:
        from pyarrow import parquet, types
    except ImportError:
        raise ValueError("expected pyarrow for a Parquet file, got none installed (pip install pyarrow)") from None
    try:
        file = parquet.ParquetFile(path)
        wanted = [
            field.name
            for field in file.schema_arrow
            if types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)
            or types.is_string(field.type) or types.is_large_string(field.type)
        ]  # fmt: skip
        cells = file.metadata.num_rows * len(wanted)
        if cells > limits.MAX_CELLS or len(wanted) > limits.MAX_KEYS:
            raise limits.TooLarge(f"expected at most {limits.MAX_CELLS} numbers in one log, got {cells}")
        tables = RunTables()
        for batch in file.iter_batches(batch_size=1024, columns=wanted):
            for row in batch.to_pylist():
                tables.add({key: value for key, value in row.items() if value is not None})
    except limits.TooLarge:
        raise
    except Exception as error:  # the library has its own kinds of error, OSError and ValueError among them
        raise ValueError(f"expected a Parquet file, got a damaged one ({str(error)[:80]})") from None
    return Parsed("Parquet", tables.done())
