"""A store that somebody sent: what its metadata asks for is looked at before anything is opened."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray

from bandit_lab.app.folder import results


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (self.place,))


@pytest.fixture
def store(tmp_path):
    about = {"value": ("cell", np.arange(5.0)), "word": ("cell", np.array([*"abcde"], object))}
    results.write(tmp_path / "results.zarr", xarray.Dataset(about))
    return tmp_path / "results.zarr"


def changed(store: Path, **settings) -> None:
    """The metadata of `value` with these entries, in both places where zarr reads it."""
    for file in (store / "value/.zarray", store / ".zmetadata"):
        content = json.loads(file.read_text())
        (content["metadata"]["value/.zarray"] if file.name == ".zmetadata" else content).update(settings)
        file.write_text(json.dumps(content))


def test_our_own_is_read(store):
    with results.opened(store) as data:
        np.testing.assert_array_equal(data["value"], np.arange(5.0))
        assert list(data["word"].values) == [*"abcde"]


def test_another_is_refused_in_one_line_and_runs_nothing(store, tmp_path):
    (store / "value/0").write_bytes(pickle.dumps(Planted(str(tmp_path / "ran"))))
    changed(store, dtype="|O", filters=[{"id": "pickle"}])
    with pytest.raises(ValueError, match=r"^store: expected a zarr store") as told:
        results.opened(store)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "ran").exists()


def test_metadata_of_one_place_alone_do_not_hide_another(store):
    """Consolidated metadata are what is read; those beside each array are looked at as well."""
    file = store / "value/.zarray"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"filters": [{"id": "pickle"}]}))
    with pytest.raises(ValueError, match="pickle"):
        results.opened(store)


@pytest.mark.parametrize("text", ["", "[" * 100_000])
def test_metadata_that_cannot_be_read(text, store):
    (store / ".zmetadata").write_text(text)
    with pytest.raises(ValueError, match=r"^store: expected a zarr store"):
        results.opened(store)
