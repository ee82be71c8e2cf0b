"""Normal rewards of a group: the mean of every arm's rewards and their squares about it, in place of each reward.

Let an advantage be (reward - mean) times a function of the group's variance. Of a group it sees no more than the counts
n_k of its arms, the mean reward x_k of each, and the squares of all rewards about these means. Given the counts

    x_k ~ N(m_k, s_k^2 / n_k),    squares of arm k ~ s_k^2 chi^2 with n_k - 1 degrees of freedom,

all independent (Fisher), and chi^2 of arms that share s_k add up to one. With f degrees of freedom it is drawn as
floor(f / 2) numbers -2 log u and, where f is odd, the square of a normal number. Normal numbers are drawn in pairs
(Box and Muller 1958). Nothing is approximated but the uniforms u, which have 23 bits.
"""

from dataclasses import replace
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._numerics import add_up, leading_sum, log, materialize
from bandit_lab._types import Array
from bandit_lab.simulation.fast.program import Job
from bandit_lab.simulation.fast.random_bits import unit_uniform

_TOGETHER = 4  # uniforms whose product is still a normal number of float32
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
"""P, Q of sin y = y + y^3 P(y^2), cos y = 1 - y^2/2 + y^4 Q(y^2), |y| <= pi/4, falling powers (Moshier, cephes)."""


def words_for_rewards(arms: int, spreads: int, group_size: int) -> int:
    """Words per group. spreads: how many different standard deviations there are."""
    return 2 * _pairs(arms, spreads) + _uniforms(group_size)


def with_rewards(job: Job, counts: Array, words: Array) -> Job:
    """The job with the drawn mean of every arm's rewards as its value [K, L], and their squares about it [L].

    counts: [K, L] of one group. words: [words_for_rewards(...), L].
    """
    tables, classes, arms = job.tables, job.program.spreads, counts.shape[0]
    of_normals = 2 * _pairs(arms, len(classes))
    normal = normal_numbers(words[:of_normals], counts.dtype)
    values = tables.values + tables.stds * normal[:arms] / jnp.sqrt(jnp.maximum(counts, 1))
    free = materialize(jnp.maximum(counts - 1, 0))
    uniforms = _uniform(words[of_normals:], counts.dtype)
    uniforms = uniforms if len(classes) == 1 else materialize(uniforms)
    sure = (job.learner.group_size - arms) // 2 if len(classes) == 1 else 0  # are used, whatever the counts
    used, squares = jnp.zeros_like(counts[0]), jnp.zeros_like(counts[0])
    for number, members in enumerate(classes):
        freedom = add_up(*(free[arm] for arm in members))
        pairs = jnp.floor(freedom * 0.5)
        odd = freedom - 2 * pairs
        after = materialize(used + pairs)
        chi_square = odd * normal[arms + number] ** 2 - 2 * log_product(uniforms, used, after, max(sure, 0))
        squares = squares + tables.stds[members[0]] ** 2 * chi_square
        used = after
    return job._replace(tables=replace(tables, values=materialize(values), squares=materialize(squares)))


def normal_numbers(words: Array, dtype: Any) -> Array:
    """Independent standard normal numbers [2 n, L] from words [2 n, L].

    The angle of a pair lies within an eighth of a turn of an axis; two more bits say which one.
    """
    half = words.shape[0] // 2
    radius = jnp.sqrt(-2 * log(_uniform(words[:half], dtype)))
    turn = words[half:]
    angle = (lax.bitcast_convert_type(turn, jnp.int32) >> 9).astype(dtype) + dtype.type(0.5)
    angle = materialize(angle * dtype.type(np.pi / 4 * 2.0**-22))
    square = angle * angle
    sine = angle + angle * square * _polynomial(_SINE, square)
    cosine = 1 - square * dtype.type(0.5) + square * square * _polynomial(_COSINE, square)
    cosine = materialize(radius * jnp.where(turn & np.uint32(1) > 0, -cosine, cosine))
    sine, swapped = materialize(radius * sine), turn & np.uint32(2) > 0
    return materialize(jnp.concatenate([jnp.where(swapped, cosine, sine), jnp.where(swapped, sine, cosine)]))


def _pairs(arms: int, spreads: int) -> int:
    """Of normal numbers: one number per arm, and one per standard deviation for odd degrees of freedom."""
    return -(-(arms + spreads) // 2)


def _uniforms(group_size: int) -> int:
    """At most (G - 1) // 2 are used; whole products are drawn."""
    most = (group_size - 1) // 2
    together = _together(most)
    return -(-most // together) * together


def _together(count: int) -> int:
    return max(1, min(count, _TOGETHER))


def _uniform(words: Array, dtype: Any) -> Array:
    """(k + 1/2) 2^-23 in (0, 1)."""
    return unit_uniform(words, dtype) + dtype.type(2.0**-24)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + x.dtype.type(coefficient)
    return total


def log_product(uniforms: Array, first: Array, last: Array, sure: int) -> Array:
    """log of the product of the uniforms [n, L] with first <= number < last [L].

    n: a multiple of 4, or below. sure: so many, from number 0 on, are among them in every lane.
    """
    count, lanes = uniforms.shape
    if count == 0:
        return jnp.zeros_like(first)
    together = _together(count)
    sure -= sure % together
    place = lax.broadcasted_iota(jnp.int32, (count - sure, 1), 0).astype(first.dtype) + sure
    chosen = jnp.where((place >= first) & (place < last), uniforms[sure:], 1)
    parts = [
        materialize(log(reduce(jnp.multiply, jnp.moveaxis(factors.reshape(-1, together, lanes), 1, 0))))
        for factors in (uniforms[:sure], chosen)
        if len(factors)
    ]
    return add_up(*(leading_sum(part) for part in parts))
