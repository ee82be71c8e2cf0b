"""One setting of a command: default, unit, help text and place in the help; schema, checks and help are made from it.

And the settings that commands share because one shell runs them all: where a run is written, what is imported first.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

PROBLEM, LEARNER, RUN, OUTPUT, RARE = "problem", "learner", "run", "output", "rare"
SECTIONS = {
    PROBLEM: "what it is about",
    LEARNER: "what trains, or trained",
    RUN: "how much is computed, and how well",
    OUTPUT: "what is written, and where",
    RARE: "seldom needed",
}
"""Sections of a command's help, in their order, with their meaning."""


def setting(default: Any, unit: str, text: str, section: str = RARE) -> Any:
    """A dataclass field; lists and mappings are copied for each instance. section: where it stands in the help."""
    metadata = {"unit": unit, "help": text, "section": section}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(default: str, text: str, section: str = LEARNER, names: Sequence[str] = ()) -> Any:
    """A field that holds one variant of a group: `name` and the variant's options. default: the variant's name.

    names: the variants that the command takes; none: all.
    """
    metadata = {"unit": "group", "help": text, "section": section, "variant": default, "names": tuple(names)}
    return field(default_factory=lambda: {"name": default}, metadata=metadata)


@dataclass
class ShellSettings:
    """What every command understands."""

    quiet: bool = setting(False, "", "no progress on stderr, where it appears only on a terminal")


@dataclass
class RunSettings(ShellSettings):
    """What every command understands that writes a run folder."""

    plugins: list[str] = setting([], "modules", "Python modules to import first; they may register variants")
    run_dir: str | None = setting(None, "path", "run folder; null: outputs/<command>/<date>_<time>", OUTPUT)
    overwrite: bool = setting(False, "", "replace a finished run in run_dir", OUTPUT)


def setting_fields(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, Field[Any]]]:
    """(dotted key, field) of every setting of a schema, in order."""
    for entry in fields(schema):
        if entry.default_factory is not MISSING and isinstance(entry.default_factory, type):
            yield from setting_fields(entry.default_factory, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry


def by_section(schema: type[Any]) -> dict[str, list[tuple[str, Field[Any]]]]:
    """The settings of each section that has any; a command's own stand before those that it shares with others."""
    owners = [inspect.get_annotations(one) for one in schema.__mro__]
    place = {name: number for number, names in reversed(list(enumerate(owners))) for name in names}
    ordered = sorted(setting_fields(schema), key=lambda one: place[one[0].partition(".")[0]])
    found = {section: [one for one in ordered if one[1].metadata["section"] == section] for section in SECTIONS}
    return {section: settings for section, settings in found.items() if settings}


def default_of(entry: Field[Any]) -> Any:
    """Default value of a setting."""
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default
