"""`results.zarr`: compressed chunks small enough that one cell is read at once, whatever the size of the grid.

Chunks take whole trailing axes first, so that each holds neighbouring cells, and at most `CHUNK` numbers. What is too
large to be held in memory is written slab by slab, a slab being one chunk. Metadata are consolidated, so that opening
the store reads one file (zarr format 2; format 3 has no such thing). The folder is built beside its place and moved
there once all of it is on the disk.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.chunks import durable

if TYPE_CHECKING:
    import xarray

CHUNK = 2**16  # numbers in a chunk of the store


class Stream(NamedTuple):
    """Arrays of one shape that are written a slab at a time. columns: name -> (type, attributes).

    read: (first cell, last cell, first, last place on the last axis) -> array [cells, places] of every column; cells
    are numbered through all leading axes.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    columns: Mapping[str, tuple[np.dtype, Mapping[str, Any]]]
    read: Callable[[int, int, int, int], Mapping[str, np.ndarray]]


def chunk_shape(shape: Sequence[int], most: int = CHUNK) -> tuple[int, ...]:
    """Chunk of an array: as many whole trailing axes as fit into `most` numbers, part of the next, 1 of the others."""
    result: list[int] = []
    for size in reversed(shape):
        room = max(1, most // int(np.prod(result, dtype=np.int64)))
        result.append(max(1, min(size, room)) if not result or result[-1] == shape[len(shape) - len(result)] else 1)
    return tuple(reversed(result))


def opened(path: Path) -> "xarray.Dataset":
    """A store that `write` may have written, its values read when they are used.

    Raises:
      ValueError: metadata that cannot be read, or ask to unpickle, which may run anything. They are read before zarr.
    """
    import xarray

    try:
        metadata = [json.loads(file.read_bytes()) for file in path.rglob(".z*")]
    except (ValueError, RecursionError):
        metadata = []
    safe = bool(metadata) and "pickle" not in str(metadata).lower()
    _checks.require(safe, "store", "a zarr store of format 2 that unpickles nothing, as this program writes", path)
    return xarray.open_zarr(path, chunks=None, zarr_format=2)


def write(path: Path, dataset: "xarray.Dataset", streams: Sequence[Stream] = ()) -> None:
    """Write `dataset` and `streams` as one store. Raises OSError; `path` then is as it was."""
    import zarr

    chunks = {name: {"chunks": chunk_shape(v.shape)} for name, v in dataset.data_vars.items() if v.ndim}
    with durable.built(path) as place:
        dataset.to_zarr(place, mode="w", zarr_format=2, consolidated=False, encoding=chunks)
        group = zarr.open_group(place, mode="a", zarr_format=2)
        for stream in streams:
            _write_stream(group, stream)
        zarr.consolidate_metadata(place, zarr_format=2)


def _write_stream(group: Any, stream: Stream) -> None:
    chunk = chunk_shape(stream.shape)
    arrays = {
        name: group.create_array(
            name=name,
            shape=stream.shape,
            chunks=chunk,
            dtype=dtype,
            fill_value=None,
            attributes={**attributes, "_ARRAY_DIMENSIONS": list(stream.dims)},
        )
        for name, (dtype, attributes) in stream.columns.items()
    }
    lead = stream.shape[:-1]
    for corner in itertools.product(*(range(0, s, c) for s, c in zip(stream.shape, chunk, strict=True))):
        slab = tuple(slice(i, min(i + c, s)) for i, c, s in zip(corner, chunk, stream.shape, strict=True))
        first = int(np.ravel_multi_index(corner[:-1], lead))
        cells = int(np.prod([s.stop - s.start for s in slab[:-1]]))
        values = stream.read(first, first + cells, slab[-1].start, slab[-1].stop)
        for name, array in arrays.items():
            array[slab] = values[name].reshape([s.stop - s.start for s in slab])
