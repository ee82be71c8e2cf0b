"""Samplers: the law that answers are drawn from, where it is not the policy itself.

An inference engine draws from another law b than the policy pi that the trainer computes: at a temperature, from the
likeliest answers alone, or with other logits because its numbers are coarser. The trainer's ratios and scores use pi
all the same, unless a correction (`grpo.correction`) weighs each answer. So advantages, shares and the sampled KL terms
are those of b, and the reward's part of the update is b's. Sequences are drawn token by token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab._types import Array


class Sampler(Protocol):
    """The law b that the answers of an acting policy pi are drawn from.

    For developers. A new sampler is a frozen (hashable) dataclass under `@register_sampler("its_name")`, here or in a
    module of yours, whose fields are its options, checked by itself. It has

    - `log_law(log_policy)`: log pi [X, K] -> log b [X, K], of sum 1 in every context, -inf for what is never drawn;
      where answers are sequences, of the V next tokens [R, V] after all R beginnings of all prompts;
    - `draws_all`: whether every answer can be drawn, a class attribute: weights pi/b need that;
    - `smooth`: whether b has no jumps: at a jump a run may rest where the mean update does not vanish.
    """

    draws_all: bool
    smooth: bool

    def log_law(self, log_policy: Array) -> Array:
        """Log-probabilities of the answers that are drawn."""
        ...


SAMPLERS: Registry[Sampler] = Registry("sampler", ("log_law", "draws_all", "smooth"))
register_sampler = SAMPLERS.register


@register_sampler("exact")
@dataclass(frozen=True)
class OwnLaw:
    """The policy itself draws."""

    draws_all = True
    smooth = True

    def log_law(self, log_policy: Array) -> Array:
        """log pi."""
        return log_policy


@register_sampler("temperature")
@dataclass(frozen=True)
class Temperature:
    """b ~ pi^(1/tau): logits over tau. Hot (tau > 1) draws rare answers more often. Raises ValueError for tau <= 0."""

    tau: float = 1.25
    draws_all = True
    smooth = True

    def __post_init__(self) -> None:
        _checks.positive("sampler.tau", self.tau)

    def log_law(self, log_policy: Array) -> Array:
        """log softmax of log pi / tau."""
        return jax.nn.log_softmax(log_policy / self.tau)


@register_sampler("top_p")
@dataclass(frozen=True)
class TopP:
    """The likeliest answers up to a share of p, the one that reaches it included. arXiv 1904.09751 (nucleus).

    Raises ValueError unless 0 < p <= 1.
    """

    p: float = 0.9
    draws_all = False
    smooth = False

    def __post_init__(self) -> None:
        inside = 0 < _checks.finite_number("sampler.p", self.p) <= 1
        _checks.require(inside, "sampler.p", "a number in (0, 1]", self.p)

    def log_law(self, log_policy: Array) -> Array:
        """pi among the answers whose likelier ones have less than p."""
        likelier = jnp.sum(jnp.where(_before(log_policy), jnp.exp(log_policy)[..., None, :], 0), axis=-1)
        return _among(log_policy, likelier < self.p)


@register_sampler("top_k")
@dataclass(frozen=True)
class TopK:
    """The k likeliest answers. arXiv 1805.04833. Raises ValueError unless k is an integer >= 1."""

    k: int = 3
    draws_all = False
    smooth = False

    def __post_init__(self) -> None:
        _checks.integer("sampler.k", self.k, 1)

    def log_law(self, log_policy: Array) -> Array:
        """pi among them; of equal ones those with the smaller index."""
        return _among(log_policy, jnp.sum(_before(log_policy), axis=-1) < self.k)


def _before(log_policy: Array) -> Array:
    """[X, K, K] whether the second arm is likelier than the first, or as likely with a smaller index.

    XLA:CPU has no sort inside one kernel.
    """
    this, other = log_policy[..., :, None], log_policy[..., None, :]
    arm = jnp.arange(log_policy.shape[-1])
    return (other > this) | ((other == this) & (arm < arm[:, None]))


def _among(log_policy: Array, allowed: Array) -> Array:
    """log pi of the answers [X, K] that are kept, given one of them."""
    share = jnp.sum(jnp.where(allowed, jnp.exp(log_policy), 0), axis=-1, keepdims=True)
    return jnp.where(allowed, log_policy - jnp.log(share), -jnp.inf)


@register_sampler("logit_noise")
@dataclass(frozen=True)
class LogitNoise:
    """Logits with an error xi that stands still for the whole run: another engine's kernels or weights.

    noise: xi, a number for each arm, the same in every context; or null: normal numbers of standard deviation `std`
    (nats) for every context and arm, from `seed`. Raises ValueError for std < 0, a seed < 0, another number of arms.
    """

    noise: Sequence[float] | None = None
    std: float = 0.5
    seed: int = 0
    draws_all = True
    smooth = True

    def __post_init__(self) -> None:
        if self.noise is not None:
            object.__setattr__(self, "noise", _checks.numbers("sampler.noise", self.noise))
        _checks.non_negative("sampler.std", self.std)
        _checks.integer("sampler.seed", self.seed, 0)

    def log_law(self, log_policy: Array) -> Array:
        """log softmax of log pi + xi."""
        drawn = self.std * np.random.default_rng(int(self.seed)).normal(size=log_policy.shape)
        if self.noise is not None:
            arms = log_policy.shape[-1]
            _checks.require(len(self.noise) == arms, "sampler.noise", f"{arms} numbers", list(self.noise))
            drawn = np.broadcast_to(self.noise, log_policy.shape)
        return jax.nn.log_softmax(log_policy + jnp.asarray(drawn, log_policy.dtype))


_BITS = {"bf16": (8, 7), "fp8": (4, 3)}
"""Format -> bits of the exponent and of the mantissa; fp8 is E4M3."""
_LARGEST = {"bf16": np.inf, "fp8": 240.0}


@register_sampler("rounding")
@dataclass(frozen=True)
class Rounding:
    """Logits rounded to a coarser type: `bf16`, or `fp8` with 4 bits of exponent and 3 of mantissa, as IEEE 754 has it.

    Rounded is log pi less its mean: the logits themselves where training began at logits of sum 0. The law is a step
    function of the policy, whose derivative is 0. Raises ValueError for another format.
    """

    format: str = "bf16"
    draws_all = True
    smooth = False

    def __post_init__(self) -> None:
        _checks.choice("sampler.format", self.format, _BITS)

    def log_law(self, log_policy: Array) -> Array:
        """log softmax of the rounded logits."""
        largest = _LARGEST[self.format]
        logits = jnp.clip(log_policy - jnp.mean(log_policy, -1, keepdims=True), -largest, largest)
        return jax.nn.log_softmax(lax.stop_gradient(lax.reduce_precision(logits, *_BITS[self.format])))
