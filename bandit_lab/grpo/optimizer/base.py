"""One optimiser by name: of the registry, or of optax."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import optax

from bandit_lab import _checks
from bandit_lab._registry import Registry
from bandit_lab._types import Array

OPTIMIZERS: Registry[Any] = Registry("optimizer", given=("learning_rate", "momentum"))
"""For developers. A new optimiser is a function `(learning_rate, momentum, **options) -> optax.GradientTransformation`
under `@register_optimizer("its_name")`, in a file of this folder (with `conf/optimizer/its_name.yaml`) or a module of
yours. Both arguments may be traced; gradients are those of a loss (to be minimised)."""
register_optimizer = OPTIMIZERS.register

_ELEMENTWISE = ("sgd", "sgd_ema", "nesterov", "adam", "adamw")
_MOMENTUM_NAMES = ("momentum", "b1", "beta1")


def optimizer_names() -> list[str]:
    """The names that `Optimizer` knows: ours first, then those of optax that need nothing but a learning rate."""
    return [*OPTIMIZERS, *sorted(n for n in dir(optax) if n not in OPTIMIZERS and _parameters(n) is not None)]


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

    name: a registered one (`sgd`, the heavy ball, `sgd_ema`, `nesterov`), or an optax optimiser that can be built from
      a learning rate (`adam`, `adamw`, `rmsprop`, ...), whose momentum is the argument called momentum, b1 or beta1 if
      it has one.
    options: further keyword arguments, as a tuple of pairs, so that the dataclass stays hashable.

    Raises:
      ValueError: unknown name (the known ones are listed) or unknown option.
    """

    name: str = "sgd"
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        _checks.choice("optimizer.name", self.name, optimizer_names())
        own = self.name in OPTIMIZERS
        every = OPTIMIZERS.defaults(self.name) if own else _parameters(self.name) or ()
        known = [name for name in every if name != "learning_rate"]
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
        return self.name in _ELEMENTWISE

    def build(self, learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
        """The transformation for gradients of a loss (to be minimised); both arguments may be traced scalars."""
        options = dict(self.options)
        if self.name in OPTIMIZERS:
            return OPTIMIZERS[self.name](learning_rate, momentum, **options)
        for argument in _MOMENTUM_NAMES:
            if argument in (_parameters(self.name) or ()):
                options.setdefault(argument, momentum)
                break
        return getattr(optax, self.name)(learning_rate, **options)
