"""Variants that are given as objects: a bandit that was built, an advantage, the function that builds one."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bandit_lab._registry import Registry
from bandit_lab.app.settings.config import GROUPS

GIVEN = "given"
"""The name under which an object stands that is not registered."""


@contextlib.contextmanager
def by_name(keywords: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Inside, every object among the keywords stands under a name; yields the keywords with names and options.

    Raises:
      ValueError: an object that is not registered beside `run_dir`, whose configuration could not say what it is.
    """
    objects = {group: value for group in GROUPS if not _is_setting(value := keywords.get(group))}
    with contextlib.ExitStack() as stack:
        named = dict(keywords)
        if objects:
            from bandit_lab.app.plugins import registries

            known = registries()
            for group, value in objects.items():
                named[group] = _setting(known[group], value) or _standing(stack, known[group], value)
                if named[group] == GIVEN and keywords.get("run_dir") is not None:
                    got = f"an object, {type(value).__name__}"
                    raise ValueError(f"{group}: expected the name of a registered variant beside run_dir, got {got}")
        yield named


def in_double(array: Any) -> Any:
    """An array of numbers; one in single or half precision as the doubles that print the same: 0.1 stays 0.1."""
    plain = np.asarray(array)
    return plain.astype(str).astype(np.float64) if plain.dtype in (np.float32, np.float16) else plain


def _is_setting(value: Any) -> bool:
    return value is None or isinstance(value, str | Mapping)


def _setting(registry: Registry[Any], value: Any) -> str | dict[str, Any] | None:
    """The name of a registered builder; name and options of what a registered class made; None for anything else."""
    for name in registry:
        if registry[name] is value:
            return name
        if registry[name] is type(value):
            return {"name": name} | {option: getattr(value, option) for option in registry.defaults(name)}
    return None


def _standing(stack: contextlib.ExitStack, registry: Registry[Any], value: Any) -> Any:
    """The name under which the object stands until the stack is left; what is no variant is given back."""
    if not registry.needs or isinstance(value, type) or not all(hasattr(value, name) for name in registry.needs):
        return value
    if registry.kind == "bandit" and value.reference_log_policy.dtype != np.float64:
        value = _doubled(value)

    def builder() -> Any:
        return value

    builder.__module__, builder.__wrapped__ = type(value).__module__, type(value)  # type: ignore[attr-defined]
    builder.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    stack.enter_context(registry.standing(GIVEN, builder))
    return GIVEN


def _doubled(bandit: Any) -> Any:
    """A bandit that was built in single precision, as JAX builds by default, in double: there everything is predicted.

    Its reference policy adds up to 1 again.
    """
    import jax

    made = jax.tree.map(lambda leaf: jax.numpy.asarray(in_double(leaf)), bandit)
    return replace(made, reference_log_policy=jax.nn.log_softmax(made.reference_log_policy))
