"""What a result holds, asked for by name: `found.thresholds.learning_rate.exact`."""

from collections.abc import Iterable
from typing import Any

from bandit_lab._names import did_you_mean


class Named(dict[str, Any]):
    """A dictionary whose keys are attributes too. A key that is named like a method of dictionaries is a subscript."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(missing(name, self))
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


def parts(value: Any) -> Any:
    """Nested dictionaries and lists, with every dictionary a `Named`."""
    if isinstance(value, dict):
        return Named({key: parts(one) for key, one in value.items()})
    return [parts(one) for one in value] if isinstance(value, list) else value


def missing(name: object, known: Iterable[str]) -> str:
    """The line for a name that a result does not have."""
    names = list(known)
    return f"result: expected one of {', '.join(names) or 'none'}{did_you_mean(str(name), names)}, got {name!r}"
