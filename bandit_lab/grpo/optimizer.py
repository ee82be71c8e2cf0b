"""Optimisers: the heavy ball in three conventions, your own, and every optax optimiser by name."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from bandit_lab import _checks
from bandit_lab._checks import attempt
from bandit_lab._registry import Registry, place_of
from bandit_lab._types import Array

OPTIMIZERS: Registry[Any] = Registry("optimizer", given=("learning_rate", "momentum"))
"""For developers. A new optimiser is a function `(learning_rate, momentum, **options) -> optax.GradientTransformation`
under `@register_optimizer("its_name")`, here or in a module of yours. Both arguments
may be traced; gradients are those of a loss (to be minimised)."""
register_optimizer = OPTIMIZERS.register


@register_optimizer("sgd")
def sgd(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """Heavy ball, v <- mu v + g, theta <- theta + eta v (the form of PyTorch and optax)."""
    return optax.chain(optax.trace(decay=momentum), optax.scale_by_learning_rate(learning_rate))


@register_optimizer("sgd_ema")
def sgd_ema(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """Heavy ball on an exponential average, v <- mu v + (1 - mu) g: every stiffness is multiplied by 1 - mu."""
    return optax.chain(optax.ema(decay=momentum, debias=False), optax.scale_by_learning_rate(learning_rate))


@register_optimizer("nesterov")
def nesterov(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """v <- mu v + g, theta <- theta + eta (mu v + g)."""
    return optax.chain(optax.trace(decay=momentum, nesterov=True), optax.scale_by_learning_rate(learning_rate))


_LINEAR = ("sgd", "sgd_ema", "nesterov")
_ELEMENTWISE = ("sgd", "sgd_ema", "nesterov", "adam", "adamw")
_MOMENTUM_NAMES = ("momentum", "b1", "beta1")
_MOMENTUM_OF = {"signum": "beta"}  # of another name; elsewhere `beta` is something else

REFUSED = {
    "lbfgs": "its line search asks for the loss at every step",
    "polyak_sgd": "its step is the loss over the squared gradient",
    "noisy_sgd": "it draws noise from a key of its own, the same in every run",
}
"""Optimisers that optax exports and that cannot be used here: nothing but the gradient of an update is known, and each
run has its own random numbers."""


def optimizer_names() -> list[str]:
    """The names that `Optimizer` knows: ours first, then all that optax exports, less `REFUSED`."""
    return [*OPTIMIZERS, *sorted(n for n in dir(optax) if n not in OPTIMIZERS and _parameters(n) is not None)]


def _parameters(name: str) -> Mapping[str, inspect.Parameter] | None:
    """Parameters of optax's function of that name if it builds an optimiser from a learning rate, else None.

    The function may be a `functools.partial` (nadam), and the learning rate may have a default (adadelta). What is
    called `scale_by_...` is a part of an optimiser, without its sign.
    """
    function: Any = getattr(optax, name, None)
    builds = inspect.isfunction(function) or isinstance(function, partial)
    if not builds or name in REFUSED or name.startswith(("_", "scale_by_")):
        return None
    parameters = inspect.signature(function).parameters
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    required = {p for p, v in parameters.items() if v.default is v.empty and v.kind not in kinds}
    return parameters if "learning_rate" in parameters and required <= {"learning_rate"} else None


def _momentum_of(name: str) -> str | None:
    """What an optimiser of optax calls its momentum, or None if it has none."""
    parameters = _parameters(name) or {}
    names = (_MOMENTUM_OF.get(name, ""), *_MOMENTUM_NAMES)
    return next((argument for argument in names if argument in parameters), None)


@dataclass(frozen=True)
class Optimizer:
    """One optimiser by name, with its learning rate and momentum left open so that both can be traced.

    name: a registered one (`sgd`, the heavy ball, `sgd_ema`, `nesterov`), or an optax optimiser that can be built from
      a learning rate (`adam`, `nadamw`, `rmsprop`, ...). Its momentum is the argument called momentum, b1 or beta1
      (`signum`: beta), if it has one.
    options: further keyword arguments, as a tuple of pairs, so that the dataclass stays hashable.

    Raises:
      ValueError: unknown name (the known ones are listed), one of `REFUSED` (with the reason) or unknown option.
    """

    name: str = "sgd"
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        own = self.name in OPTIMIZERS
        if not own and self.name in REFUSED:
            expected = f"an optimiser that needs the gradient alone ({self.name}: {REFUSED[self.name]})"
            _checks.require(False, "optimizer.name", expected, self.name)
        _checks.choice("optimizer.name", self.name, optimizer_names())
        every = OPTIMIZERS.defaults(self.name) if own else _parameters(self.name) or ()
        options = [name for name in every if name != "learning_rate"]
        for option, _ in self.options:
            _checks.require(bool(options), "optimizer.options", f"none for {self.name}", option)
            _checks.choice("optimizer.options", option, options)
        if own and OPTIMIZERS.is_outside(self.name):
            self._tried()
        elif own and self.options:
            self.build(jnp.asarray(0.1), jnp.asarray(0.5))

    def _tried(self) -> optax.GradientTransformation:
        """The transformation at some ordinary numbers. Raises ValueError for what a user's function raises."""
        where = f"optimizer {self.name}, {place_of(OPTIMIZERS[self.name])}"
        numbers = jnp.asarray(0.1), jnp.asarray(0.5)
        built = attempt(where, "an optax.GradientTransformation", lambda: self.build(*numbers))
        may_be_traced = "a learning rate that may be traced (a warm-up is a schedule of learning_rate)"
        attempt(
            where, may_be_traced, lambda: jax.eval_shape(lambda *traced: (self.build(*traced), traced)[1], *numbers)
        )
        return built

    @property
    def convention(self) -> str:
        """The form of momentum: `heavy_ball`, `ema`, `nesterov`, or the optimiser's own name. It changes the law."""
        return {"sgd": "heavy_ball", "sgd_ema": "ema"}.get(self.name, self.name)

    @property
    def divides(self) -> bool:
        """True if it may divide a gradient by its own size; assumed of optimisers that are not listed here.

        Single precision rounds an exact zero, as in a silent group, to 1e-9: that becomes a step.
        """
        return self.name not in _LINEAR

    @property
    def elementwise(self) -> bool:
        """True if every component is updated alike and by itself, so that arrays of any shape may be given."""
        return self.name in _ELEMENTWISE

    def build(self, learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
        """The transformation for gradients of a loss (to be minimised); both arguments may be traced scalars."""
        options = dict(self.options)
        if self.name in OPTIMIZERS:
            return OPTIMIZERS[self.name](learning_rate, momentum, **options)
        if (argument := _momentum_of(self.name)) is not None:
            options.setdefault(argument, momentum)
        return getattr(optax, self.name)(learning_rate, **options)
