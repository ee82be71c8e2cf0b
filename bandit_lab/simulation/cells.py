"""The grid on the host: settings of every cell in the right types, and the names that key its random streams."""

from typing import Any, NamedTuple
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab.grpo import Hyper, Learner, check_hyper


class Cells(NamedTuple):
    """C cells, ready to run. hyper: [C] each. name: [C] uint32. theta: [C, D] at step 0. fixed_point: [C] expected
    reward of the fixed point, from which overshoot is measured (NaN: none)."""

    hyper: Hyper
    name: np.ndarray
    theta: np.ndarray
    fixed_point: np.ndarray


def cell_identity(cells: Hyper) -> np.ndarray:
    """A 32-bit name [C] for every cell made from its settings alone; random streams are keyed by it."""
    columns = np.stack([np.asarray(column, np.float64) for column in cells], axis=1)
    return np.fromiter(map(crc32, columns), np.uint32, len(columns))


def as_cells(cells: Hyper) -> Hyper:
    """Settings as columns of equal length [C]: scalars stand for every cell, arrays stay as they are."""
    lengths = [np.shape(column)[0] for column in cells if np.ndim(column)]
    count = lengths[0] if lengths else 1
    return Hyper(*(column if np.ndim(column) else np.full(count, column) for column in cells))


def typed_cells(learner: Learner, cells: Hyper, dtype: Any) -> Hyper:
    """Cells [C] as host arrays of `dtype`, refresh intervals as int32 where the staleness model counts whole steps.

    Raises:
      ValueError: settings out of range.
    """
    cells = as_cells(cells)
    check_hyper(learner.staleness, cells)
    columns = Hyper(*(np.asarray(column, dtype) for column in cells))
    if not learner.staleness.whole_interval:
        return columns
    return columns._replace(refresh_interval=np.asarray(cells.refresh_interval, np.int32))


def cast(tree: Any, dtype: Any) -> Any:
    """Every floating leaf of a pytree as `dtype`. Numbers on the host are cast there: no program is compiled."""

    def one(x: Any) -> Any:
        if isinstance(x, jax.core.Tracer):
            return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
        numbers = np.asarray(x)
        return jax.device_put(numbers.astype(dtype)) if jnp.issubdtype(numbers.dtype, jnp.floating) else x

    return jax.tree.map(one, tree)


def prepare(
    learner: Learner,
    cells: Hyper,
    dtype: Any,
    initial: np.ndarray | None = None,
    reference: np.ndarray | None = None,
) -> Cells:
    """Host arrays of the right types. See `engine.run` for `initial` and `reference`."""
    count = len(np.asarray(cells.learning_rate))
    start = np.asarray(learner.bandit.initial_parameters if initial is None else initial, dtype)
    middle = np.full(count, np.nan) if reference is None else np.asarray(reference)
    return Cells(
        typed_cells(learner, cells, dtype),
        cell_identity(cells),
        np.broadcast_to(start, (count, start.shape[-1])),
        middle.astype(dtype),
    )
