"""Measurements kept on disk, each under a hash of everything that decides it.

That is: the experiment's id and setting, its file, what experiments share, the package, the names of plug-ins, and the
versions of what computes. Any change of that code is measured anew. An entry is one file, written beside its place and
moved there, with check sums: it is whole, or it is not there.
"""

import functools
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bandit_lab.app.chunks import durable
from bandit_lab.app.progress import stopped_by_disk
from bandit_lab.app.result import plain
from bandit_lab.app.settings.config import beside_package
from bandit_lab.lab.reproduce.experiment import Loaded, Setting

if TYPE_CHECKING:
    import xarray

PACKAGES = ("jax", "jaxlib", "optax", "numpy", "scipy")
MEASURED = "measured"
_KEY, _MARK, _READABLE = 20, 8, 60
"""Characters of a folder's hash, of an entry's, and of the readable part of its name."""


class Cache:
    """The entries of one experiment at one setting. folder None: nothing is kept. plugins: modules of plug-ins."""

    def __init__(self, folder: Path | None, loaded: Loaded, setting: Setting, plugins: Sequence[str] = ()) -> None:
        self.folder = None if folder is None else folder / loaded.id / _key(loaded, setting, plugins)[:_KEY]

    def keep(self, name: str, function: "Callable[[], xarray.Dataset]") -> "xarray.Dataset":
        """The entry `name`; made by `function` and stored if it is not there. Raises Stopped if it cannot be stored."""
        entry = self.load(name)
        if entry is not None:
            return entry
        data = _pack(function())
        if self.folder is not None:
            with stopped_by_disk(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                durable.write_file(self._path(name), data)
        return _unpack(data)

    def load(self, name: str) -> "xarray.Dataset | None":
        """A stored entry, or None. A damaged one counts as none."""
        if self.folder is None or not self._path(name).is_file():
            return None
        try:
            return _unpack(self._path(name).read_bytes())
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, ValueError, KeyError, EOFError):
            return None

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        readable = "".join(c if c.isalnum() else "_" for c in name)[:_READABLE]
        return self.folder / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:_MARK]}.npz"


def _key(loaded: Loaded, setting: Setting, plugins: Sequence[str] = ()) -> str:
    """SHA-256 of everything that decides a measurement."""
    what = {
        "id": loaded.id,
        "setting": plain(setting.as_dict()),
        "code": [loaded.source, _code()],
        "plugins": [*plugins],
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "inputs": loaded.inputs(setting),
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


@functools.cache
def _code() -> str:
    """Hash of the package and of what experiments share."""
    files = [
        *Path(__file__).parents[2].rglob("*.py"),
        *(beside_package("experiments", "*.py") / "shared").rglob("*.py"),
    ]
    code = hashlib.sha256()
    for path in sorted(files):
        code.update(path.read_bytes())
    return code.hexdigest()


def _pack(dataset: "xarray.Dataset") -> bytes:
    """A data set of numbers, truth values and text as the bytes of an `.npz` file, whose members have check sums."""
    about = plain(dataset.to_dict(data=False))
    values = {str(name): np.asarray(variable.values) for name, variable in dataset.variables.items()}
    arrays = {f"v_{name}": x.astype(str) if x.dtype.kind in "OT" else x for name, x in values.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(data: bytes) -> "xarray.Dataset":
    """The data set of `_pack`, its variables in the order in which they were."""
    import xarray

    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        each = about["coords"] | about["data_vars"]
        places = {place.removeprefix("v_"): place for place in arrays.files if place != "about"}
        variables = {name: (each[name]["dims"], arrays[place], each[name]["attrs"]) for name, place in places.items()}
    return xarray.Dataset(variables, attrs=about["attrs"]).set_coords(list(about["coords"]))
