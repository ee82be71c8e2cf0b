"""Keys of `jax.random` for many lanes, with the lanes as the last axis: the same numbers, bit for bit.

`jax.random` works its bits out with the lanes in front. Here its generator is written once more, as it is defined: a
key is two words, the cipher is Threefry-2x32 (`threefry`), and of the key k

    split, part i: the two words of block i    fold_in(n): those of block n    32 bits, number i: their exclusive or

which is what JAX calls the partitionable form, its default.
"""

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.simulation.laned import held
from bandit_lab.simulation.threefry import threefry2x32

IMPLEMENTATION = "threefry2x32"


class JaxKeys(NamedTuple):
    """Keys [..., L] as two words each."""

    a: Array
    b: Array

    def _blocks(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Both words [..., *shape, L] of the blocks 0, 1, ... of every key."""
        number = np.arange(prod(shape), dtype=np.uint32).reshape(*shape, 1)
        place = (*self.a.shape[:-1], *(1,) * len(shape), self.a.shape[-1])
        x, y = threefry2x32((self.a.reshape(place), self.b.reshape(place)), (jnp.uint32(0), jnp.asarray(number)))
        return x, y

    def split(self, shape: tuple[int, ...]) -> "JaxKeys":
        """Keys [..., *shape, L]."""
        return JaxKeys(*map(held, self._blocks(shape)))

    def folded(self, number: Any) -> "JaxKeys":
        """With a whole number folded in: one for all, or [L]."""
        words = threefry2x32((self.a, self.b), (jnp.uint32(0), jnp.asarray(number).astype(jnp.uint32)))
        return JaxKeys(*map(held, words))

    def bits(self, width: int, shape: tuple[int, ...]) -> Array:
        """Random bits [..., *shape, L] of 8, 16, 32 or 64 bits each."""
        x, y = self._blocks(shape)
        if width == 64:
            return held(x.astype(jnp.uint64) << np.uint64(32) | y.astype(jnp.uint64))
        return held((x ^ y).astype(f"uint{width}"))

    def as_keys(self) -> Array:
        """Typed keys [..., L]."""
        return jax.random.wrap_key_data(jnp.stack([self.a, self.b], axis=-1), impl=IMPLEMENTATION)

    def of_keys(self, keys: Array) -> "JaxKeys":
        """The words of typed keys [..., L]."""
        return jax_keys(keys)


def root_words(seed: int) -> np.ndarray:
    """The two words of `jax.random.key(seed)`, worked out on the host: no program is compiled for them."""
    number = int(np.int64(seed))
    wide = jax.dtypes.canonicalize_dtype(np.int64) == np.int64
    high = number >> 32 & 0xFFFFFFFF if wide else 0
    return np.array([high, number & 0xFFFFFFFF], np.uint32)


def jax_keys(keys: Array) -> JaxKeys:
    """The words of typed keys [..., L]."""
    data = jax.random.key_data(keys)
    return JaxKeys(data[..., 0], data[..., 1])
