"""Plain paths among the arguments of a command that takes them, and text that Hydra would read as grammar.

An argument is a path if it exists, if it cannot be `key=value`, or if it stands behind `--`. Paths and text settings
are quoted, so that `=`, spaces, quotes, `${...}` and commas in them reach the command as they are.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any

from bandit_lab._names import did_you_mean, nearest
from bandit_lab.app.plugins import as_modules
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.settings.schema import is_name, setting_fields
from bandit_lab.app.terminal.commands import COMMANDS
from bandit_lab.app.terminal.errors import BadInput, settings_of

_WITH_VALUE = frozenset(
    ("-c", "--cfg", "-p", "--package", "-cn", "--config-name", "-cp", "--config-path", "-cd", "--config-dir", "-i")
)
VERBOSE = ("-v", "--verbose")
TEXTS = ("run_dir",)
"""Settings whose value is text as it stands, whatever it holds."""
_OVERRIDE = re.compile(r"(?:\+{0,2}|~)([A-Za-z_][\w@]*)[\w.@/:]*=(.*)", re.DOTALL)


def as_overrides(command: str, arguments: Sequence[str]) -> list[str]:
    """The arguments with all plain paths put into the command's list of paths. Raises `BadInput` for odd ones."""
    key, known = COMMANDS[command].paths, SCHEMAS[command].__dataclass_fields__
    arguments = [as_modules(as_mapping(one, known)) for one in arguments]
    if "verbose" in known:
        arguments = ["verbose=true" if one in VERBOSE else one for one in arguments]
    if not key:
        return arguments
    paths, overrides = _split(command, [_listed(one) for one in arguments] if command == "reproduce" else arguments)
    if "???" in paths:
        raise BadInput(f"{key}: expected a path, got '???', Hydra's word for nothing (write ./???)")
    many = bool({"-m", "--multirun"} & set(overrides))
    result = [argument if many else _quoted_text(argument) for argument in overrides]
    if paths:
        if any(argument.startswith(f"{key}=") for argument in overrides):
            raise BadInput(f"{key}: expected plain arguments or {key}=[...], got both")
        alone = known[key].type == str | None
        if alone and len(paths) > 1:
            raise BadInput(f"{key}: expected one plain argument, got {len(paths)} ({', '.join(paths)})")
        listed = ",".join(quoted(path) for path in paths)
        result.append(f"{key}={listed}" if alone else f"{key}=[{listed}]")
    return result


def as_mapping(argument: str, known: Mapping[str, Field[Any]]) -> str:
    """`staleness=lag` as `staleness={name:lag}` where a command takes a name alone: to Hydra the key is a group."""
    key, _, value = argument.partition("=")
    if not is_name(known.get(key)) or value[:1] in ("", "{"):
        return argument
    return f"{key}={','.join(f'{{name:{one}}}' for one in value.split(','))}"


def as_setting(command: str, arguments: Sequence[str], option: str) -> str | None:
    """`refresh_interval=8` for the option in `--refresh_interval 8`, or None where no setting is meant."""
    word, _, value = option.lstrip("-").partition("=")
    key = nearest(word, settings_of(command))
    if key is None:
        return None
    switches = [name for name, entry in setting_fields(SCHEMAS[command]) if entry.type is bool]
    behind = arguments[arguments.index(option) + 1 :][:1]
    given = (one for one in behind if "=" not in one and not one.startswith("-"))
    return f"{key}={value or ('true' if key in switches else next(given, 'VALUE'))}"


def _listed(argument: str) -> str:
    """`figures=a,b` as a list: commas alone would be Hydra's choice of a multirun."""
    key, _, value = argument.partition("=")
    return (
        f"{key}=[{value}]" if key in ("figures", "formats") and "," in value and value[:1] not in "['\"" else argument
    )


def _split(command: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """(paths, everything else)."""
    paths: list[str] = []
    others: list[str] = []
    only_paths = False
    for place, argument in enumerate(arguments):
        if argument == "--" and not only_paths:
            only_paths = True
        elif only_paths or _is_path(command, argument, arguments[place - 1] if place else ""):
            paths.append(argument)
        else:
            others.append(argument)
    return paths, others


def _is_path(command: str, argument: str, before: str) -> bool:
    if argument.startswith("-") or before in _WITH_VALUE:
        return False
    override = _OVERRIDE.fullmatch(argument)
    exists = bool(argument) and "\0" not in argument and os.path.lexists(argument)
    if exists or (override is None and "=" not in argument):
        if not argument:
            raise BadInput("paths: expected a path, got ''")
        return True
    if override is None:
        return not argument.startswith("=")
    known = override[1] in SCHEMAS[command].__dataclass_fields__ or override[1] in ("hydra", "for")
    if not known and ("/" in argument or re.search(r"\.\w{2,6}$", argument)):
        near = did_you_mean(override[1], SCHEMAS[command].__dataclass_fields__)
        raise BadInput(f"paths: expected a file that exists or a setting of {command}{near}, got {argument!r}")
    return False


def _quoted_text(argument: str) -> str:
    key, equals, value = argument.partition("=")
    if not equals or key not in TEXTS or value in ("", "null") or value[:1] in "'\"{[":
        return argument
    return f"{key}={quoted(value)}"


def quoted(text: str) -> str:
    """Text as Hydra and OmegaConf give it back unchanged."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return str(QuotedString(text=uninterpolated(text), quote=Quote.single).with_quotes())


def uninterpolated(text: str) -> str:
    """Text as OmegaConf gives it back unchanged: no `${...}` is an interpolation."""
    return re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + r"\${", text)
