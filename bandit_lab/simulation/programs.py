"""Compiled programs: which are kept, and how one runs on every device of this process.

Of those that depend on numbers such as the steps of a run only the last used ones are kept.

JAX keeps every program of a jitted function for as long as the function lives, about 10 MB each. A process that runs
many lengths would grow by that with every one of them.

Work for devices comes as equal pieces along a leading axis. What a device computes does not depend on how many there
are: the program of one piece is the same, and nothing is exchanged. Other processes have devices of their own and are
not waited for. Calls to the devices are made from threads: a few are in flight, and their results come in order.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, update_wrapper
from threading import Lock
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

MOST = 32
"""Values of the static arguments per function. A sweep comes back to a length only while it is at work on its rows."""
AXIS = "devices"


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


def mesh_for(pieces: int | None = None) -> Mesh:
    """All devices of this process; for a single piece the first one alone."""
    return Mesh(np.array(jax.local_devices()[: 1 if pieces == 1 else None]), (AXIS,))


def on_every(mesh: Mesh, function: Callable, split: tuple[bool, ...]) -> Callable:
    """`function` run by every device of the mesh: an argument with `split` is cut along its leading axis, as results
    are put together; the others go to all devices whole."""
    if mesh.size == 1:
        return function
    specs = tuple(PartitionSpec(AXIS) if s else PartitionSpec() for s in split)
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)


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
