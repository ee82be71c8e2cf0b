"""Registries: every reader or rule by name, wherever its file is."""

import re
from collections.abc import Callable
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
