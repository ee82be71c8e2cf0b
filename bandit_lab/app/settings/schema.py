"""One setting of a command: default, unit and help text; schema, checks and help are made from it.

And the settings that commands share because one shell runs them all: where a run is written, what is imported first.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any


def setting(default: Any, unit: str, text: str) -> Any:
    """A dataclass field; lists and mappings are copied for each instance."""
    metadata = {"unit": unit, "help": text}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(default: str, text: str, names: Sequence[str] = ()) -> Any:
    """A field that holds one variant of a group: `name` and the variant's options. default: the variant's name.

    names: the variants that the command takes; none: all.
    """
    metadata = {"unit": "group", "help": text, "variant": default, "names": tuple(names)}
    return field(default_factory=lambda: {"name": default}, metadata=metadata)


@dataclass
class ShellSettings:
    """What every command understands."""

    quiet: bool = setting(False, "", "no progress on stderr, where it appears only on a terminal")


@dataclass
class RunSettings(ShellSettings):
    """What every command understands that writes a run folder."""

    plugins: list[str] = setting([], "modules", "Python modules to import first; they may register variants")
    run_dir: str | None = setting(None, "path", "run folder; null: outputs/<command>/<date>_<time>")
    overwrite: bool = setting(False, "", "replace a finished run in run_dir")


def setting_fields(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, Field[Any]]]:
    """(dotted key, field) of every setting of a schema, in order."""
    for entry in fields(schema):
        if entry.default_factory is not MISSING and isinstance(entry.default_factory, type):
            yield from setting_fields(entry.default_factory, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry


def listed(schema: type[Any]) -> list[tuple[str, Field[Any]]]:
    """(dotted key, field) of every setting; a command's own stand before those that it shares with others."""
    owners = [inspect.get_annotations(one) for one in schema.__mro__]
    place = {name: number for number, names in reversed(list(enumerate(owners))) for name in names}
    return sorted(setting_fields(schema), key=lambda one: place[one[0].partition(".")[0]])


def default_of(entry: Field[Any]) -> Any:
    """Default value of a setting."""
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default
