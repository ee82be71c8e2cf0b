"""The interface of an engine."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bandit_lab._registry import Registry
from bandit_lab.app.chunks import Attempts


class Engine(Protocol):
    """A place where chunks are computed."""

    def opened(self, plugins: Sequence[str]) -> AbstractContextManager[Attempts]:
        """Inside, chunks can be computed. plugins: as the setting of that name.


        Raises:
          ValueError: nobody is there to compute, or somebody with other versions.
        """
        ...


ENGINES: Registry[Engine] = Registry("engine", needs=("opened",))
register_engine = ENGINES.register


def chosen(settings: Any) -> Engine:
    """The engine that a command's settings name. Raises ValueError for one that is unknown or cannot be."""
    options = {key: value for key, value in settings.engine.items() if key != "name"}
    return ENGINES.build(settings.engine["name"], options)
