"""The worker's side of `dask`: what it needs before its first chunk, and a chunk."""

import os
import pickle
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from distributed import WorkerPlugin

from bandit_lab.app import plugins
from bandit_lab.app.chunks import Attempt, Work, attempt, key_of
from bandit_lab.app.version import __version__


class Ready(WorkerPlugin):
    """Prepares each worker, also one that comes later: double precision, the plug-ins' files.

    ours: the workers end with the client. Ctrl-C is for it alone, though a terminal sends it to a whole group.
    """

    name = "bandit_lab"

    def __init__(self, names: Sequence[str], ours: bool) -> None:
        self.names, self.ours = list(names), ours
        self.files = {_relative(one): path.read_bytes() for name in names for one, path in _beside(name).items()}

    def setup(self, worker: Any) -> None:
        """Called by the worker before its first chunk."""
        if self.ours:
            os.setpgid(0, 0)
        folder = Path(worker.local_directory) / "plugins"
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        sys.path.insert(0, str(folder))
        jax.config.update("jax_enable_x64", True)
        plugins.load(self.names)


def _beside(name: str) -> dict[str, Path]:
    """A plug-in's module, and what is imported from its folder or package; installed packages are no part of it."""
    root = Path(str(sys.modules[name].__file__)).parents[name.count(".") + _is_package(name)]
    specs = {one: module.__spec__ for one, module in tuple(sys.modules.items()) if module.__spec__ is not None}
    files = {one: Path(str(spec.origin)) for one, spec in specs.items() if str(spec.origin).endswith(".py")}
    inside = {one: path for one, path in files.items() if root in path.parents and not one.startswith("bandit_lab")}
    return {one: path for one, path in inside.items() if "site-packages" not in path.parts and one != "__main__"}


def _relative(module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if _is_package(module) else f"{path}.py"


def _is_package(module: str) -> bool:
    spec = sys.modules[module].__spec__
    return spec is not None and spec.submodule_search_locations is not None


def signature() -> dict[str, Any]:
    """Versions and device of this process."""
    versions = {"jaxlib": metadata.version("jaxlib"), "bandit_lab": __version__}
    return versions | {"device": jax.devices()[0].device_kind}


def computed(packed: bytes, key: str) -> Attempt:
    """On a worker. A chunk's key says all that decides its numbers: settings and versions."""
    work: Work = pickle.loads(packed)
    if key_of(work) != key:
        raise RuntimeError("the worker would compute other bits: another version")
    return attempt(work)
