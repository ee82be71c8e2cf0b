"""Jitted functions that depend on numbers such as the steps of a run: only the programs used last are kept."""

from collections.abc import Callable, Hashable
from functools import update_wrapper
from inspect import signature
from typing import Any

import jax

from bandit_lab.simulation.programs import MOST, Kept


class _Jitted:
    """A function with static arguments; every choice of them is a jitted function of its own, freed as a whole."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...], most: int) -> None:
        self._signature, self._static = signature(function), static
        self._dynamic = tuple(name for name in self._signature.parameters if name not in static)
        self.programs = Kept(self._build, most)
        self._function = function
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._signature.bind(*args, **kwargs).arguments
        program = self.programs(*(given[name] for name in self._static))
        return program(*(given[name] for name in self._dynamic))

    def _build(self, *chosen: Hashable) -> Any:
        fixed = dict(zip(self._static, chosen, strict=True))

        def program(*arguments: Any) -> Any:
            return self._function(**fixed, **dict(zip(self._dynamic, arguments, strict=True)))

        program.__name__ = self._function.__name__
        return jax.jit(program)


def bounded_jit(*static: str, most: int = MOST) -> Callable[[Callable[..., Any]], _Jitted]:
    """`jax.jit` with static arguments, of which the programs of the `most` last used choices are kept."""
    return lambda function: _Jitted(function, static, most)
