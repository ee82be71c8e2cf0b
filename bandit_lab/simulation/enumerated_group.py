"""Finite groups whose actions depend on each other, exactly: summation over everything that a whole group can be.

Where an estimator weighs the actions of a group against each other (`of_group`), one tagged action is not enough: the
coefficients of all of them depend on every arm and reward that was drawn. A group of G is, but for its order, a
count of its K U pairs (arm, reward value), a multinomial; there are C(G + K U - 1, G) of them, so that this serves
small groups only.
"""

from math import comb

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._numerics import log_of_powers
from bandit_lab._types import Array
from bandit_lab.grpo import Gradient, GradientFn, Learner, counted, policy_gradient, sees_batch, shift_of
from bandit_lab.simulation.finite_group import MAX_COMPOSITIONS, compositions, counted_advantages, log_orders


def check_enumerated_group(learner: Learner) -> None:
    """Raise ValueError where a group of the learner can be too many things."""
    bandit, advantage = learner.bandit, type(learner.advantage).__name__
    what = "for dynamics=finite_group"
    _checks.require(bandit.exact_law, "dynamics", f"a bandit with finitely many values {what}", type(bandit).__name__)
    alone = not sees_batch(learner.advantage) or learner.prompts == 1
    _checks.require(
        alone,
        "prompts",
        f"1, as estimator and advantage ({advantage}) see more than one action, {what}",
        learner.prompts,
    )
    cells = bandit.reference_log_policy.shape[1] * bandit.law.values.shape[0]
    ways = comb(learner.group_size + cells - 1, cells - 1)
    _checks.require(
        ways <= MAX_COMPOSITIONS,
        "group_size",
        f"at most {MAX_COMPOSITIONS} groups, their order aside, of an estimator that weighs whole groups {what} (fewer "
        "arms or a smaller group; dynamics=sampled and mean_field have no such limit)",
        f"{ways} at group_size={learner.group_size} with {cells} pairs of arm and reward",
    )


def enumerated_group(learner: Learner) -> GradientFn:
    """The exact mean dynamics at the learner's group size: `(key, kl_weight, theta, behaviour) -> Gradient`.

    Raises:
      ValueError: what `check_enumerated_group` raises.
    """
    check_enumerated_group(learner)
    bandit, size, law = learner.bandit, learner.group_size, learner.bandit.law
    num_arms, num_values = bandit.reference_log_policy.shape[1], law.values.shape[0]
    counts = compositions(size, num_arms * num_values)  # [M, K U]
    log_ways = log_orders(counts)
    cells = np.array([np.repeat(np.arange(counts.shape[1]), row) for row in counts])  # [M, G]
    arms, values = np.divmod(cells, num_values)
    by_value = counts.reshape(-1, num_arms, num_values).sum(axis=1)
    advantage = counted_advantages(learner.advantage, size)(law.values, by_value)  # [M, U]
    advantage = jnp.take_along_axis(advantage, values, axis=1)  # [M, G]
    drops = learner.advantage.drops_silent
    not_silent = ~np.all(values == values[:, :1], axis=1) if drops else np.ones(len(values), bool)
    on_arm = arms[:, :, None] == np.arange(num_arms)  # [M, G, K]

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, shift = shift_of(learner, theta, behaviour)
        joint = policy[..., None] * law.probabilities
        chance = jnp.exp(log_ways.astype(theta.dtype) + log_of_powers(joint.reshape(len(joint), 1, -1), counts))
        chance = jnp.where(not_silent, chance, 0) / policy.shape[0]  # [X, M]
        alive = jnp.sum(chance)
        chance = chance / jnp.where(alive > 0, alive, 1) if drops else chance

        def coefficients(context: Array) -> Array:
            one = lambda arms, advantage: counted(learner, shift.at(context, arms), advantage, 1 / size)  # noqa: E731
            return jax.vmap(one)(arms, advantage)

        weighted = jax.vmap(coefficients)(jnp.arange(policy.shape[0])) / size  # [X, M, G]
        signal = jnp.einsum("xm,xmg,mgk->xk", chance, weighted, on_arm.astype(theta.dtype))
        frequency = jnp.einsum("xm,mgk->xk", chance, on_arm.astype(theta.dtype)) / size
        log_frequency = None if learner.advantage.drops_silent else shift.log_frequency
        ascent = policy_gradient(learner, kl_weight, theta, behaviour, signal, frequency, log_frequency)
        value_law = jnp.sum(joint, axis=1)
        return Gradient(ascent, jnp.mean(jnp.sum(value_law**size, axis=-1)))

    return gradient
