"""One machine function for a whole run on a CPU, behind one switch.

XLA:CPU hands every fusion of a loop's body to a scheduler; for arrays that fit into the first cache, that costs more
than the arithmetic. A call that carries the frontend attribute `xla_cpu_small_call` is emitted as one LLVM function,
loops included. The attribute and the options below are not documented by XLA: they are used on CPUs only, and
`one_kernel_enabled(False)` (or the environment variable BANDIT_LAB_ONE_KERNEL=0) turns all of it off. The program is
the same without them, and so are its results up to rounding; it is three to five times slower.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

from bandit_lab._types import Array

TAG = "xla_cpu_small_call"
_OPTIONS = {"xla_cpu_prefer_vector_width": 512, "xla_cpu_experimental_ynn_fusion_type": ""}
_switch = {"on": os.environ.get("BANDIT_LAB_ONE_KERNEL", "1") != "0"}


def in_use() -> bool:
    """Whether programs are compiled as one kernel: on a CPU, unless switched off."""
    return _switch["on"] and jax.default_backend() == "cpu"


@contextmanager
def one_kernel_enabled(on: bool) -> Iterator[None]:
    """Switch the undocumented attribute and options on or off for programs that are compiled inside, by any thread."""
    before = _switch["on"]
    _switch["on"] = on
    try:
        yield
    finally:
        _switch["on"] = before


def compiler_options() -> dict[str, Any]:
    """Options for `jax.jit(..., compiler_options=)`: vectors of 512 bits, and no library call inside the kernel."""
    return dict(_OPTIONS) if in_use() else {}


def one_kernel(function: Callable, *args: Any) -> Any:
    """function(*args) inside a jitted program, emitted as a single kernel where that is in use. args: trees of arrays.

    The arrays go in as one vector per type: XLA aborts the process if an input of such a kernel is not read, and
    whether each one is depends on what its optimiser finds out.
    """
    if not in_use():
        return function(*args)
    leaves, tree = jax.tree.flatten(args)
    types = sorted({leaf.dtype for leaf in leaves}, key=str)
    members = [[i for i, leaf in enumerate(leaves) if leaf.dtype == dtype] for dtype in types]
    packed = [jnp.concatenate([leaves[i].ravel() for i in group]) for group in members]

    def unpacked(*vectors: Array) -> Any:
        parts: list[Any] = [None] * len(leaves)
        for vector, group in zip(vectors, members, strict=True):
            start = 0
            for i in group:
                stop = start + leaves[i].size
                parts[i] = vector[start:stop].reshape(leaves[i].shape)
                start = stop
        return function(*jax.tree.unflatten(tree, parts))

    return set_xla_metadata(jax.jit(unpacked)(*packed), **{TAG: "true"}, inlineable="false")
