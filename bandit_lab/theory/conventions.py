"""The three momentum conventions, and what one block of frozen gradient does to (position, velocity).

Derived here. With u = -eta * gradient the update of the pair (x, w = eta v) is

    heavy_ball   w <- mu w + u,              x <- x + w            (PyTorch and optax form)
    ema          w <- mu w + (1 - mu) u,     x <- x + w
    nesterov     w <- mu w + u,              x <- x + u + mu w     (optax.trace with nesterov=True)

N steps with u held fixed give w -> m w + gain S u and x -> x + a w + gain P u, where

    m = mu^N,   S = (1 - mu^N)/(1 - mu),   a = mu S (nesterov: mu^2 S),   P = (N - a)/(1 - mu),

gain = 1 - mu for `ema`, else 1. Everything that the linear theory needs is in m, S, a, P.
"""

from typing import Any, Literal, NamedTuple

from bandit_lab import _checks

Convention = Literal["heavy_ball", "ema", "nesterov"]
Model = Literal["refresh", "lag", "pipeline", "random"]
CONVENTIONS: tuple[str, ...] = ("heavy_ball", "ema", "nesterov")
MODELS: tuple[str, ...] = ("refresh", "lag", "pipeline")


_SUMMED = 256
"""Longest block whose S is summed term by term: the quotient loses digits as mu nears 1."""


class BlockSums(NamedTuple):
    """Response of one block: `decay` m, `push` S, `carry` a, `drift` P (dimensionless)."""

    decay: float
    push: float
    carry: float
    drift: float


def gain(momentum: Any, convention: str) -> Any:
    """Factor of the gradient in the velocity: 1 - mu for `ema`, else 1. `momentum` may be traced."""
    return 1.0 - momentum if convention == "ema" else 1.0


def block_sums(refresh_interval: int, momentum: float, convention: str = "heavy_ball") -> BlockSums:
    """m, S, a, P of a block of `refresh_interval` steps, for unit gain. Derived in this module."""
    n, mu = int(refresh_interval), float(momentum)
    decay = mu**n
    push = sum(mu**j for j in range(n)) if n <= _SUMMED else (1.0 - decay) / (1.0 - mu)
    carry = mu * push * (mu if convention == "nesterov" else 1.0)
    return BlockSums(decay, push, carry, (n - carry) / (1.0 - mu))


def mean_age(model: str, refresh_interval: float) -> float:
    """Mean age [steps] of the policy used: (N-1)/2 for `refresh`, N for `lag` and `random`, (3N-1)/2 for `pipeline`.

    Raises ValueError for an unknown model.
    """
    _checks.choice("model", model, (*MODELS, "random"))
    if model == "refresh":
        return (refresh_interval - 1) / 2
    return (3 * refresh_interval - 1) / 2 if model == "pipeline" else float(refresh_interval)


def check_loop(model: str, refresh_interval: int, momentum: float, convention: str) -> None:
    """Raises ValueError unless model, interval (>= 1; `lag`: >= 0), momentum in [0, 1) and convention are valid."""
    _checks.choice("staleness", model, MODELS)
    _checks.choice("convention", convention, CONVENTIONS)
    _checks.integer("refresh_interval", _plain(refresh_interval), 0 if model == "lag" else 1)
    _checks.momentum("momentum", _plain(momentum))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
