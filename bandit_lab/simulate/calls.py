"""Calls to devices: a few in flight, results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def in_order(function: Callable, items: Sequence[Any], threads: int) -> Iterator[Any]:
    """function(item) for every item, in order. No more results are held than a few per thread; after an exception or
    an interrupt nothing new is started."""
    with ThreadPoolExecutor(threads) as pool:
        flying: deque[Future] = deque()
        try:
            for item in items:
                flying.append(pool.submit(function, item))
                if len(flying) > 2 * threads:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
