"""The interface of a bandit, and the law of its rewards."""

import inspect
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RewardLaw:
    """The law of the reward of every arm on one shared list of values.

    P(reward = values[u] | context x, arm k) = probabilities[x, k, u].

    values: [U], reward units. probabilities: [X, K, U], each row sums to 1. certain: whether every row has a single 1,
    so that nothing has to be drawn.
    """

    values: Array
    probabilities: Array
    certain: bool = field(default=False, metadata={"static": True})

    @property
    def means(self) -> Array:
        """Mean reward of every arm [X, K]."""
        return self.probabilities @ self.values


@runtime_checkable
class Bandit(Protocol):
    """A bandit: arms with random rewards, and a policy over them with parameters theta [D].

    For developers. A new bandit is one file with a function that builds it, `@register_bandit("its_name")`; its
    arguments are the options, its docstring the help. The function gives a frozen
    dataclass that inherits from `Bandit`, registered with `jax.tree_util.register_dataclass` so that its numbers are
    traced and not compiled in, that has:

    - `initial_parameters` [D]: where training starts;
    - `reference_log_policy` [X, K]: log-probabilities of the reference policy, finite everywhere;
    - `law`: the `RewardLaw` of the *trained* reward;
    - `log_policy(theta)`: [D] -> [X, K], differentiable log-probabilities; X is the number of contexts (prompts),
      1 for a plain bandit; a group belongs to one context, drawn uniformly.

    and, only where the default below is not right,

    - `true_means` [X, K]: mean of the reward that is reported, if it is not the one that is trained on;
    - `sample_rewards(key, context, arms)`: [G] arms -> [G] rewards, if drawing from `law` is not exact.
      Rewards with a continuous law keep quadrature nodes in `law` and set `exact_law` to False;
    - `tabular`: True if the policy of its single context is the softmax of theta itself, and rewards are drawn from
      `law` or normal. Then the fast path has a kernel for it. Any other policy takes the general one;
    - `normal_stds` [X, K]: the standard deviations, if the reward of every arm is normal with the mean in `law`: the
      fast path then draws what mean and variance of a group need, and not each of its rewards;
    - `costly`: True if `log_policy` costs far more than a table of logits: fewer runs are then computed side by side;
    - `log_token_policy(theta)`: [D] -> [L, X, K], where an arm is a sequence of L tokens: the log-probability of each
      token given those before it, with sum over L equal to `log_policy`. Estimators that weigh tokens need it;
    - `lexicographic`: True if the arms are all sequences of L tokens in lexicographic order, K = V^L: a sampler then
      draws token by token.

    Everything else (the three dynamics, stiffness, thresholds, sweeps) is written against these names.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    exact_law: bool = True
    tabular: bool = False
    normal_stds: Array | None = None
    costly: bool = False
    lexicographic: bool = False
    log_token_policy: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Gives the dataclass a static field with its own class.

        From jaxlib 0.10.0 on, two registered dataclasses with equal fields have equal trees, though their hashes
        differ. `jax.jit` then now and then runs one class with what it traced for another. The field parts them.
        """
        super().__init_subclass__(**kwargs)
        cls.__annotations__ = inspect.get_annotations(cls) | {"bandit_class": type}
        own = field(default=cls, kw_only=True, repr=False, compare=False, metadata={"static": True})
        cls.bandit_class = own  # type: ignore[attr-defined]

    @abstractmethod
    def log_policy(self, theta: Array) -> Array:
        """Log-probabilities [X, K] of the arms under parameters theta [D]."""
        ...

    @property
    def true_means(self) -> Array:
        """Mean of the reported reward of every arm [X, K]."""
        return self.law.means

    def sample_rewards(self, key: Array, context: Array, arms: Array) -> Array:
        """One reward [G] per action in `arms` [G], by inverting the cumulative law. `key` is consumed."""
        if self.law.certain:
            return self.law.means[context, arms]
        upper = jnp.cumsum(self.law.probabilities[context], axis=-1)[:, :-1]
        uniform = jax.random.uniform(key, arms.shape, self.law.values.dtype)
        return self.law.values[jnp.sum(uniform[:, None] >= upper[arms], axis=-1, dtype=jnp.int32)]


def expected_reward(bandit: Bandit, theta: Array) -> Array:
    """Expected reported reward of the policy, averaged over contexts: [D] -> scalar of theta's type, reward units."""
    # A float64 literal in a policy of one's own lifts everything that it touches.
    return jnp.mean(jnp.sum(jnp.exp(bandit.log_policy(theta)) * bandit.true_means, axis=-1)).astype(theta.dtype)


BANDITS: Registry[Bandit] = Registry(
    "bandit",
    ("initial_parameters", "reference_log_policy", "law", "log_policy", "true_means", "sample_rewards", "exact_law"),
    base=Bandit,
)
register_bandit = BANDITS.register
