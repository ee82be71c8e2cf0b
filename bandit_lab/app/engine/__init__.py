"""Engines: where the chunks of a run are computed. What a chunk gives does not depend on it, to the last bit.

Only the process that was started writes into the run folder; an engine gives back what was computed.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from bandit_lab._registry import Registry, import_modules
from bandit_lab.app.chunks import Attempts, one_after_another


class _Engine(Protocol):
    """A place where chunks are computed."""

    def opened(self, plugins: Sequence[str]) -> AbstractContextManager[Attempts]:
        """Inside, chunks can be computed. plugins: as the setting of that name.

        Raises:
          ValueError: nobody is there to compute, or somebody with other versions.
        """
        ...


ENGINES: Registry[_Engine] = Registry("engine", needs=("opened",))
register_engine = ENGINES.register


@register_engine("local")
@dataclass(frozen=True)
class _Local:
    """This process: one chunk after another, each on all of its devices."""

    @contextmanager
    def opened(self, plugins: Sequence[str]) -> Iterator[Attempts]:
        yield one_after_another


def chosen(settings: Any) -> _Engine:
    """The engine that a command's settings name. Raises ValueError for one that is unknown or cannot be."""
    options = {key: value for key, value in settings.engine.items() if key != "name"}
    return ENGINES.build(settings.engine["name"], options)


import_modules(__name__, __path__)
