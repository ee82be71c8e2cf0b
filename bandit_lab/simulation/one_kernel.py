"""One machine function for a whole run on a CPU, behind one switch.

XLA:CPU hands every fusion of a loop's body to a scheduler; for arrays that fit into the first cache, that costs more
than the arithmetic. A call that carries the frontend attribute `xla_cpu_small_call` is emitted as one LLVM function,
loops included. The attribute and the options below are not documented by XLA. They are used on CPUs only.
`one_kernel_enabled(False)` or the environment variable BANDIT_LAB_ONE_KERNEL=0 turns all of it off, and so does a
compiler that refuses them. The program is the same without them, and so are its results up to rounding; it is three to
five times slower.
"""

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array

TAG = "xla_cpu_small_call"
_OPTIONS = {"xla_cpu_prefer_vector_width": 512, "xla_cpu_experimental_ynn_fusion_type": ""}
_NOT_REFUSALS = ("RESOURCE_EXHAUSTED", "CANCELLED", "ABORTED", "DEADLINE_EXCEEDED", "UNAVAILABLE")
_switch = {"on": os.environ.get("BANDIT_LAB_ONE_KERNEL", "1") != "0"}


def in_use() -> bool:
    """Whether programs are compiled as one kernel: on a CPU that takes the options, unless switched off."""
    return _switch["on"] and jax.default_backend() == "cpu" and _taken(tuple(_OPTIONS.items()))


@cache
def _taken(options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether this compiler takes the attribute and every option, tried on a small program.

    Whatever it says against them counts: they are not documented, and versions refuse them in words of their own.
    """
    try:
        jax.jit(lambda x: _tagged(x + 1), compiler_options=dict(options)).lower(np.float32(0)).compile()
    except Exception:
        return False
    return True


def refused(error: jax.errors.JaxRuntimeError) -> bool:
    """Whether the program may work compiled plainly: not where a run was ended from outside or lacked memory."""
    return not any(status in str(error) for status in _NOT_REFUSALS)


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

    The arrays go in as one vector per type: XLA aborts the process if an input of such a kernel is not read.
    Whether each one is read depends on what its optimiser finds out.
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

    return _tagged(jax.jit(unpacked)(*packed))


_refused: set[Hashable] = set()


def as_one(program: Callable[[bool], Callable], kind: Hashable, *arguments: Any, fits: bool = True) -> Any:
    """program(True)(*arguments), compiled as one kernel, where that is in use and compiles; else program(False).

    An optimiser or a plugin may use an operation that XLA cannot put into one kernel: such a `kind` is not tried again.
    fits: False where it is known that it cannot be one.
    """
    if not in_use() or not fits or kind in _refused:
        return program(False)(*arguments)
    try:
        return program(True)(*arguments)
    except jax.errors.JaxRuntimeError as error:
        if not refused(error):
            raise
    results = program(False)(*arguments)
    _refused.add(kind)  # only now: an error that the plain program shares is no refusal
    return results


def _tagged(result: Any) -> Any:
    from jax.experimental.xla_metadata import set_xla_metadata  # experimental: a JAX without it compiles plainly

    return set_xla_metadata(result, **{TAG: "true"}, inlineable="false")
