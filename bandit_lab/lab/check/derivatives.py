"""Are derivatives those of the functions?"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.lab.check.result import check, close, not_zero
from bandit_lab.lab.check.subject import LAWS, Subject
from bandit_lab.simulation import drift_of

STEP = 1e-5


def _central(function: Callable[[Array], Array], x: Array) -> np.ndarray:
    columns = [(function(x + move) - function(x - move)) / (2 * STEP) for move in jnp.eye(len(x)) * STEP]
    return np.stack([np.asarray(column) for column in columns], axis=-1)


@check("gradient of the policy against finite differences", "bandit")
def _policy(subject: Subject) -> str:
    """d log pi / d theta by forward and reverse differentiation and by central differences."""
    theta, log_policy = subject.places[0][0], subject.learner.bandit.log_policy
    forward = jax.jacfwd(log_policy)(theta)
    not_zero("gradient", forward)
    line = close("forward", forward, _central(log_policy, theta), 1e-7, 1e-8)
    return f"{line}; {close('reverse', jax.jacrev(log_policy)(theta), forward, 1e-12, 1e-12)}"


@check("derivatives of the drift against finite differences", "bandit", "advantage", "estimator", "kl_estimator", *LAWS)
def _drift(subject: Subject) -> str:
    """H_fresh and H_stale by forward differentiation and by central differences."""
    exact, (theta, behaviour) = jax.jit(drift_of(subject.learner, subject.dynamics)), (p[1] for p in subject.places)
    weight, lines, seen = subject.weight, [], []
    for name, at, function in (
        ("current", theta, lambda x: exact(x, behaviour, weight)),
        ("behaviour", behaviour, lambda x: exact(theta, x, weight)),
    ):
        seen.append(jax.jacfwd(function)(at))
        lines.append(close(f"{name} policy", seen[-1], _central(function, at), 1e-6, 1e-8))
    not_zero("derivatives", *seen)
    return "; ".join(lines)
