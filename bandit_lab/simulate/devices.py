"""The same program on every device of this process, each on its share of the work.

Work comes as equal pieces along a leading axis. What a device computes does not depend on how many there are: the
program of one piece is the same, and nothing is exchanged. Other processes have devices of their own and are not waited
for.
"""

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

AXIS = "devices"


def every_device() -> Mesh:
    """All devices of this process."""
    return Mesh(np.array(jax.local_devices()), (AXIS,))


def mesh_for(pieces: int) -> Mesh:
    """All devices of this process; for a single piece the first one alone."""
    return every_device() if pieces > 1 else Mesh(np.array(jax.local_devices()[:1]), (AXIS,))


def on_every(mesh: Mesh, function: Callable, split: tuple[bool, ...]) -> Callable:
    """`function` run by every device of the mesh: an argument with `split` is cut along its leading axis, as results
    are put together; the others go to all devices whole."""
    if mesh.size == 1:
        return function
    specs = tuple(PartitionSpec(AXIS) if s else PartitionSpec() for s in split)
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)
