"""Optimisers: two conventions of the heavy ball, and every optax optimiser by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import optax

from bandit_lab import _checks
from bandit_lab._types import Array


def _sgd(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """Heavy ball, v <- mu v + g, theta <- theta + eta v (the form of PyTorch and optax)."""
    return optax.chain(optax.trace(decay=momentum), optax.scale_by_learning_rate(learning_rate))


def _sgd_ema(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """Heavy ball on an exponential average, v <- mu v + (1 - mu) g: every stiffness is multiplied by 1 - mu."""
    return optax.chain(optax.ema(decay=momentum, debias=False), optax.scale_by_learning_rate(learning_rate))


def _nesterov(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """v <- mu v + g, theta <- theta + eta (mu v + g)."""
    return optax.chain(optax.trace(decay=momentum, nesterov=True), optax.scale_by_learning_rate(learning_rate))


_OWN: dict[str, Callable[..., optax.GradientTransformation]] = {"sgd": _sgd, "sgd_ema": _sgd_ema, "nesterov": _nesterov}
_MOMENTUM_NAMES = ("momentum", "b1", "beta1")


def optimizer_names() -> list[str]:
    """The names that `Optimizer` knows: ours first, then those of optax that need nothing but a learning rate."""
    return [*_OWN, *sorted(name for name in dir(optax) if name not in _OWN and _parameters(name) is not None)]


def _parameters(name: str) -> Mapping[str, inspect.Parameter] | None:
    """Parameters of optax's function of that name if it builds an optimiser from a learning rate, else None."""
    function = getattr(optax, name, None)
    if name.startswith("_") or not inspect.isfunction(function):
        return None
    parameters = inspect.signature(function).parameters
    required = [p for p, v in parameters.items() if v.default is v.empty and v.kind not in (v.VAR_KEYWORD,)]
    return parameters if required == ["learning_rate"] else None


@dataclass(frozen=True)
class Optimizer:
    """One optimiser by name, with its learning rate and momentum left open so that both can be traced.

    name: `sgd` (heavy ball), `sgd_ema`, `nesterov`, or an optax optimiser that can be built from a learning rate
      (`adam`, `adamw`, `rmsprop`, ...), whose momentum is the argument called momentum, b1 or beta1 if it has one.
    options: further keyword arguments, as a tuple of pairs, so that the dataclass stays hashable.

    Raises:
      ValueError: unknown name (the known ones are listed) or unknown option.
    """

    name: str = "sgd"
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        _checks.choice("optimizer.name", self.name, optimizer_names())
        known = [] if self.name in _OWN else [p for p in _parameters(self.name) or () if p != "learning_rate"]
        for option, _ in self.options:
            _checks.require(bool(known), "optimizer.options", f"none for {self.name}", option)
            _checks.choice("optimizer.options", option, known)

    @property
    def convention(self) -> str:
        """How momentum enters: `heavy_ball`, `ema`, `nesterov`, or the optimiser's own name. It changes the law."""
        return {"sgd": "heavy_ball", "sgd_ema": "ema"}.get(self.name, self.name)

    @property
    def elementwise(self) -> bool:
        """Whether every component is updated alike and by itself, so that arrays of any shape may be given."""
        return self.name in (*_OWN, "adam", "adamw")

    def build(self, learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
        """The transformation for gradients of a loss (to be minimised); both arguments may be traced scalars."""
        if self.name in _OWN:
            return _OWN[self.name](learning_rate, momentum)
        options = dict(self.options)
        for argument in _MOMENTUM_NAMES:
            if argument in (_parameters(self.name) or ()):
                options.setdefault(argument, momentum)
                break
        return getattr(optax, self.name)(learning_rate, **options)
