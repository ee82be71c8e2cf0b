"""This process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bandit_lab.app.chunks import Attempts, one_after_another
from bandit_lab.app.engine.base import register_engine


@register_engine("local")
@dataclass(frozen=True)
class _Local:
    """This process: one chunk after another, each on all of its devices."""

    @contextmanager
    def opened(self, plugins: Sequence[str]) -> Iterator[Attempts]:
        """At once."""
        yield one_after_another
