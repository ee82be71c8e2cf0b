"""`export`: the results of a run, or of all runs of a `-m`, as one tidy table: a row per cell, a slab at a time."""

import contextlib
import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.chunks import durable
from bandit_lab.app.chunks.run import reason_of
from bandit_lab.app.document import Document, On, Paragraph, Values
from bandit_lab.app.folder import written
from bandit_lab.app.folder.outputs import output_file
from bandit_lab.app.folder.results import chunk_shape
from bandit_lab.app.folder.status import runs_in
from bandit_lab.app.folder.written import RESULTS
from bandit_lab.app.settings.config import ExportSettings
from bandit_lab.app.terminal.errors import BadInput, stopped_by_disk
from bandit_lab.app.terminal.progress import Progress

if TYPE_CHECKING:
    import pandas
    import xarray

FORMATS = ("csv", "parquet")
TABLES = {"grid": "outcome", "sampled": "lost_share"}  # table -> the variable whose dimensions make a cell
COUNTED = "outcome_label"  # the dimension that becomes a column per outcome
Labels = dict[str, Any]
"""What tells one run of several from the others: its folder and the values of its settings."""


@dataclass(frozen=True)
class ExportPlan:
    """Stores that exist, with their labels, and a file that can be written. units: of the columns, in their order."""

    stores: list[tuple[Path, Labels]]
    units: dict[str, str]
    table: str
    format: str
    output: Path


def prepare(settings: ExportSettings, explicit: frozenset[str]) -> ExportPlan:
    """Check everything, do nothing."""
    _checks.choice("format", settings.format, FORMATS)
    _checks.choice("table", settings.table, TABLES)
    folder, jobs = runs_in(settings.folder)
    runs = [(folder / job.name, {"folder": job.name} | job.values) for job in jobs] or [(folder, {})]
    for run, _ in runs:
        _check_store(run)
    here = importlib.util.find_spec("pyarrow") is not None
    advice = "csv, or parquet after pip install pyarrow"
    _checks.require(settings.format != "parquet" or here, "format", advice, settings.format)
    default = folder / f"{settings.table}.{settings.format}"
    ours = _is_csv_table if settings.format == "csv" else _is_parquet_table
    output = output_file("output", Path(settings.output) if settings.output else default, ours)
    columns = [_columns_of(run, settings.table) for run, _ in runs]
    for (run, _), units in zip(runs, columns, strict=True):
        _checks.require(units == columns[0], "folder", f"runs with the columns of {runs[0][0]}", str(run))
    units = {name: "label" for name in runs[0][1] if name not in columns[0]} | columns[0]
    stores = [
        (run / RESULTS, {name: labels[name] for name in labels if name not in columns[0]}) for run, labels in runs
    ]
    return ExportPlan(stores, units, settings.table, settings.format, output)


def _check_store(folder: Path) -> None:
    there = (folder / RESULTS).is_dir()
    _checks.require(there, "folder", f"a run with {RESULTS} (`status` tells what is left)", str(folder))
    wrong = written.changed_files(
        folder, {n: entry for n, entry in written.inspect_folder(folder).files.items() if n == RESULTS}
    )
    got = f"{folder}, where {written.in_words(wrong)}"
    _checks.require(not wrong, "folder", f"a run whose {RESULTS} is whole", got)


def _columns_of(folder: Path, table: str) -> dict[str, str]:
    import xarray

    try:
        data = xarray.open_zarr(folder / RESULTS, chunks=None)
    except (OSError, ValueError, KeyError) as error:  # of an older version, which noted no sums
        _checks.require(False, "folder", f"a run whose {RESULTS} can be read", f"{folder} ({reason_of(error)})")
        raise
    with data:
        _checks.require(TABLES[table] in data, "table", "a table of this run's results", table)
        return column_units(data, table)


def compute(plan: ExportPlan, progress: Progress) -> Document:
    """Write the table; say how large it is."""
    import xarray

    partial = durable.partial_name(plan.output)
    with stopped_by_disk(plan.output), contextlib.ExitStack() as stack, progress.stage("export") as advance:
        try:
            data = [(stack.enter_context(xarray.open_zarr(path, chunks=None)), labels) for path, labels in plan.stores]
            total = sum(one[TABLES[plan.table]].size for one, _ in data)
            rows, write = 0, stack.enter_context((_csv if plan.format == "csv" else _parquet)(partial, plan.units))
            for one, labels in data:
                for frame in frames(one, plan.table):
                    write(frame.assign(**labels)[list(plan.units)])
                    rows += len(frame)
                    advance(rows, total)
            stack.close()
            durable.move_files([(partial, plan.output)])
        except (RuntimeError, ValueError, KeyError) as error:  # what decompressing says of damaged arrays
            raise BadInput(f"folder: expected arrays that can be read, got {reason_of(error)}") from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
    text = f"{rows} rows, {len(plan.units)} columns: {plan.output}"
    about = {"table": plan.table, "output": str(plan.output), "rows": rows, "units": plan.units}
    return Document("export", {"": [Values(about, on=On.JSON), Paragraph(text)]})


def _members(data: "xarray.Dataset", table: str) -> tuple[tuple[str, ...], list[str]]:
    """(dimensions of a cell, variables that have a value or a short list of values for every cell)."""
    dims = tuple(str(d) for d in data[TABLES[table]].dims)
    return dims, [str(n) for n, v in data.data_vars.items() if v.dims and set(v.dims) <= {*dims, COUNTED}]


def column_units(data: "xarray.Dataset", table: str) -> dict[str, str]:
    """Columns of the table in their order, with their units."""
    dims, names = _members(data, table)
    result: dict[str, str] = {}
    for name in (*dims, *names):
        if COUNTED in data[name].dims:
            result |= {f"runs_{label}": "runs" for label in data[COUNTED].values.tolist()}
        else:
            result[name] = "label" if "flag_values" in data[name].attrs else str(data[name].attrs.get("units", "1"))
    return result


def frames(data: "xarray.Dataset", table: str) -> "Iterator[pandas.DataFrame]":
    """Some cells at a time, in the order of the grid. Counts per outcome are a column each, codes become labels."""
    dims, names = _members(data, table)
    sizes = [data.sizes[d] for d in dims]
    chunk = chunk_shape(sizes)
    for corner in itertools.product(*(range(0, s, c) for s, c in zip(sizes, chunk, strict=True))):
        slab = data[names].isel({d: slice(i, i + c) for d, i, c in zip(dims, corner, chunk, strict=True)})
        for name in [n for n in names if COUNTED in slab[n].dims]:
            counts = slab[name].to_dataset(COUNTED)
            slab = slab.drop_vars(name).assign({f"runs_{label}": counts[label] for label in counts})
        slab = slab.drop_vars(COUNTED, errors="ignore")
        frame = slab.to_dataframe(dim_order=list(dims)).reset_index()
        for name in [n for n in names if "flag_values" in data[n].attrs]:
            about = data[name].attrs
            words = dict(zip(about["flag_values"], about["flag_meanings"].split(), strict=True))
            frame[name] = frame[name].map(words).fillna("")
        yield frame


def _is_csv_table(path: Path) -> bool:
    """Whether a file begins as `_csv` writes it: a line per column with its unit, then the columns."""
    with path.open(encoding="utf-8", newline="") as file:
        units = list(itertools.takewhile(lambda line: line.startswith("# "), iter(lambda: file.readline(2**16), "")))
        file.seek(0)
        *_, head = itertools.islice(iter(lambda: file.readline(2**20), ""), len(units) + 1)
    return bool(units) and head == ",".join(line[2:].partition(": ")[0] for line in units) + "\r\n"


def _is_parquet_table(path: Path) -> bool:
    """Whether every column of a Parquet file has its unit."""
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    return len(schema) > 0 and all(b"units" in (field.metadata or {}) for field in schema)


@contextlib.contextmanager
def _csv(path: Path, units: dict[str, str]) -> Iterator[Any]:
    """Takes slabs. Lines with units begin with '#'; a missing value is empty; numbers keep their last bit."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {name}: {unit}\n" for name, unit in units.items())
        file.write(",".join(units) + "\r\n")
        yield lambda frame: frame.replace([np.inf, -np.inf], np.nan).to_csv(
            file, header=False, index=False, lineterminator="\r\n"
        )


@contextlib.contextmanager
def _parquet(path: Path, units: dict[str, str]) -> Iterator[Any]:
    """Takes slabs. Units are metadata of the fields; a missing value is null."""
    import pyarrow
    from pyarrow import parquet

    with contextlib.ExitStack() as stack:
        writer: Any = None

        def write(frame: "pandas.DataFrame") -> None:
            nonlocal writer
            arrays = [pyarrow.array(frame[name].to_numpy(), from_pandas=True) for name in units]
            if writer is None:
                pairs = zip(units.items(), arrays, strict=True)
                fields = [pyarrow.field(name, a.type, metadata={"units": unit}) for (name, unit), a in pairs]
                writer = stack.enter_context(parquet.ParquetWriter(path, pyarrow.schema(fields)))
            writer.write_batch(pyarrow.record_batch(arrays, schema=writer.schema))

        yield write
