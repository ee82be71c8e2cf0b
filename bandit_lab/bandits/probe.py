"""A first look at a bandit from outside the package."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _probe
from bandit_lab._types import Array

_ARMS = 3  # drawn in one look


def probe(bandit: Any) -> None:
    """Raise ValueError that names the first part of a bandit that is not what its interface says."""
    from bandit_lab.bandits.base import Bandit, RewardLaw

    if not isinstance(bandit.law, RewardLaw):
        raise ValueError(f"law: expected a RewardLaw, got {type(bandit.law).__name__}")
    start = _probe.an_array("initial_parameters", bandit.initial_parameters, "[D]", (None,))
    reference = _probe.an_array("reference_log_policy", bandit.reference_log_policy, "[X, K]", (None, None))
    _probe.sums_to_one("exp(reference_log_policy)", np.exp(reference))
    values = _probe.an_array("law.values", bandit.law.values, "[U]", (None,))
    shape = (*reference.shape, len(values))
    _probe.sums_to_one(
        "law.probabilities", _probe.an_array("law.probabilities", bandit.law.probabilities, "[X, K, U]", shape)
    )
    if any(leaf is bandit for leaf in jax.tree.leaves(bandit)):
        raise ValueError(
            "class: expected one under @jax.tree_util.register_dataclass, so that its numbers are traced, got "
            f"{type(bandit).__name__} without it"
        )
    at = f"(theta [{len(start)}])"
    if not hasattr(bandit, "log_policy") or isinstance(bandit, Bandit):
        _probe.defined(bandit, Bandit, "log_policy")
    theta = jnp.asarray(bandit.initial_parameters)
    _probe.shaped(f"log_policy{at}", "[X, K]", reference.shape, bandit.log_policy, theta)
    means = _probe.attempt("true_means", "an array [X, K]", lambda: bandit.true_means)
    _probe.an_array("true_means", means, "[X, K]", reference.shape)
    if (stds := getattr(bandit, "normal_stds", None)) is not None:
        _probe.an_array("normal_stds", stds, "[X, K]", reference.shape)
    arms = jnp.arange(_ARMS) % reference.shape[1]
    draw = (jax.random.key(0), jnp.int32(0), arms)
    _probe.shaped(f"sample_rewards(key, context, arms [{_ARMS}])", "[G]", arms.shape, bandit.sample_rewards, *draw)
    if hasattr(bandit, "log_token_policy"):
        _tokens(bandit, f"log_token_policy{at}", theta, reference.shape)
    _numbers(bandit, at, theta, draw)
    if hasattr(bandit, "at"):
        _clock(bandit)


def _clock(bandit: Any) -> None:
    now = _probe.attempt("at(step)", "a bandit that JAX can compute", lambda: jax.jit(bandit.at)(jnp.int32(1)))
    _probe.attempt("at(step)", "a bandit", lambda: now.law)
    if hasattr(now, "at"):
        raise ValueError(f"at(step): expected a bandit without `at`, got {type(now).__name__}, which has one")
    try:
        probe(now)
    except ValueError as error:
        raise ValueError(f"at(1): {error}") from error
    shapes = [list(np.shape(one.law.probabilities)) for one in (bandit, now)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"at(1): expected law.probabilities {shapes[0]} as at step 0, got {shapes[1]}")


def _tokens(bandit: Any, method: str, theta: Array, shape: tuple[int, ...]) -> None:
    expected = f"an array [L, X, K] = [L, {shape[0]}, {shape[1]}]"
    found = _probe.attempt(method, expected, lambda: jax.eval_shape(bandit.log_token_policy, theta))
    if len(getattr(found, "shape", ())) != 3 or found.shape[1:] != shape:
        raise ValueError(f"{method}: expected {expected}, got {list(getattr(found, 'shape', ()))}")


def _numbers(bandit: Any, at: str, theta: Array, draw: tuple[Any, ...]) -> None:
    """Log-probabilities, their gradient and a few rewards at the start."""

    @jax.jit
    def look(bandit: Any) -> tuple[Array, Array, Array]:
        return bandit.log_policy(theta), jax.jacfwd(bandit.log_policy)(theta), bandit.sample_rewards(*draw)

    log_policy, slope, rewards = _probe.attempt(
        f"log_policy{at}", "an array that JAX can compute and differentiate", lambda: look(bandit)
    )
    _probe.finite(f"log_policy{at} at initial_parameters", log_policy)
    _probe.sums_to_one(f"exp(log_policy{at}) at initial_parameters", np.exp(log_policy))
    _probe.finite(f"gradient of log_policy{at} at initial_parameters", slope)
    _probe.finite("sample_rewards", rewards)
