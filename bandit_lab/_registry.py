"""Registries: every variant of one kind by name, wherever its file is.

A variant is registered by the file that defines it, `@register_bandit("gaussian")`. Packages import their own modules
(`import_modules`), so that a new built-in variant is one new file; a user's modules and entry points are imported by
the command line.
"""

import contextlib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from bandit_lab import _checks

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Builders of one kind of variant by name; iterates over the names, sorted.

    kind: how errors and settings name it (`bandit`). needs: names that every built variant must have. given: arguments
    of a builder that are no options: where there are any, the variant is the builder itself with its options filled in.
    base: the class whose defaults a variant gets for what it leaves out without inheriting. `imported` are the
    registries of all rooms that have been imported.
    """

    imported: ClassVar["list[Registry[Any]]"] = []

    def __init__(
        self,
        kind: str,
        needs: Iterable[str] = (),
        given: Iterable[str] = (),
        base: type | None = None,
    ) -> None:
        self.kind, self.base = kind, base
        self.needs = tuple(needs)
        self.given = tuple(given)
        self._builders: dict[str, Callable[..., T]] = {}
        Registry.imported.append(self)

    def register(self, name: str) -> Callable[[F], F]:
        """Decorator of a class or function that builds the variant; gives it back unchanged.

        Raises:
          ValueError: a name that is no lower-case identifier, something that cannot be called, a name that is taken
            (both places are named).
        """
        valid = isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None
        _checks.require(valid, f"{self.kind} name", "lower-case letters, digits and _", name)

        def keep(builder: F) -> F:
            _checks.require(callable(builder), f"{self.kind} {name}", "a class or a function", builder)
            old = self._builders.get(name)
            if old is not None and place_of(old) != place_of(builder):
                raise ValueError(
                    f"{self.kind} {name}: expected one definition, got two: {place_of(old)} and {place_of(builder)}"
                )
            self._builders[name] = builder
            return builder

        return keep

    @contextlib.contextmanager
    def standing(self, name: str, builder: Callable[..., T]) -> Iterator[None]:
        """Inside, a variant stands under this name; afterwards the name is unknown again."""
        self._builders[name] = builder
        try:
            yield
        finally:
            del self._builders[name]

    def __getitem__(self, name: str) -> Callable[..., T]:
        """The builder. Raises ValueError that lists the known names."""
        return self._builders[_checks.choice(self.kind, name, sorted(self._builders))]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._builders))

    def __len__(self) -> int:
        return len(self._builders)

    def __contains__(self, name: object) -> bool:
        return name in self._builders

    def defaults(self, name: str) -> dict[str, Any]:
        """The options of a builder with their defaults; `inspect.Parameter.empty` where there is none."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = inspect.signature(self[name]).parameters.items()
        return {key: p.default for key, p in parameters if p.kind in named and key not in self.given}

    def option(self, name: str, key: str) -> str:
        """The name of an option: one variant is chosen; those with `given` arguments are all used."""
        return f"{self.kind}.{name}.{key}" if self.given else f"{self.kind}.{key}"

    def build(self, name: str, options: Mapping[str, Any]) -> T:
        """The variant with these options.

        Raises:
          ValueError: unknown name; unknown or missing option; an option that is not of its default's kind (number,
            list of numbers, text, true or false); what the builder raises; a variant that lacks what its kind needs.
            Of a variant from outside the package also whatever else its builder raises.
        """
        defaults = self.defaults(name)
        for key in options:
            _checks.require(bool(defaults), self.option(name, key), f"no options of {name}", options[key])
            _checks.choice(self.option(name, key), key, defaults)
        for key, default in defaults.items():
            given = key in options or default is not inspect.Parameter.empty
            _checks.require(given, self.option(name, key), "a value", None)
            if key in options:
                _check_kind(self.option(name, key), options[key], default)
        variant: Any = partial(self[name], **options) if self.given else self._made(name, options)
        defined = dir(variant)  # a property that fails is there
        missing = [part for part in self.needs if part not in defined]
        expected = f"something with {', '.join(self.needs)}"
        if missing:
            got = f"{type(variant).__name__} without {', '.join(missing)} from {place_of(self[name])}"
            raise ValueError(f"{self.kind} {name}: expected {expected}, got {got}")
        for part, default in vars(self.base).items() if self.base else ():
            if part not in defined and not part.startswith("_"):
                setattr(type(variant), part, default)
        return variant

    def _made(self, name: str, options: Mapping[str, Any]) -> T:
        """The built variant. Errors of a user's builder get their place, unless they are lines like ours."""
        try:
            return self[name](**options)
        except Exception as error:
            like_ours = isinstance(error, ValueError) and ": expected " in str(error)
            if like_ours or not self.is_outside(name):
                raise
            where, got = f"{self.kind} {name}, {place_of(self[name])}", _checks.described(error)
            raise ValueError(f"{where}: expected one built from its options, got {got}") from error

    def is_outside(self, name: str) -> bool:
        """Whether a variant comes from outside the package."""
        return not f"{self[name].__module__}.".startswith("bandit_lab.")


def _check_kind(name: str, value: Any, default: Any) -> None:
    if isinstance(default, bool):
        _checks.require(isinstance(value, bool), name, "true or false", value)
    elif isinstance(default, int | float):
        _checks.finite_number(name, value)
    elif isinstance(default, str):
        _checks.require(isinstance(value, str), name, "a text", value)
    elif isinstance(default, list | tuple) and all(isinstance(item, int | float) for item in default):
        _checks.numbers(name, value)


def place_of(builder: Callable[..., Any]) -> str:
    """Where a builder is defined: `module (file:line)`."""
    module = builder.__module__
    try:
        target = inspect.unwrap(builder)
        return f"{module} ({inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]})"
    except (TypeError, OSError):
        return f"{module} ({builder})"


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import every module of a package whose name has no leading underscore, so that what they define is registered."""
    for module in pkgutil.walk_packages(path, f"{package}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
