"""Help texts, written from the schemas and the variants' docstrings so that they cannot drift apart from them."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import Field
from typing import Any

from bandit_lab._version import __version__
from bandit_lab.study.quantities import explain
from bandit_lab.study.settings.config import GROUPS, SCHEMAS
from bandit_lab.study.settings.schema import SECTIONS, by_section, default_of, setting_fields
from bandit_lab.study.terminal import choices
from bandit_lab.study.terminal.commands import COMMANDS

WIDTH = 120


def overview() -> str:
    """What `python -m bandit_lab` prints."""
    lines = [
        f"bandit_lab {__version__}: dynamics of GRPO on softmax bandits, simulated and predicted.",
        "",
        "usage: python -m bandit_lab <command> [key=value ...] [-m] [--help]",
        "       python -m bandit_lab --help <command>, or a group of settings, all variants and their options:",
        f"           {', '.join(GROUPS)}",
        "",
        "commands:",
        *(f"  {name:<10}{command.summary}" for name, command in COMMANDS.items()),
        "",
        "Exit codes: 0 done, 1 done but for parts that failed (null in the results, with the reason), 2 bad input,",
        "3 interrupted, or the disk is full; after 1 and 3 the command that continues or runs it again is printed.",
    ]
    return "\n".join(lines)


def topic_help(command: str | None, topic: str) -> str | None:
    """What `--help <topic>` prints: a command, a group of settings, or one setting of a command; None if unknown."""
    if command is None and topic in COMMANDS:
        return command_help(topic)
    known = {key: entry for name in [command] if name for key, entry in setting_fields(SCHEMAS[name])}
    if topic in GROUPS and (command is None or topic in known):
        return group_help(topic)
    chosen = [(key, entry) for key, entry in known.items() if key == topic or key.startswith(f"{topic}.")]
    return "\n".join(line for key, entry in chosen for line in _setting(key, entry)) if chosen else None


def topics(command: str | None) -> str:
    """What may stand behind `--help`."""
    if command is None:
        return f"a command ({', '.join(COMMANDS)}) or a group of settings ({', '.join(GROUPS)})"
    return f"a setting of {command} (`{command} --help` lists them)"


def command_help(name: str) -> str:
    """What `python -m bandit_lab <command> --help` prints: the example first, then the settings by section."""
    command, many = COMMANDS[name], "-m key=a,b   one run per value, in folders named after it; one table over all"
    lines = [
        f"bandit_lab {name}: {command.summary}",
        "",
        "example:",
        f"  {command.example}",
        "",
        f"usage: python -m bandit_lab {name} {'[path ...] ' if command.paths else ''}[key=value ...]",
        *([] if command.reads else [f"       {many}"]),
        "       --cfg job    print the settings and stop        --hydra-help   Hydra's own options",
        "       --help KEY   one setting; of a group (bandit, advantage, ...) every variant with its options",
        "",
        command.notes,
        "",
        "settings (default, unit):",
    ]
    for section, settings in by_section(SCHEMAS[name]).items():
        lines += ["", f"{section}: {SECTIONS[section]}"]
        lines += [line for key, entry in settings for line in _setting(key, entry)]
    if name == "predict":
        lines += ["", *explain()]
    return "\n".join(lines)


def _setting(key: str, entry: Field[Any]) -> list[str]:
    default, unit = _default_text(entry), entry.metadata["unit"]
    lines = [f"  {key:<24} {default}{f', {unit}' if unit else ''}", f"  {'':<24}   {entry.metadata['help']}"]
    return lines + _one_of(key) if key in GROUPS else lines


def _default_text(entry: Field[Any]) -> str:
    return entry.metadata.get("variant") or json.dumps(default_of(entry)).replace('"', "")


def _one_of(group: str) -> list[str]:
    """Every choice of a group in one line."""
    names = choices.names_of(group)
    lines = [_named(name, choices.line_of(group, name)) for name in names]
    more = [_named("adam, ...", "any optimiser of optax by its name (--help optimizer lists them)")]
    return [line for part in lines + (more if group == "optimizer" else []) for line in part]


def _named(name: str, text: str) -> list[str]:
    return textwrap.wrap(f"{name:<15} {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 20)


def group_help(group: str) -> str:
    """What `--help <group>` prints: every variant with its documentation, options, their defaults and meaning."""
    users = [name for name, schema in SCHEMAS.items() if group in schema.__dataclass_fields__]
    entry = dict(setting_fields(SCHEMAS[users[0]]))[group]
    lines = [
        f"{group}: {entry.metadata['help']}",
        "",
        "example:",
        f"  {_example(group, entry.metadata['variant'])}",
        "",
        f"setting of {', '.join(users)}; default {entry.metadata['variant']} (check: see --cfg job)",
    ]
    for name in choices.names_of(group):
        text = choices.documentation(group, name) or choices.line_of(group, name)
        lines += ["", name, textwrap.indent(text, "    ", lambda line: bool(line.strip())), *_options(group, name)]
    return "\n".join([*lines, *(_optax() if group == "optimizer" else [])])


def _example(group: str, default: str) -> str:
    """A variant other than the default, with its first option where it has one."""
    others = ["adam"] * (group == "optimizer") + [name for name in choices.names_of(group) if name != default]
    having = [(name, option) for name in others for option in choices.options_of(group, name)[:1]]
    simple = [(name, option) for name, option in having if option[1] and not set(option[1]) & set("[]() '{}")]
    chosen, given = simple[0] if simple and group != "bandit" else (others[0], None)
    option = f" {given[0]}={given[1]}" if given and given[1] != "null" else ""
    return f"python -m bandit_lab predict {group}={chosen}{option}"


def _options(group: str, name: str) -> list[str]:
    return [f"    {key}={value}" for key, value in choices.options_of(group, name)]


def _optax() -> Sequence[str]:
    """The optimisers of optax that have no file of ours, and those that cannot be used."""
    from bandit_lab.grpo.optimizer import REFUSED, optimizer_names

    named = [name for name in optimizer_names() if name not in choices.names_of("optimizer")]
    lines = ["", "of optax, by name, with what stands behind optimizer.options.; the setting momentum is what they",
             "call momentum, b1 or beta1 (signum: beta)"]  # fmt: skip
    for name in named:
        given = choices.options_of("optimizer", name)
        keys = ", ".join(f"{key.removeprefix('optimizer.options.')}={value}" for key, value in given)
        lines += textwrap.wrap(f"{name}: {keys}" if keys else name, WIDTH,
                               initial_indent="    ", subsequent_indent="        ")  # fmt: skip
    refused = [f"    {name}: {reason}" for name, reason in REFUSED.items()]
    return [*lines, "", "refused, with optax.contrib (register one in a file of your own: docs/extending.md)", *refused]
