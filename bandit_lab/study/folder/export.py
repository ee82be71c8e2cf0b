"""`export`: the results of a run as one tidy table, a row per cell, written a slab at a time."""

import contextlib
import csv
import importlib.util
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.study.chunks import durable
from bandit_lab.study.chunks.run import reason_of
from bandit_lab.study.folder import written
from bandit_lab.study.folder.results import chunk_shape
from bandit_lab.study.folder.status import run_folder
from bandit_lab.study.folder.store import RESULTS
from bandit_lab.study.settings.folder import ExportSettings
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.errors import BadInput, Stopped
from bandit_lab.study.terminal.progress import Progress

if TYPE_CHECKING:
    import xarray

FORMATS = ("csv", "parquet")
TABLES = {"grid": "outcome", "sampled": "lost_share"}  # table -> the variable whose dimensions make a cell
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class ExportPlan:
    """A store that exists and a file that can be written."""

    store: Path
    table: str
    format: str
    output: Path


def prepare(settings: ExportSettings, explicit: frozenset[str]) -> ExportPlan:
    """Check everything, do nothing."""
    _checks.choice("format", settings.format, FORMATS)
    _checks.choice("table", settings.table, TABLES)
    folder = run_folder(settings.run_dir)
    store = folder / RESULTS
    _checks.require(store.is_dir(), "run_dir", f"a run with {RESULTS} (`status` tells what is left)", str(folder))
    here = importlib.util.find_spec("pyarrow") is not None
    advice = "csv, or parquet after pip install pyarrow"
    _checks.require(settings.format != "parquet" or here, "format", advice, settings.format)
    output = Path(settings.output) if settings.output else folder / f"{settings.table}.{settings.format}"
    writable = output.parent.is_dir() and os.access(output.parent, os.W_OK) and not output.is_dir()
    _checks.require(writable, "output", "a file in a folder that can be written", str(output))
    wrong = written.damaged(folder, {n: entry for n, entry in written.look(folder).files.items() if n == RESULTS})
    _checks.require(
        not wrong, "run_dir", f"a run whose {RESULTS} is whole", f"{folder}, where {written.in_words(wrong)}"
    )
    import xarray

    try:
        data = xarray.open_zarr(store)
    except (OSError, ValueError, KeyError) as error:  # of an older version, which noted no sums
        _checks.require(False, "run_dir", f"a run whose {RESULTS} can be read", f"{folder} ({reason_of(error)})")
        raise
    with data:
        known = TABLES[settings.table] in data
    _checks.require(known, "table", "a table of this run's results", settings.table)
    return ExportPlan(store, settings.table, settings.format, output)


def execute(plan: ExportPlan, folder: Any, progress: Progress) -> None:
    """Write the table."""
    import xarray

    partial = durable.partial_name(plan.output)
    with xarray.open_zarr(plan.store) as data, progress.stage("export") as advance:
        try:
            units = column_units(data, plan.table)
            rows = _write(plan.format, partial, units, slabs(data, plan.table), advance)
            durable.move_file(partial, plan.output)
        except (RuntimeError, ValueError, KeyError) as error:  # what decompressing says of damaged arrays
            raise BadInput(f"run_dir: expected arrays that can be read, got {reason_of(error)}") from error
        except OSError as error:
            raise Stopped(f"{plan.output}: cannot be written ({error.strerror or error})") from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
    report.show(f"{rows} rows, {len(units)} columns: {plan.output}")


def _members(data: "xarray.Dataset", table: str) -> tuple[tuple[str, ...], list[str]]:
    """(dimensions of a cell, variables that have a value or a short list of values for every cell)."""
    dims = tuple(str(d) for d in data[TABLES[table]].dims)
    fits = [str(n) for n, v in data.data_vars.items() if v.dims and set(v.dims) <= {*dims, "outcome_label"}]
    return dims, fits


def column_units(data: "xarray.Dataset", table: str) -> dict[str, str]:
    """Columns of the table in their order, with their units."""
    dims, names = _members(data, table)
    result = {name: str(data[name].attrs.get("units", "1")) for name in dims}
    for name in names:
        if "outcome_label" in data[name].dims:
            result |= {f"runs_{label}": "runs" for label in data["outcome_label"].values.tolist()}
        else:
            result[name] = "label" if "flag_values" in data[name].attrs else str(data[name].attrs.get("units", "1"))
    return result


def slabs(data: "xarray.Dataset", table: str) -> Iterator[tuple[int, int, Columns]]:
    """(rows so far, rows in all, columns) of some cells at a time, in the order of the grid."""
    dims, names = _members(data, table)
    sizes = [data.sizes[d] for d in dims]
    chunk, total, done = chunk_shape(sizes), int(np.prod(sizes)), 0
    for corner in itertools.product(*(range(0, s, c) for s, c in zip(sizes, chunk, strict=True))):
        index = {d: slice(i, min(i + c, s)) for d, i, c, s in zip(dims, corner, chunk, sizes, strict=True)}
        part = data[[*names, *dims]].isel(index)
        shape = tuple(part.sizes[d] for d in dims)
        columns: Columns = {}
        for name in (*dims, *names):
            columns |= _columns(part[name], dims, shape)
        done += int(np.prod(shape))
        yield done, total, columns


def _columns(variable: "xarray.DataArray", dims: tuple[str, ...], shape: tuple[int, ...]) -> Columns:
    """One variable on every cell of a slab, flat; counts per outcome become a column each, codes become labels."""
    name = str(variable.name)
    if "outcome_label" in variable.dims:
        labels = variable["outcome_label"].values.tolist()
        parts = ((f"runs_{label}", variable.isel(outcome_label=i, drop=True)) for i, label in enumerate(labels))
        return {column: _spread(part, dims, shape) for column, part in parts}
    values = _spread(variable, dims, shape)
    if "flag_values" in variable.attrs:
        names = dict(zip(variable.attrs["flag_values"], variable.attrs["flag_meanings"].split(), strict=True))
        table = np.array([names.get(code, "") for code in range(256)], object)
        values = table[values.astype(np.uint8)]
    return {name: values}


def _spread(variable: "xarray.DataArray", dims: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    values = variable.transpose(*(d for d in dims if d in variable.dims)).values
    place = tuple(slice(None) if d in variable.dims else None for d in dims)
    return np.broadcast_to(values[place], shape).ravel()


def _write(kind: str, path: Path, units: dict[str, str], parts: Iterator[Any], advance: Any) -> int:
    """Write all slabs to `path`; the number of rows."""
    rows = 0
    with contextlib.closing(_csv(path, units) if kind == "csv" else _parquet(path, units)) as sink:
        next(sink)
        for rows, total, columns in parts:
            sink.send([columns[name] for name in units])
            advance(rows, total)
    return rows


def _csv(path: Path, units: dict[str, str]) -> Any:
    """Takes slabs. Lines with units begin with '#'; a missing value is empty; numbers keep their last bit."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {name}: {unit}\n" for name, unit in units.items())
        writer = csv.writer(file)
        writer.writerow(units)
        while True:
            columns = yield
            writer.writerows(zip(*(_plain(column) for column in columns), strict=True))


def _plain(column: np.ndarray) -> list[Any]:
    if column.dtype.kind != "f":
        return column.tolist()
    values = column.astype(object)
    values[~np.isfinite(column)] = ""
    return values.tolist()


def _parquet(path: Path, units: dict[str, str]) -> Any:
    """Takes slabs. Units are metadata of the fields; a missing value is null."""
    import pyarrow
    from pyarrow import parquet

    columns = yield
    arrays = [pyarrow.array(column, from_pandas=True) for column in columns]
    pairs = zip(units, arrays, units.values(), strict=True)
    schema = pyarrow.schema([pyarrow.field(name, a.type, metadata={"units": unit}) for name, a, unit in pairs])
    with parquet.ParquetWriter(path, schema) as writer:
        while True:
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
            columns = yield
            arrays = [pyarrow.array(column, from_pandas=True) for column in columns]
