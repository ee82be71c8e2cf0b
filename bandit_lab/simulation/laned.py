"""Arrays with one value per lane, the lanes as their last axis."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._barrier import materialize
from bandit_lab._types import Array
from bandit_lab.simulation.lane_sparse import dense


class Laned:
    """An array [..., L], or keys, that stands for one value [...] per lane.

    truth: the truth values whose numbers 0 and 1 these are, if they are. before: the same array before it was `held`.
    """

    def __init__(self, array: Any, truth: Array | None = None, before: Array | None = None) -> None:
        self.array, self.truth, self.before = array, truth, before

    @property
    def is_key(self) -> bool:
        """Whether these are keys of `jax.random`."""
        return is_keys(self.array)


def is_keys(value: Any) -> bool:
    """Whether a value is keys of `jax.random` as two words each."""
    return hasattr(value, "as_keys")


def held(array: Array) -> Array:
    """`materialize` of an array [..., L], its leading axes as one: every axis is a loop that costs compile time."""
    return (
        materialize(array.reshape(-1, array.shape[-1])).reshape(array.shape) if array.ndim > 2 else materialize(array)
    )


def spread(value: Any, lanes: int) -> Array:
    """The array [..., L] of a result of `over_lanes`, whether or not it differs from lane to lane."""
    if isinstance(value, Laned):
        return value.array
    value = dense(value)
    return jnp.broadcast_to(jnp.asarray(value)[..., None], (*np.shape(value), lanes))


def carries_keys(value: Any) -> bool:
    """Whether a value is keys of `jax.random`, in words or typed."""
    array = bare(value)
    return is_keys(array) or jnp.issubdtype(getattr(array, "dtype", np.dtype(float)), jax.dtypes.prng_key)


def bare(value: Any) -> Any:
    """The array of a `Laned`, any other value as it is."""
    return value.array if isinstance(value, Laned) else value


def like(model: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Values as `Laned` where those of the model are."""
    return [Laned(x) if isinstance(m, Laned) else x for m, x in zip(model, values, strict=True)]


def bare_as(model: Sequence[Any], values: Sequence[Any], lanes: int) -> list[Any]:
    """Arrays, with lanes where the model has them."""
    return [spread(x, lanes) if isinstance(m, Laned) else x for m, x in zip(model, values, strict=True)]
