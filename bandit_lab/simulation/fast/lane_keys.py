"""Keys of `jax.random` whose numbers are the stateless words of this room.

A bandit draws its own rewards with `jax.random` and a key. Such a key is two words (a, b), as that of a lane, and

    split, part i: words 2i and 2i + 1 of step 1        fold_in(n): words 0 and 1 of step n + 2
    bits:          words 0, 1, ... of step 0

of a lane with that key. `WordKeys` are the keys of all lanes with the lanes as the last axis; `implementation` is the
same as `jax.random` knows it, for operations that `lanes_last` leaves to `jax.vmap`.
"""

from functools import cache
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._barrier import materialize
from bandit_lab._types import Array
from bandit_lab.simulation.fast.random_bits import GENERATORS


class WordKeys(NamedTuple):
    """Keys [..., L] as two words each, and the name of the generator (see `GENERATORS`)."""

    a: Array
    b: Array
    generator: str

    def words(self, step: Any, count: int) -> Array:
        """Words [..., count, L] of one step of every key."""
        shape = self.a.shape
        found = GENERATORS[self.generator].random_bits((self.a.reshape(-1), self.b.reshape(-1)), step, count)
        return jnp.moveaxis(materialize(found).reshape(count, *shape), 0, len(shape) - 1)

    def split(self, shape: tuple[int, ...]) -> "WordKeys":
        """Keys [..., *shape, L]."""
        count = prod(shape)
        words = self.words(np.uint32(1), 2 * count)
        a, b = (words[..., i::2, :].reshape(*self.a.shape[:-1], *shape, self.a.shape[-1]) for i in range(2))
        return WordKeys(a, b, self.generator)

    def folded(self, number: Any) -> "WordKeys":
        """With a whole number folded in, the same for all."""
        words = self.words(jnp.asarray(number).astype(jnp.uint32) + np.uint32(2), 2)
        return WordKeys(words[..., 0, :], words[..., 1, :], self.generator)

    def bits(self, width: int, shape: tuple[int, ...]) -> Array:
        """Random bits [..., *shape, L] of 8, 16, 32 or 64 bits each."""
        count, end = prod(shape), (*shape, self.a.shape[-1])
        if width == 64:
            words = self.words(np.uint32(0), 2 * count).astype(jnp.uint64)
            whole = words[..., 0::2, :] << np.uint64(32) | words[..., 1::2, :]
        else:
            whole = (self.words(np.uint32(0), count) >> np.uint32(32 - width)).astype(f"uint{width}")
        return whole.reshape(*self.a.shape[:-1], *end)

    def as_keys(self) -> Array:
        """Typed keys [..., L]."""
        return jax.random.wrap_key_data(jnp.stack([self.a, self.b], axis=-1), impl=implementation(self.generator))

    def of_keys(self, keys: Array) -> "WordKeys":
        """The words of typed keys [..., L]."""
        return word_keys(keys, self.generator)


def word_keys(keys: Array, generator: str) -> WordKeys:
    """The words of typed keys [..., L]."""
    data = jax.random.key_data(keys)
    return WordKeys(data[..., 0], data[..., 1], generator)


@cache
def implementation(generator: str) -> Any:
    """What `jax.random.wrap_key_data` takes as `impl`."""
    from jax.extend.random import define_prng_impl

    def one(key: Array) -> WordKeys:
        return WordKeys(key[..., 0, None], key[..., 1, None], generator)

    def data(keys: WordKeys) -> Array:
        return jnp.stack([keys.a[..., 0], keys.b[..., 0]], axis=-1)

    return define_prng_impl(
        key_shape=(2,),
        seed=lambda seed: jnp.stack([jnp.uint32(0), jnp.asarray(seed).astype(jnp.uint32)]),
        split=lambda key, shape: data(one(key).split(tuple(shape))),
        random_bits=lambda key, width, shape: one(key).bits(width, tuple(shape))[..., 0],
        fold_in=lambda key, number: data(one(key).folded(number)),
        name=f"bandit_lab_{generator}",
        tag=f"lane_{generator}",
    )
