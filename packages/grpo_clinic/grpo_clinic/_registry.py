"""Registries: every reader, trainer or rule by name, wherever its file is."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from grpo_clinic import _checks

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Registry(dict[str, Callable[..., T]], Generic[T]):
    """Builders of one kind by name. kind: how errors name it (`reader`)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[F], F]:
        """Decorator of a class or function that builds one; gives it back unchanged.

        Raises ValueError for a name that is no lower-case identifier, or that another module has taken.
        """
        valid = isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None
        _checks.require(valid, f"{self.kind} name", "lower-case letters, digits and _", name)

        def keep(builder: F) -> F:
            old = self.get(name)
            if old is not None and old.__module__ != builder.__module__:
                raise ValueError(
                    f"{self.kind} {name}: expected one definition, got two: {old.__module__} and {builder.__module__}"
                )
            self[name] = builder
            return builder

        return keep

    def is_outside(self, name: str) -> bool:
        """Whether it comes from outside the package."""
        return not f"{self[name].__module__}.".startswith("grpo_clinic.")


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module of a package whose name has no leading underscore, so that what they define is registered."""
    for module in pkgutil.walk_packages(path, f"{package}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
