"""Compiled programs that depend on numbers such as the steps of a run: only the last used ones are kept.

JAX keeps every program of a jitted function for as long as the function lives, about 10 MB each. A process that runs
many lengths would grow by that with every one of them.
"""

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from threading import Lock
from typing import Any

MOST = 32
"""Values of the static arguments per function. A sweep comes back to a length only while it is at work on its rows."""


class Kept:
    """build(*key), made once for each of the `most` keys that were used last."""

    def __init__(self, build: Callable[..., Any], most: int = MOST) -> None:
        self._cached, self._lock = lru_cache(maxsize=most)(build), Lock()
        update_wrapper(self, build)

    def __call__(self, *key: Any) -> Any:
        with self._lock:  # calls from several threads would build, and then compile, the same key twice
            return self._cached(*key)

    def __len__(self) -> int:
        """Number of stored programs."""
        return self._cached.cache_info().currsize
