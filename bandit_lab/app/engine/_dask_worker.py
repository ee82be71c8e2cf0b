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

from bandit_lab._version import __version__
from bandit_lab.app import compilation_cache, plugin_source, plugins
from bandit_lab.app.arithmetic import arithmetic
from bandit_lab.app.chunks import Attempt, Work, attempt, key_of


class Ready(WorkerPlugin):
    """Prepares each worker, also one that comes later: double precision, kept programs, the plug-ins' files.

    ours: the workers end with the client. Ctrl-C is for it alone, though a terminal sends it to a whole group.
    """

    name = "bandit_lab"

    def __init__(self, names: Sequence[str], cache: Any, ours: bool) -> None:
        self.names, self.cache, self.ours = list(names), cache, ours
        modules = {one for name in names for one in plugin_source.modules_of(name)}
        self.files = {_relative(one): Path(str(sys.modules[one].__file__)).read_bytes() for one in sorted(modules)}

    def setup(self, worker: Any) -> None:
        """Called by the worker before its first chunk."""
        if self.ours:
            os.setpgid(0, 0)
        folder = Path(worker.local_directory) / "plugins"
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        sys.path.insert(0, str(folder))
        compilation_cache.enable(self.cache)
        jax.config.update("jax_enable_x64", True)
        plugins.load(self.names)


def _relative(module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if hasattr(sys.modules[module], "__path__") else f"{path}.py"


def signature() -> dict[str, Any]:
    """All that the bits of a result depend on besides its settings."""
    return arithmetic() | {"jaxlib": metadata.version("jaxlib"), "bandit_lab": __version__}


def computed(packed: bytes, key: str) -> Attempt:
    """On a worker. A chunk's key says all that decides its numbers: source of plug-ins, versions, processor."""
    work: Work = pickle.loads(packed)
    if key_of(work) != key:
        raise RuntimeError("the worker would compute other bits: another version, processor or source of a plug-in")
    return attempt(work)
