"""Signatures and documentation of the functions, made from the settings of the commands: they cannot drift apart."""

import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator
from dataclasses import Field, fields
from typing import Any, TypeVar

from bandit_lab.app.settings.config import CHOICES, SCHEMAS
from bandit_lab.app.settings.schema import SECTIONS, by_section, default_of, is_name
from bandit_lab.app.terminal import choices

F = TypeVar("F", bound=Callable[..., Any])
_WIDTH = 100
_IN_PYTHON: dict[str, Any] = {"cache": None, "open": False}
"""Defaults that differ from those of the command line."""
_WORDS = {"null: outputs/<command>/<date>_<time>": "None: nothing is written", "null": "None"}
_ANY = re.compile("|".join(map(re.escape, _WORDS)))


def with_settings(command: str, only: Collection[str] | None = None, but: Collection[str] = ()) -> Callable[[F], F]:
    """Decorator of a function whose `**settings` are those of a command: gives it their signature and documentation.

    only: the settings that the function takes; None: all. but: those that it sets itself.
    """

    def dress(function: F) -> F:
        own = [one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
        apart = {one.name for one in own} | {*but}
        known = [
            one.name for one in fields(SCHEMAS[command]) if one.name not in apart and (not only or one.name in only)
        ]
        kept = {
            section: [(key, entry) for key, entry in settings if key.partition(".")[0] in known]
            for section, settings in by_section(SCHEMAS[command]).items()
        }
        keywords = {key.partition(".")[0]: entry for settings in kept.values() for key, entry in settings}
        nested = {key.partition(".")[0] for settings in kept.values() for key, _ in settings if "." in key}
        parameters = [_parameter(name, None if name in nested else entry) for name, entry in keywords.items()]
        signature = inspect.signature(function).replace(parameters=[*own, *parameters])
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", *_told(kept)])
        return function

    return dress


def _parameter(name: str, entry: "Field[Any] | None") -> inspect.Parameter:
    """A keyword with its default; entry: None for a dictionary of settings."""
    default = {} if entry is None else _default(name, entry)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)


def _default(name: str, entry: "Field[Any]") -> Any:
    return _IN_PYTHON[name] if name in _IN_PYTHON else entry.metadata.get("variant", default_of(entry))


def _told(kept: "dict[str, list[tuple[str, Field[Any]]]]") -> Iterator[str]:
    """The settings by section: default, unit and meaning in a line; a dotted one is a key of a dictionary."""
    yield "Settings, with default and [unit]:"
    for section, settings in kept.items():
        if settings:
            yield from ("", f"  {SECTIONS[section]}:")
        for key, entry in settings:
            unit = entry.metadata["unit"]
            grouped = key in CHOICES and not is_name(entry)
            known = f"; one of {', '.join(entry.metadata['names'] or choices.names_of(key))}" if grouped else ""
            head = f"{key} = {_default(key, entry)!r}{f' [{unit}]' if unit and not grouped else ''}"
            line = f"{head}: {_ANY.sub(lambda word: _WORDS[word[0]], entry.metadata['help'])}{known}"
            yield from textwrap.wrap(line, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
