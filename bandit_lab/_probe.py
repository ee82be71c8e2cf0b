"""A first look at a variant from outside the package: does every method give what its interface says, before any work.

Shapes are those of an abstract evaluation, so that nothing is computed; a few numbers are then looked at. Whatever is
wrong is one ValueError: the method, what was expected, what was got, and where in the user's file.
"""

import difflib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bandit_lab._checks import LONGEST, described


def attempt(method: str, expected: str, call: Callable[[], Any]) -> Any:
    """What `call` gives. Raises ValueError for whatever it raises."""
    try:
        return call()
    except Exception as error:
        raise ValueError(f"{method}: expected {expected}, got {described(error)}") from error


def shaped(method: str, axes: str, shape: tuple[int, ...], function: Callable[..., Any], *arguments: Any) -> None:
    """Raise ValueError unless `function` of these arguments is an array of floating numbers of this shape.

    axes: how the interface names the shape, `[X, K]`.
    """
    expected = f"an array {axes} = {list(shape)}" if shape else "a number"
    found = attempt(method, expected, lambda: jax.eval_shape(function, *arguments))
    if not hasattr(found, "shape"):
        got = (
            "None (nothing is returned, or nothing defined under this name)" if found is None else type(found).__name__
        )
        raise ValueError(f"{method}: expected {expected}, got {got}")
    if found.shape != shape:
        hint = " (is a [None] missing?)" if found.shape == shape[1:] else ""
        raise ValueError(f"{method}: expected {expected}, got {list(found.shape)}{hint}")
    if not jax.numpy.issubdtype(found.dtype, jax.numpy.floating):
        raise ValueError(f"{method}: expected floating numbers, got {found.dtype}")


def finite(method: str, found: Any) -> np.ndarray:
    """`found` as an array. Raises ValueError unless all of it is finite."""
    numbers = np.asarray(found)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{method}: expected finite numbers, got {shortened(numbers)}")
    return numbers


def an_array(name: str, found: Any, axes: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """`found` as an array. Raises ValueError unless it is one of finite floating numbers of this shape (None: any)."""
    named = axes.strip("[]").split(", ")
    lengths = ", ".join(letter if n is None else str(n) for letter, n in zip(named, shape, strict=True))
    expected = f"an array {axes}" + (f" = [{lengths}]" if any(n is not None for n in shape) else "")
    if not isinstance(found, jax.Array | np.ndarray):
        raise ValueError(f"{name}: expected {expected}, got {type(found).__name__}")
    if len(found.shape) != len(shape) or any(n not in (None, m) for n, m in zip(shape, found.shape, strict=True)):
        raise ValueError(f"{name}: expected {expected}, got {list(found.shape)}")
    if not jax.numpy.issubdtype(found.dtype, jax.numpy.floating):
        raise ValueError(f"{name}: expected floating numbers, got {found.dtype}")
    return finite(name, found)


def sums_to_one(name: str, chances: np.ndarray) -> None:
    """Raise ValueError unless chances [..., K] add up to 1 along the last axis (to 1e-6) and none is negative."""
    totals = chances.sum(axis=-1)
    if not (np.all(np.abs(totals - 1) < 1e-6) and np.all(chances >= 0)):
        raise ValueError(f"{name}: expected probabilities that add up to 1, got {shortened(chances)}")


def hashable(variant: Any) -> None:
    """Raise ValueError unless a variant can be a static argument."""
    attempt("class", "a frozen dataclass of numbers and names (hashable)", lambda: hash(variant))


def defined(variant: Any, interface: type, name: str) -> None:
    """Raise ValueError if a method is still the empty one of the interface, naming what looks like a misspelling."""
    if getattr(type(variant), name, None) is getattr(interface, name):
        own = [n for n in dir(type(variant)) if not n.startswith("_") and n not in dir(interface)]
        close = difflib.get_close_matches(name, own, n=1)
        got = f"none ({close[0]} looks like it)" if close else "none"
        raise ValueError(f"{name}: expected a method of this name in {type(variant).__name__}, got {got}")


def shortened(numbers: np.ndarray) -> str:
    """The numbers, cut off where they are many."""
    text = str(np.round(numbers, 6).tolist())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
