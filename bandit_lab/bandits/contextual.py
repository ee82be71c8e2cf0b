"""Many prompts with shared parameters: the log-linear policy pi(k|x) ~ pi_0(k|x) exp(theta . phi(x, k))."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw, register_bandit
from bandit_lab.bandits.tabular import k_arm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ContextualBandit(Bandit):
    """X prompts with K arms each; what prompts have in common is their features. theta = 0 is the reference policy.

    features: [X, K, D] phi(x, k). weights: [2] of own and shared part, where these are unit vectors: entry (x, k) of
    theta, x < X, and entry (X, k). None: any features.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    features: Array
    weights: Array | None = None

    def log_policy(self, theta: Array) -> Array:
        """log softmax of log pi_0 + theta . phi over the arms: [D] -> [X, K]."""
        if self.weights is None:
            added = self.features @ theta
        else:
            parts = theta.reshape(-1, self.features.shape[1])
            added = self.weights[0] * parts[:-1] + self.weights[1] * parts[-1]
        return jax.nn.log_softmax(self.reference_log_policy + added, axis=-1)

    def only(self, prompts: slice) -> "ContextualBandit":
        """The same parameters on some of the prompts: to train on these and to evaluate on those."""
        law = RewardLaw(self.law.values, self.law.probabilities[prompts])
        reference, features = self.reference_log_policy[prompts], self.features[prompts]
        return ContextualBandit(law, self.initial_parameters, reference, features)


MOST_NUMBERS = 2**27
"""In drawn features, 1 GiB."""


def _drawn_features(
    contexts: int, arms: int, overlap: float, dimension: int | None, draw: np.random.Generator
) -> Array:
    """sqrt(1 - overlap) own(x, k) + sqrt(overlap) shared(k) [X, K, D]; the parts orthonormal, or random in R^D."""
    count = (contexts + 1) * arms
    parts = np.eye(count)
    if dimension is not None:
        parts = draw.standard_normal((count, dimension)) / np.sqrt(dimension)
    own, shared = parts[:-arms].reshape(contexts, arms, -1), parts[-arms:]
    return np.sqrt(1 - overlap) * own + np.sqrt(overlap) * shared


@register_bandit("contextual")
def contextual(
    contexts: int = 8,
    arms: int = 4,
    overlap: float = 0.0,
    conflict: float = 0.0,
    difficulty: float = 0.0,
    spread: float = 1.0,
    high: float = 1.0,
    low: float = 0.0,
    dimension: int | None = None,
    seed: int = 0,
    features: Sequence[Sequence[Sequence[float]]] | None = None,
    rewards: Sequence[Sequence[float]] | None = None,
) -> ContextualBandit:
    """Prompts with one good arm each, their features overlapping as much as is asked for.

    phi(x, k) = sqrt(1 - overlap) own(x, k) + sqrt(overlap) shared(k): gradients of two prompts in the same state with
    the same good arm have the cosine `overlap`; at 0 prompts are independent bandits, at 1 one set of logits serves
    all.

    Args:
      contexts, arms: X >= 1 prompts, K >= 2 arms. overlap: in [0, 1]. conflict: share of the prompts (the last ones)
        whose good arm is the second and not the first, in [0, 1].
      difficulty, spread: mean and std over prompts of the log-odds of *not* drawing the good arm under the reference
        policy; drawn normal with `seed`. The other arms are equally likely.
      high, low: success probabilities of the good arm and of the others, in [0, 1].
      dimension: None: own and shared parts are orthonormal, D = (X + 1) K; else normal vectors of mean square length 1
        in R^D, drawn with `seed`.
      features: [X, K, D], in place of drawn ones. rewards: [X, K] success probabilities, in place of high and low.

    Raises:
      ValueError: any of these out of range, tables of the wrong shape.
    """
    count, size = _checks.integer("bandit.contexts", contexts, 1), _checks.integer("bandit.arms", arms, 2)
    for name, share in (("overlap", overlap), ("conflict", conflict), ("high", high), ("low", low)):
        inside = 0 <= _checks.finite_number(f"bandit.{name}", share) <= 1
        _checks.require(inside, f"bandit.{name}", "a number in [0, 1]", share)
    _checks.non_negative("bandit.spread", spread)
    if dimension is not None:
        _checks.integer("bandit.dimension", dimension, 1)
    parts = (count + 1) * size
    drawn = parts * (dimension or parts) if features is None else 0
    _checks.require(drawn <= MOST_NUMBERS, "bandit.contexts", f"at most {MOST_NUMBERS} numbers in all features", drawn)
    draw = np.random.default_rng(_checks.integer("bandit.seed", seed, 0))
    log_odds = _checks.finite_number("bandit.difficulty", difficulty) + spread * draw.standard_normal(count)
    good = (np.arange(count) >= count - round(conflict * count)).astype(int)
    is_good = np.arange(size) == good[:, None]
    logits = np.where(is_good, -log_odds[:, None], -np.log(size - 1))
    random = _drawn_features(count, size, overlap, dimension, draw)
    phi = random if features is None else table("bandit.features", features, (count, size, None))
    success = np.where(is_good, high, low) if rewards is None else table("bandit.rewards", rewards, (count, size))
    rows = [k_arm(row.tolist(), base.tolist()) for row, base in zip(success, logits, strict=True)]
    law = RewardLaw(rows[0].law.values, jnp.concatenate([row.law.probabilities for row in rows]))
    reference = jnp.concatenate([row.reference_log_policy for row in rows])
    units = features is None and dimension is None
    weights = jax.device_put(np.sqrt([1 - overlap, overlap])) if units else None
    return ContextualBandit(law, jnp.zeros(phi.shape[-1]), reference, jax.device_put(phi), weights)


def table(name: str, values: Sequence, shape: tuple[int | None, ...]) -> np.ndarray:
    """Nested numbers as an array of that shape (None: any length). Raises ValueError otherwise."""
    expected = "finite numbers of shape [" + ", ".join("D" if n is None else str(n) for n in shape) + "]"
    try:
        table = np.array(values, float)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected {expected}, got {values!r}") from None
    fits = table.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, table.shape, strict=True))
    _checks.require(fits and bool(np.isfinite(table).all()), name, expected, table.shape)
    if name == "bandit.rewards":
        _checks.rewards(name, table.ravel().tolist())
    return table
