"""Compiled programs that depend on numbers such as the steps of a run: only the last used ones are kept.

JAX keeps every program of a jitted function for as long as the function lives, about 10 MB each. A process that runs
many lengths would grow by that with every one of them.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, update_wrapper
from inspect import signature
from threading import Lock
from typing import Any

import jax

MOST = 32
"""Values of the static arguments per function. A sweep comes back to a length only while it is at work on its rows."""


class Kept:
    """build(*key), made once for each of the `most` keys that were used last."""

    def __init__(self, build: Callable[..., Any], most: int = MOST) -> None:
        self._cached, self._lock = lru_cache(maxsize=most)(build), Lock()
        update_wrapper(self, build)

    def __call__(self, *key: Hashable) -> Any:
        with self._lock:  # calls from several threads would build, and then compile, the same key twice
            return self._cached(*key)

    def __len__(self) -> int:
        """How many are kept."""
        return self._cached.cache_info().currsize


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
