"""Drawing one group: context, arms and rewards, with or without the condition that the rewards are not all equal.

The conditional draw is exact and needs no redrawing, however rare the event. Let v_u be the chance of reward value u.
A group of G is not silent iff its first reward u is followed by at most G - 2 further equal ones, so

    P(first value = u | not silent) ~ v_u (1 - v_u^{G-1}),
    P(J = j | u, not silent) = v_u^{j-1} (1 - v_u) / (1 - v_u^{G-1}),   J = 1 .. G-1 the first place that differs;

places before J are drawn given the value u, place J given another value, places after J freely. Everything is written
with 1 - v_u as a sum of the other values' chances, so that nothing cancels close to a vertex. Derived here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit


class Group(NamedTuple):
    """One group: its context (scalar), arms [G] and rewards [G]."""

    context: Array
    arms: Array
    rewards: Array


def _reached(level: Array, upper: Array) -> Array:
    """How many of the rising sums `upper` [..., n] a level [...] has reached."""
    return jnp.sum(level[..., None] >= upper, axis=-1, dtype=jnp.int32)


def draw_group(bandit: Bandit, key: Array, policy: Array, size: int) -> Group:
    """A context (uniform), `size` arms from its policy, and their rewards. policy: [X, K]. `key` is consumed."""
    contexts = policy.shape[0]
    context_key, arm_key, reward_key = jax.random.split(key, 3)
    # Not dtype=int32, which in double precision mode draws other numbers.
    context = jax.random.randint(context_key, (), 0, contexts).astype(jnp.int32) if contexts > 1 else jnp.int32(0)
    upper = jnp.cumsum(policy[context])[:-1]
    arms = _reached(jax.random.uniform(arm_key, (size,), policy.dtype), upper)
    return Group(context, arms, bandit.sample_rewards(reward_key, context, arms))


def draw_non_silent_group(bandit: Bandit, key: Array, policy: Array, size: int) -> Group:
    """The same given that the rewards are not all equal. policy: [X, K]. `key` is consumed.

    Exact for laws with finitely many values. Rewards with a continuous law are never all equal: they are drawn freely.
    A policy that has reached a vertex, so that no other group is possible, gives a silent one.
    """
    if not bandit.exact_law:
        return draw_group(bandit, key, policy, size)
    law = bandit.law
    num_values = law.values.shape[0]
    start_key, place_key, cell_key = jax.random.split(key, 3)
    joint = policy[:, :, None] * law.probabilities  # [X, K, U]
    chance = jnp.sum(joint, axis=1)
    others = chance @ (1 - jnp.eye(num_values, dtype=chance.dtype))  # [X, U], 1 - chance
    differs = -jnp.expm1((size - 1) * jnp.log1p(-jnp.minimum(others, 1)))
    upper = jnp.cumsum((chance * differs).reshape(-1))
    start = _reached(jax.random.uniform(start_key, (), policy.dtype) * upper[-1], upper[:-1])
    context, first = start // num_values, start % num_values
    uniform = jax.random.uniform(place_key, (), policy.dtype)
    steps = jnp.log1p(-uniform * differs[context, first]) / jnp.log1p(-jnp.minimum(others[context, first], 1))
    where_differs = jnp.clip(jnp.nan_to_num(jnp.ceil(steps), nan=1.0), 1, size - 1)
    if law.certain:  # a cell is an arm: an arm's other rewards have no chance
        chances, same = policy[context], jnp.argmax(law.probabilities, axis=-1)[context] == first
    else:
        chances, same = joint[context].reshape(-1), jnp.tile(jnp.arange(num_values) == first, policy.shape[1])
    rules = jnp.stack([same, ~same, jnp.ones_like(same)])  # before the place that differs, there, after it
    upper = jnp.cumsum(chances * rules, axis=-1)  # [3, cells]: as weights [G, cells] they would fill the memory

    def of_place(rows: Array) -> Array:  # [3, ...] -> [G, ...]
        place = jnp.arange(size).reshape(-1, *(1,) * (rows.ndim - 1))
        return jnp.where(place < where_differs, rows[0], jnp.where(place == where_differs, rows[1], rows[2]))

    level = jax.random.uniform(cell_key, (size,), policy.dtype) * of_place(upper[:, -1])
    cell = _reached(level, of_place(upper[:, :-1]))
    if law.certain:
        return Group(context, cell, law.means[context, cell])
    return Group(context, cell // num_values, law.values[cell % num_values])
