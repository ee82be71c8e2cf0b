"""The three dynamics behind one interface, and the drift that belongs to each; that of infinite groups stands here."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo import (
    Gradient,
    GradientFn,
    Learner,
    Shift,
    batch_advantages,
    counted,
    policy_gradient,
    shift_of,
    weighs_groups,
)
from bandit_lab.simulation.enumerated_group import check_enumerated_group, enumerated_group
from bandit_lab.simulation.finite_group import check_finite_group, finite_group
from bandit_lab.simulation.normal_law import check_nodes, cuts, nodes_of
from bandit_lab.simulation.sampled import sampled


def mean_field(learner: Learner) -> GradientFn:
    """The mean-field dynamics of a learner: `(key, kl_weight, theta, behaviour) -> Gradient`, key ignored.

    signal[x, k] = (1/X) pi_old(k|x) sum_u P(u|x,k) A_u(x) w(ratio[x,k], A_u(x)) with the advantage A_u(x) of reward
    value u in an infinite group of context x; other estimators: see `counted`. Exact for laws with finitely many
    values, and to rounding for normal ones (`normal_law`); else as good as their nodes.
    """

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, shift = shift_of(learner, theta, behaviour)
        chances, weighted = _weighed_answers(learner, policy, shift)
        frequency = policy / policy.shape[0]
        signal = frequency * jnp.sum(chances * weighted, axis=-1)
        ascent = policy_gradient(learner, kl_weight, theta, behaviour, signal, frequency, shift.log_frequency)
        return Gradient(ascent, jnp.zeros((), theta.dtype))

    return gradient


def _weighed_answers(learner: Learner, policy: Array, shift: Shift) -> tuple[Array, Array]:
    """(probability of every reward [X, K or 1, U] given its arm, what its advantage becomes [.., X, K, U]).

    In infinite groups that the law `policy` [X, K] draws. shift: see `counted`, which is applied to the advantages.
    """
    law = learner.bandit.law
    if cuts(learner):
        chances, advantage = nodes_of(learner, policy)
    else:
        chances = law.probabilities
        value_law = jnp.einsum("xk,xku->xu", policy, chances)
        advantage = batch_advantages(learner.advantage, law.values[:, None], value_law.T, None).T[:, None, :]
    if weighs_groups(learner):
        share = policy[..., None] * chances
        return chances, jax.vmap(lambda *parts: counted(learner, *parts))(shift.spread(1), advantage, share)
    return chances, counted(learner, shift.spread(1), advantage, 1.0)


def _exact_at_this_size(learner: Learner) -> GradientFn:
    """The exact mean of finite groups: action by action, or over whole groups where the estimator weighs those."""
    return enumerated_group(learner) if weighs_groups(learner) else finite_group(learner)


DYNAMICS: dict[str, Callable[[Learner], GradientFn]] = {
    "mean_field": mean_field,
    "finite_group": _exact_at_this_size,
    "sampled": sampled,
}

Drift = Callable[[Array, Array, Array], Array]
"""(theta [D], behaviour theta [D], kl_weight) -> exact mean gradient [D]."""


def drift_of(learner: Learner, dynamics: str) -> Drift:
    """The exact mean gradient of a dynamics: G = infinity for `mean_field`, this G for `finite_group` and `sampled`.

    Raises:
      ValueError: unknown dynamics (the known ones are listed), or what `finite_group` raises.
    """
    _checks.choice("dynamics", dynamics, DYNAMICS)
    exact = mean_field(learner) if dynamics == "mean_field" else _exact_at_this_size(learner)
    unused = jax.random.key(0)

    def drift(theta: Array, behaviour: Array, kl_weight: Array) -> Array:
        return exact(unused, kl_weight, theta, behaviour).value

    return drift


def check_drift(learner: Learner, dynamics: str) -> None:
    """Raise what `drift_of` raises, without working the drift out, and for a mean that nodes do not give."""
    _checks.choice("dynamics", dynamics, DYNAMICS)
    if dynamics == "mean_field":
        check_nodes(learner)
    else:
        check = check_enumerated_group if weighs_groups(learner) else check_finite_group
        check(learner)


def drift_name(learner: Learner, dynamics: str) -> str:
    """The name of the drift in tables: `G = infinity` or `G = 64`."""
    return "G = infinity" if dynamics == "mean_field" else f"G = {learner.group_size}"
