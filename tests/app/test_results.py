"""The results store: what was written comes back, chunks are small, a failed write leaves nothing, nothing is run."""

import errno
import json
import os
import pickle

import numpy as np
import pytest
import xarray

from bandit_lab.app.folder import results, store
from bandit_lab.app.folder.results import CHUNK, Stream, chunk_shape

DIMS = ("momentum", "kl_weight", "refresh_interval", "learning_rate")
SHAPES = [(3, 1, 4, 5), (2, 1, 300, 1000), (1, 1, 1, 3, 200_000)]


def coordinates(shape) -> dict:
    return {dim: (dim, np.arange(size, dtype=float), {"units": "1"}) for dim, size in zip(DIMS, shape, strict=False)}


def stream(shape, calls: list) -> tuple[Stream, np.ndarray]:
    """Numbers that tell their own place, read a slab at a time."""
    values = np.arange(np.prod(shape)).reshape(-1, shape[-1])

    def read(start, stop, first, last):
        calls.append((start, stop, first, last))
        part = values[start:stop, first:last]
        return {"number": part.astype(float), "parity": (part % 2).astype(np.int8)}

    columns = {
        "number": (np.dtype(float), {"units": "1"}),
        "parity": (np.dtype(np.int8), {"units": "1"}),
    }
    return Stream((*DIMS[: len(shape) - 1], "seed"), shape, columns, read), values.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_are_neighbouring_cells_and_small(shape):
    chunk = chunk_shape(shape)
    assert np.prod(chunk) <= CHUNK
    assert all(1 <= c <= s for c, s in zip(chunk, shape, strict=True))
    cut = max((i for i, (c, s) in enumerate(zip(chunk, shape, strict=True)) if c < s), default=0)
    assert all(c == 1 for c in chunk[:cut])
    if np.prod(shape) <= CHUNK:
        assert chunk == shape
    else:
        assert np.prod(chunk) > CHUNK / 2


@pytest.mark.parametrize("shape", [(3, 1, 4, 5), (2, 3, 33_000), (2, 7, 10_000), (2, 70_000)])
def test_streams_come_back_as_they_were(tmp_path, shape):
    calls: list = []
    source, values = stream(shape, calls)
    small = {"row": (DIMS[:1], np.arange(float(shape[0])), {"units": "1"})}
    results.write(tmp_path / "results.zarr", xarray.Dataset(small, coordinates(shape[:-1])), [source])
    data = xarray.open_zarr(tmp_path / "results.zarr").load()
    np.testing.assert_array_equal(data["number"], values)
    np.testing.assert_array_equal(data["parity"], values % 2)
    assert data["number"].dims == source.dims
    assert data["parity"].dtype == np.int8
    assert all((b - a) * (d - c) <= CHUNK for a, b, c, d in calls)
    assert sum((b - a) * (d - c) for a, b, c, d in calls) == values.size


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "results.zarr"
    results.write(path, xarray.Dataset({"x": ("momentum", [1.0])}))

    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(results, "_write_stream", full)
    with pytest.raises(OSError, match="no space"):
        results.write(path, xarray.Dataset({"x": ("momentum", [2.0])}), [stream((1, 2), [])[0]])
    assert xarray.open_zarr(path, chunks=None)["x"].values.tolist() == [1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["results.zarr"]


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (self.place,))


@pytest.mark.parametrize("places", [("value/.zarray", ".zmetadata"), ("value/.zarray",)])
def test_a_store_that_asks_to_unpickle_is_refused_and_runs_nothing(tmp_path, places):
    """Consolidated metadata are what is read; those beside each array are looked at as well."""
    store = tmp_path / "results.zarr"
    results.write(store, xarray.Dataset({"value": ("cell", np.arange(5.0))}))
    with results.opened(store) as data:
        np.testing.assert_array_equal(data["value"], np.arange(5.0))
    (store / "value/0").write_bytes(pickle.dumps(Planted(str(tmp_path / "ran"))))
    for place in places:
        content = json.loads((store / place).read_text())
        of_value = content["metadata"]["value/.zarray"] if place == ".zmetadata" else content
        of_value |= {"dtype": "|O", "filters": [{"id": "pickle"}]}
        (store / place).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"^store: expected a zarr store"):
        results.opened(store)
    assert not (tmp_path / "ran").exists()


def test_what_differs_is_named_where_one_has_no_entries_there():
    assert store._differing({"a": {"b": 1}, "c": 2}, {"a": 3, "c": 2}) == ["a"]


def test_a_manifest_names_all_files_and_its_hash_every_setting(tmp_path):
    folder = store.RunFolder(tmp_path)
    folder.write_files({"a.png": b"1"})
    folder.write_files({"b.png": b"2"})
    folder.write_manifest({})
    assert json.loads((tmp_path / "manifest.json").read_text())["files"] == ["a.png", "b.png"]
    hashes = {
        store._manifest("simulate", {"seed": 1, "steps": 5} | more, {}, {})["config_hash"]
        for more in ({}, {"seed": 2}, {"steps": 6})
    }
    assert len(hashes) == 3
