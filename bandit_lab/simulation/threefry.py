"""Threefry-2x32-20 as whole-array arithmetic (Salmon et al., SC 2011; the cipher behind `jax.random`).

Two 32-bit words (x0, x1) under the key (k0, k1), with k2 = k0 ^ k1 ^ 0x1BD11BDA: twenty rounds

    x0 <- x0 + x1,    x1 <- rotl(x1, R) ^ x0,    R = 13, 15, 26, 6, 17, 29, 16, 24, 13, ...,

and after every fourth round s = 1..5 the key again: x0 += k_{s mod 3}, x1 += k_{(s+1) mod 3} + s. First, k0 and k1 are
added to the counter.
"""

import numpy as np

from bandit_lab._types import Array

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def _rotate_left(x: Array, distance: int) -> Array:
    return (x << np.uint32(distance)) | (x >> np.uint32(32 - distance))


def threefry2x32(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """The cipher of two uint32 words under two uint32 key words, elementwise; all four broadcast together."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0, x1 = counter[0] + schedule[0], counter[1] + schedule[1]
    for stage in range(1, 6):
        for distance in _ROTATIONS[(stage - 1) % 2]:
            x0 = x0 + x1
            x1 = _rotate_left(x1, distance) ^ x0
        x0 = x0 + schedule[stage % 3]
        x1 = x1 + (schedule[(stage + 1) % 3] + np.uint32(stage))
    return x0, x1
