"""Random words: known answers, the same bits everywhere, and statistics that also catch a planted defect.

The statistics are fixed beforehand: seed 20, n below, one alarm level. A good generator meets it somewhere in this file
with a chance of 10^-7. They are a guard for edits.
"""

from collections.abc import Callable
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from settings import nightly_but

from bandit_lab.simulation.fast import random_bits as module
from bandit_lab.simulation.fast.random_bits import (
    DEFAULT_GENERATOR,
    GENERATORS,
    lane_keys,
    require_enough_words,
    threefry2x32,
)
from bandit_lab.simulation.one_kernel import compiler_options, one_kernel

ROOT = jax.random.key_data(jax.random.key(20))
ALARM = 7.0  # |z| of the largest of at most 1,024 normal deviates: 3e-9
MASK = 2**32 - 1


def shift_xor(x, distance):
    return x ^ (x >> distance)


def hash_by_integers(a, b, step, i):
    s = shift_xor((a + step * 0x9E3779B9) & MASK, 17) * 0xED5AD4BB & MASK
    x = (shift_xor(s, 11) + i * 0xC2B2AE3D) & MASK
    x = (shift_xor(x, 16) * 0x21F0AAAD + b + step * 0x85157AF5) & MASK
    x = shift_xor(x, 15) * 0x735A2D97 & MASK
    return shift_xor(x, 15)


def cipher_by_integers(k0, k1, c0, c1):
    schedule = [k0, k1, k0 ^ k1 ^ 0x1BD11BDA]
    x0, x1 = (c0 + k0) & MASK, (c1 + k1) & MASK
    for r in range(20):
        x0 = (x0 + x1) & MASK
        distance = (13, 15, 26, 6, 17, 29, 16, 24)[r % 8]
        x1 = ((x1 << distance | x1 >> (32 - distance)) & MASK) ^ x0
        if r % 4 == 3:
            s = r // 4 + 1
            x0, x1 = (x0 + schedule[s % 3]) & MASK, (x1 + schedule[(s + 1) % 3] + s) & MASK
    return x0, x1


def threefry_by_integers(a, b, step, i):
    return cipher_by_integers(a, b, step, i // 2)[i % 2]


REFERENCE = {"hash": hash_by_integers, "threefry": threefry_by_integers}


def draw(words: Callable, keys, steps: np.ndarray, count: int) -> np.ndarray:
    """[steps, count, L]."""
    return np.asarray(jax.jit(lambda k, t: jax.lax.map(lambda s: words(k, s, count), t))(keys, steps))


@pytest.mark.parametrize(
    ("key", "counter", "answer"),  # the known answers that come with Random123
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((MASK, MASK), (MASK, MASK), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_answers(key, counter, answer):
    both = threefry2x32(tuple(jnp.uint32(k) for k in key), tuple(jnp.uint32(c) for c in counter))
    assert tuple(int(x) for x in both) == answer
    assert cipher_by_integers(*key, *counter) == answer


def test_lane_keys_are_the_cipher_of_name_and_seed():
    names, seeds = np.array([0, 5, MASK, MASK], np.uint32), np.array([0, MASK, 3, 4], np.uint32)
    a, b = lane_keys(ROOT, names, seeds)
    root = [int(x) for x in ROOT]
    for lane in range(4):
        expected = cipher_by_integers(*root, int(names[lane]), int(seeds[lane]))
        assert (int(a[lane]), int(b[lane])) == expected


@pytest.mark.parametrize("name", GENERATORS)
def test_words_have_the_values_of_their_definition(name):
    keys = lane_keys(ROOT, [1, 1, 2, 3], [0, 1, 0, MASK])
    steps = np.array([0, 1, 2, 977, 2**31, MASK], np.uint32)
    got = draw(GENERATORS[name].random_bits, keys, steps, 5)
    assert got.dtype == np.uint32
    for t, step in enumerate(steps):
        for i in range(5):
            for lane in range(4):
                expected = REFERENCE[name](int(keys[0][lane]), int(keys[1][lane]), int(step), i)
                assert got[t, i, lane] == expected


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("count", [1, 9])
def test_the_same_bits_however_they_are_computed(name, count):
    words = GENERATORS[name].random_bits
    keys = lane_keys(ROOT, np.repeat([4, 9], 64), np.tile(np.arange(64), 2))
    steps = np.arange(100, 104, dtype=np.uint32)
    looped = draw(words, keys, steps, count)
    plain = np.stack([words(keys, jnp.uint32(t), count) for t in steps])
    one_by_one = jax.vmap(lambda t: words(keys, t, count))(steps)
    per_cell = jax.vmap(lambda k: words(k, steps[0], count), out_axes=1)(tuple(k.reshape(2, 64) for k in keys))
    signed = words(keys, jnp.int32(100), count)
    tagged = jax.jit(
        lambda k, t: one_kernel(lambda a, b: words(a, b, count), k, t), compiler_options=compiler_options()
    )
    assert np.array_equal(looped, plain)
    assert np.array_equal(looped, one_by_one)
    assert np.array_equal(looped[0], np.asarray(per_cell).reshape(count, 128))
    assert np.array_equal(looped[0], signed)
    assert np.array_equal(looped[0], tagged(keys, steps[0]))


@pytest.mark.parametrize("name", GENERATORS)
def test_an_age_shares_no_word_with_the_answers(name):
    """Of 64 steps of 32 lanes no 24 bits of an age are those of one of the first words of its step (by chance 1e-3)."""
    keys = lane_keys(ROOT, np.ones(32), np.arange(32))
    for step in range(64):
        words = np.asarray(GENERATORS[name].random_bits(keys, jnp.uint32(step), 8))
        assert not np.any(module.age_uniform(name, keys, jnp.int32(step), np.dtype("f8")) == (words >> 8) * 2.0**-24)


def test_a_lane_that_is_too_long_is_refused():
    require_enough_words(2**20, 2**12 - 1)
    with pytest.raises(ValueError, match=r"steps: expected fewer than 2\^32 / 4096 .* got 1048576"):
        require_enough_words(2**20, 2**12)


# Statistics: each takes the words and the keys, and returns the largest |z|.


def agreement(x: np.ndarray, y: np.ndarray, same: bool = False) -> float:
    """Largest |z| of the agreement of bit j of x with bit k of y, all 1,024 pairs (`same`: those with j > k)."""
    signs = [np.unpackbits(v.reshape(-1, 1).view(np.uint8), axis=1).astype(np.float32) * 2 - 1 for v in (x, y)]
    z = (signs[0].T @ signs[1]) / np.sqrt(len(signs[0]))
    return float(np.abs(z[np.tril_indices(32, -1)] if same else z).max())


def uniform_cells(words, keys):
    """n = 2^20 words: chi-square of ten bits, the first and the last of both 15-bit halves, and the first of all."""
    drawn = draw(words, keys(ROOT, np.zeros(256), np.arange(256)), np.arange(1024, dtype=np.uint32), 4).ravel()
    worst = 0.0
    for shift in (21, 16, 5, 0, 22):
        cells = np.bincount(drawn >> shift & 1023, minlength=1024)
        chi = np.sum((cells - drawn.size / 1024) ** 2) / (drawn.size / 1024)
        worst = max(worst, abs(chi - 1023) / np.sqrt(2 * 1023))
    return worst


def neighbouring_seeds(words, keys):
    """n = 2^18 pairs: replicas s and s + 1 of one cell, and (cell c, s + 1) with (c + 1, s)."""
    steps, index = np.arange(64, dtype=np.uint32), np.arange(4096)
    here, next_seed = (draw(words, keys(ROOT, np.full(4096, 11), index + d), steps, 1) for d in (0, 1))
    next_cell = draw(words, keys(ROOT, np.full(4096, 12), index), steps, 1)
    return max(agreement(here, next_seed), agreement(next_seed, next_cell))


def neighbouring_cells(words, keys):
    """n = 2^18 pairs: one replica of the cells c and c + 1."""
    steps, index = np.arange(64, dtype=np.uint32), np.arange(4096)
    here, there = (draw(words, keys(ROOT, index + d, np.full(4096, 3)), steps, 1) for d in (0, 1))
    return agreement(here, there)


def consecutive_steps(words, keys):
    """n = 2^18 pairs in 64 lanes: the same word of steps t and t + d, d = 1, 2, 3, 64, 1000."""
    drawn = draw(words, keys(ROOT, np.zeros(64), np.arange(64)), np.arange(4096 + 1000, dtype=np.uint32), 1)
    return max(agreement(drawn[:4096], drawn[d : 4096 + d]) for d in (1, 2, 3, 64, 1000))


def words_of_a_step(words, keys):
    """n = 2^18 pairs: words 0 and i of a step, i = 1 .. 8."""
    drawn = draw(words, keys(ROOT, np.zeros(256), np.arange(256)), np.arange(1024, dtype=np.uint32), 9)
    return max(agreement(drawn[:, 0].copy(), drawn[:, i].copy()) for i in range(1, 9))


def bits_of_a_word(words, keys):
    """n = 2^19 words: all pairs of bits, those of the two halves among them."""
    drawn = draw(words, keys(ROOT, np.zeros(256), np.arange(256)), np.arange(1024, dtype=np.uint32), 2)
    return agreement(drawn, drawn, same=True)


def lags_in_a_lane(words, keys):
    """n = 2^19 consecutive words of one lane, as numbers: correlation at the lags 1 .. 1,023."""
    drawn = draw(words, keys(ROOT, np.zeros(1), np.zeros(1)), np.arange(2**15, dtype=np.uint32), 16).ravel()
    u = (drawn / 2**32 - 0.5) * np.sqrt(12)
    spectrum = np.abs(np.fft.rfft(u, 2 * u.size)) ** 2
    return float(np.abs(np.fft.irfft(spectrum)[1:1024] / np.sqrt(u.size)).max())


def repeats_in_a_lane(words, keys):
    """Pairs of equal words among 2^20 of one lane: Poisson, 128 expected. A permutation of the counter has none."""
    drawn = draw(words, keys(ROOT, np.zeros(1), np.zeros(1)), np.arange(2**16, dtype=np.uint32), 16).ravel()
    repeats = drawn.size - np.unique(drawn).size
    tail = min(stats.poisson.cdf(repeats, 128), stats.poisson.sf(repeats - 1, 128))
    return float(stats.norm.isf(tail))


def one_multiplication(keys, step, count):
    """A counter, one multiplication instead of three, no second key."""
    n = step * np.uint32(count) + jnp.arange(count, dtype=jnp.uint32)[:, None]
    return shift_xor(shift_xor(keys[0][None] + n, 16) * module._M1, 15)


def without_second_key(keys, step, count):
    """The plain hash of a Weyl sequence: 32 bits of state, a permutation of the counter."""
    n = step * np.uint32(count) + jnp.arange(count, dtype=jnp.uint32)[:, None]
    x = shift_xor(keys[0][None] + n * (keys[1] | np.uint32(1))[None], 16) * module._M1
    return shift_xor(shift_xor(x, 15) * module._M2, 15)


def equal_halves(keys, step, count):
    x = GENERATORS["hash"].random_bits(keys, step, count)
    return (x & np.uint32(0xFFFF0000)) | (x >> np.uint32(16))


def uneven(keys, step, count):
    """The smallest 2,048th of all values is missing; the next but one comes twice as often."""
    x = GENERATORS["hash"].random_bits(keys, step, count)
    return jnp.where(x < np.uint32(2**21), x + np.uint32(2**22), x)


def sum_of_name_and_seed(root, names, seeds):
    both = jnp.asarray(names, jnp.uint32) + jnp.asarray(seeds, jnp.uint32)
    return root[0] + both, root[1] + both


def seed_alone(root, names, seeds):
    return lane_keys(root, jnp.zeros_like(jnp.asarray(names)), seeds)


HASH = GENERATORS["hash"].random_bits
DEFECTS = {  # statistic: words and keys that it must refuse
    uniform_cells: (uneven, lane_keys),
    neighbouring_seeds: (HASH, sum_of_name_and_seed),
    neighbouring_cells: (HASH, seed_alone),
    consecutive_steps: (one_multiplication, lane_keys),
    words_of_a_step: (one_multiplication, lane_keys),
    bits_of_a_word: (equal_halves, lane_keys),
    lags_in_a_lane: (one_multiplication, lane_keys),
    repeats_in_a_lane: (without_second_key, lane_keys),
}


@pytest.mark.parametrize(
    ("statistic", "name"),
    nightly_but(product(DEFECTS, [DEFAULT_GENERATOR]), product(DEFECTS, GENERATORS)),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_words_look_random(statistic, name):
    assert statistic(GENERATORS[name].random_bits, lane_keys) < ALARM


@pytest.mark.parametrize("statistic", DEFECTS, ids=lambda f: f.__name__)
def test_the_statistic_catches_a_planted_defect(statistic):
    assert statistic(*DEFECTS[statistic]) > ALARM
