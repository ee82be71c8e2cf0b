"""Corrections: weights of answers that another law drew.

The sampler (`grpo.sampler`) draws from b, the trainer computes pi. A correction multiplies an answer's gradient by a
function of the mismatch pi/b. The estimator's weight of the ratio comes on top. Where the estimator weighs tokens
(`clipped`, ...) each token of a sequence has its own factor. Else the whole sequence has one (`frozen`, `ratio`, ...:
truncation or rejection). Where the policy itself draws there is no correction.
"""

from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab._types import Array


class Correction(Protocol):
    """The factor of an answer's gradient, from its mismatch: the trainer's probability over the sampler's.

    For developers. A new correction is a frozen (hashable) dataclass under `@register_correction("its_name")`, here or
    in a module of yours, whose fields are its options, checked by itself. It has

    - `weight(mismatch)`: numbers >= 0 of any shape -> that shape, 1 at 1;
    - `smooth`: whether that has no jumps, a class attribute; see `Sampler.smooth`.
    """

    smooth: bool

    def weight(self, mismatch: Array) -> Array:
        """Factor of each answer."""
        ...


CORRECTIONS: Registry[Correction] = Registry("correction", ("weight", "smooth"))
register_correction = CORRECTIONS.register


@register_correction("none")
@dataclass(frozen=True)
class NoCorrection:
    """The trainer does not look at what the sampler's probabilities were."""

    smooth = True

    def weight(self, mismatch: Array) -> Array:
        """1."""
        return jnp.ones_like(mismatch)


@register_correction("importance")
@dataclass(frozen=True)
class Importance:
    """pi/b without a bound: the policy's own gradient in the mean, but for the std of the group, which stays b's.

    With a clipped estimator it is decoupled PPO: the sampler behaves, and the policy that acted is the proximal one
    (arXiv 2110.00641; asynchronous: arXiv 2505.24298).
    """

    smooth = True

    def weight(self, mismatch: Array) -> Array:
        """The mismatch."""
        return mismatch


@register_correction("tis")
@dataclass(frozen=True)
class Truncated:
    """min(pi/b, largest): truncated importance sampling, TIS. fengyao.notion.site/off-policy-rl.

    Raises ValueError unless largest >= 1.
    """

    largest: float = 2.0
    smooth = True

    def __post_init__(self) -> None:
        least = _checks.finite_number("correction.largest", self.largest) >= 1
        _checks.require(least, "correction.largest", "a number >= 1", self.largest)

    def weight(self, mismatch: Array) -> Array:
        """The mismatch, cut off from above."""
        return jnp.minimum(mismatch, self.largest)


@register_correction("icepop")
@dataclass(frozen=True)
class Masked:
    """pi/b within [low, high] and 0 outside: answers on which the two laws differ much are left out (IcePop).

    ringtech.notion.site/icepop; arXiv 2510.18855. With low = 0 left out is what the sampler draws too rarely, alone.
    Raises ValueError unless 0 <= low <= 1 <= high.
    """

    low: float = 0.5
    high: float = 5.0
    smooth = False

    def __post_init__(self) -> None:
        low, high = (_checks.finite_number(f"correction.{name}", getattr(self, name)) for name in ("low", "high"))
        _checks.require(0 <= low <= 1, "correction.low", "a number in [0, 1]", self.low)
        _checks.require(high >= 1, "correction.high", "a number >= 1", self.high)

    def weight(self, mismatch: Array) -> Array:
        """The mismatch, or 0 outside."""
        return jnp.where((mismatch >= self.low) & (mismatch <= self.high), mismatch, 0)
