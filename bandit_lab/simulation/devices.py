"""The same program on every device of this process, each on its share of the work.

Work comes as equal pieces along a leading axis. What a device computes does not depend on how many there are: the
program of one piece is the same, and nothing is exchanged. Other processes have devices of their own and are not waited
for. Calls to the devices are made from threads: a few are in flight, and their results come in order.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

AXIS = "devices"


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
