"""Calls to devices: a few in flight, results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads are kept: to start one takes as long as a tenth of a short run."""
    return ThreadPoolExecutor(threads, thread_name_prefix="calls")


def in_order(function: Callable, items: Sequence[Any], threads: int) -> Iterator[Any]:
    """function(item) for every item, in order. No more results are held than a few per thread; after an exception or
    an interrupt nothing new is started."""
    if len(items) < 2 or threads < 2:
        yield from map(function, items)
        return
    flying: deque[Future] = deque()
    try:
        for item in items:
            flying.append(_pool(threads).submit(function, item))
            if len(flying) > 2 * threads:
                yield flying.popleft().result()
        while flying:
            yield flying.popleft().result()
    finally:
        for future in flying:
            future.cancel()
