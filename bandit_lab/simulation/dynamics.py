"""The three dynamics behind one interface, and the drift that belongs to each."""

from collections.abc import Callable

import jax

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo import GradientFn, Learner, weighs_groups
from bandit_lab.simulation.enumerated_group import check_enumerated_group, enumerated_group
from bandit_lab.simulation.finite_group import check_finite_group, finite_group
from bandit_lab.simulation.mean_field import mean_field
from bandit_lab.simulation.normal_law import check_nodes
from bandit_lab.simulation.sampled import sampled


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
