"""Random words without state: word i of step t of a lane is a function of the lane's key, of t and of i.

A lane is one replica of one cell. Its key, two words (a, b), is Threefry-2x32-20 of (name of the cell, index of the
replica) under the root key: no two lanes of a run share a key, and neighbours are unrelated. The words of a step do not
depend on how many are asked for, nor on which lanes are computed together, nor on the device.

`hash` (the default). One round for the step, two for the word, all arithmetic modulo 2^32:

    s = a + t W0,    s <- (s ^ s >> 17) M0,    s <- s ^ s >> 11
    x = s + i W2,    x <- (x ^ x >> 16) M1 + (b + t W1),    x <- (x ^ x >> 15) M2,    x ^ x >> 15

The second key word enters between the multiplications, so that the state is 64 bits wide: with the first alone a lane
would never draw a word twice, and lanes would share stretches of words. Two lanes whose keys lie on one orbit do that;
among N lanes of T steps about N^2 T / 2^64 pairs are expected to.

`threefry`. Threefry-2x32-20 of (t, j) under (a, b) gives the words 2j and 2j + 1: cryptographic design, more expensive.
It is written as whole-array arithmetic (Salmon et al., SC 2011; the cipher behind `jax.random`): two 32-bit words
(x0, x1) under the key (k0, k1), with k2 = k0 ^ k1 ^ 0x1BD11BDA: twenty rounds

    x0 <- x0 + x1,    x1 <- rotl(x1, R) ^ x0,    R = 13, 15, 26, 6, 17, 29, 16, 24, 13, ...,

and after every fourth round s = 1..5 the key again: x0 += k_{s mod 3}, x1 += k_{(s+1) mod 3} + s. First, k0 and k1 are
added to the counter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._checks import require
from bandit_lab._numerics import materialize
from bandit_lab._types import Array

Keys = tuple[Array, Array]

_STEP_WEYL, _STEP_WEYL_2, _WORD_WEYL = np.uint32(0x9E3779B9), np.uint32(0x85157AF5), np.uint32(0xC2B2AE3D)
_M0, _M1, _M2 = np.uint32(0xED5AD4BB), np.uint32(0x21F0AAAD), np.uint32(0x735A2D97)
_ROTATIONS, _PARITY = ((13, 15, 26, 6), (17, 29, 16, 24)), np.uint32(0x1BD11BDA)  # of Threefry
_WORDS_PER_LANE = 2**32
_AGES_FROM = 2**31  # the step whose words give the age of step 0


@dataclass(frozen=True)
class Generator:
    """A stateless generator: write `random_bits`; an entry of `GENERATORS` is all that the engine needs.

    random_bits(keys, step, count): words [count, L] uint32 of step `step` (uint32 scalar, may be traced) for the
    lanes `keys` ([L] each); `count` is static. The first words of a step are the same for every `count`. expensive:
    whether a word costs more than to gather the bits that eight others do not use.
    """

    name: str
    random_bits: Callable[[Keys, Array, int], Array]
    expensive: bool = False


def as_float(x: Array, dtype: Any) -> Array:
    """Unsigned integers below 2^31 as floats: through signed ones, for which there is an instruction."""
    return x.astype(jnp.int32).astype(dtype)


def unit_uniform(word: Array, dtype: Any) -> Array:
    """[0, 1) in steps of 2^-23: its product with x > 0 stays below x when rounded."""
    return as_float(word >> np.uint32(9), dtype) * dtype.type(2.0**-23)


def threefry2x32(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """The cipher of two uint32 words under two uint32 key words, elementwise; all four broadcast together."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0, x1 = counter[0] + schedule[0], counter[1] + schedule[1]
    for stage in range(1, 6):
        for distance in _ROTATIONS[(stage - 1) % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(distance)) | (x1 >> np.uint32(32 - distance))) ^ x0
        x0 = x0 + schedule[stage % 3]
        x1 = x1 + (schedule[(stage + 1) % 3] + np.uint32(stage))
    return x0, x1


def lane_keys(root: Array, names: Array, seeds: Array) -> Keys:
    """Two key words [L] per lane: Threefry of (name, seed) under the root key.

    root: `jax.random.key_data(key)`, [2] uint32; names [L]: of the cells; seeds [L]: indices of the replicas.
    Different (name, seed) give different keys; lanes of cells that share a name and a seed share their random numbers.
    """
    names, seeds = jnp.asarray(names, jnp.uint32), jnp.asarray(seeds, jnp.uint32)
    root = jnp.asarray(root, jnp.uint32)
    return threefry2x32((root[0], root[1]), (names, seeds))


def require_enough_words(steps: int, count: int, ages: bool = False) -> None:
    """Raises ValueError unless `steps` steps of `count` words stay within the 2^32 words of a lane, and, where ages are
    drawn, below the steps that `age_uniform` takes its words from."""
    require(steps * count < _WORDS_PER_LANE, "steps", f"fewer than 2^32 / {count} (words of a lane)", steps)
    require(not ages or steps < _AGES_FROM, "steps", f"fewer than {_AGES_FROM} where ages are drawn", steps)


def age_uniform(generator: str, keys: Keys, step: Array, dtype: Any) -> Array:
    """A number k 2^-24 in [0, 1) per lane [L] for the age of the policy that acts at `step`; from words of its own."""
    word = GENERATORS[generator].random_bits(keys, jnp.asarray(step).astype(jnp.uint32) + np.uint32(_AGES_FROM), 1)[0]
    return as_float(word >> np.uint32(8), dtype) * np.array(2.0**-24, dtype)


def _shift_xor(x: Array, distance: int) -> Array:
    return x ^ (x >> np.uint32(distance))


def _hash_words(keys: Keys, step: Array, count: int) -> Array:
    step = jnp.asarray(step).astype(jnp.uint32)
    s = _shift_xor(_shift_xor(keys[0] + step * _STEP_WEYL, 17) * _M0, 11)
    s = materialize(s) if count > 1 else s
    second = keys[1] + step * _STEP_WEYL_2
    x = s[None] + lax.broadcasted_iota(jnp.uint32, (count, 1), 0) * _WORD_WEYL
    x = _shift_xor(x, 16) * _M1 + second[None]
    return _shift_xor(_shift_xor(x, 15) * _M2, 15)


def _threefry_words(keys: Keys, step: Array, count: int) -> Array:
    step = jnp.asarray(step).astype(jnp.uint32)
    if count == 1:
        return threefry2x32((keys[0][None], keys[1][None]), (step, jnp.uint32(0)))[0]
    lanes, num_pairs = keys[0].shape[0], (count + 1) // 2
    pair = lax.broadcasted_iota(jnp.uint32, (num_pairs, 1, 1), 0)
    both = threefry2x32((keys[0][None, :, None], keys[1][None, :, None]), (step, pair))
    # Side by side, the two words come from one evaluation of the cipher: as two arrays, from one each.
    first = lax.broadcasted_iota(jnp.uint32, (1, 1, 2), 2) == 0
    side_by_side = materialize(jnp.where(first, *both))  # [pairs, L, 2]
    return jnp.transpose(side_by_side, (0, 2, 1)).reshape(2 * num_pairs, lanes)[:count]


GENERATORS = {
    g.name: g for g in (Generator("hash", _hash_words), Generator("threefry", _threefry_words, expensive=True))
}
DEFAULT_GENERATOR = "hash"
