"""Help texts, written from the schemas and the variants' docstrings so that they cannot drift apart from them."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import Field
from typing import Any

from bandit_lab._names import did_you_mean
from bandit_lab._version import __version__
from bandit_lab.app.settings.config import CHOICES, GROUPS, SCHEMAS
from bandit_lab.app.settings.schema import SECTIONS, by_section, default_of, is_name, setting_fields
from bandit_lab.app.terminal import choices
from bandit_lab.app.terminal.commands import COMMANDS
from bandit_lab.lab.predict.quantities import explain

WIDTH = 120
SCREEN = 100
"""Columns of the short help, which fits one screen."""


_PLAIN = {"paths": "[path ...] ", "figures": "[NAME ...] "}
"""Settings that plain arguments go to -> how the usage shows them."""


def overview() -> str:
    """Text of `python -m bandit_lab`."""
    lines = [
        f"bandit_lab {__version__}: when does GRPO become unstable, and how far from that is a run of yours?",
        "",
        "usage: python -m bandit_lab <command> [key=value ...]",
        "",
        "examples:",
        f"  {COMMANDS['predict'].example}",
        f"  {COMMANDS['sweep'].example}",
        "",
        "commands (<command> --help: a screen on it; <command> --help all: every setting):",
        *(line for name, command in COMMANDS.items() for line in _beside(f"  {name}", command.summary, 12)),
        "",
        'completion in bash: eval "$(bandit-lab -sc install=bash)"; zsh and fish: the page "The command line"',
        "--help GROUP: every variant of a group of settings with its options. The groups:",
        f"  {', '.join(GROUPS)}",
        "",
        "Exit codes: 0 done; 1 done but for parts that failed; 2 bad input; 3 interrupted, or a full disk.",
        "After 1 and 3 the command that goes on is printed.",
    ]
    return "\n".join(lines)


def topic_help(command: str | None, topic: str) -> str | None:
    """Text of `--help <topic>`: a command, a group of settings, or one setting of a command; None if unknown."""
    if command is None and topic in COMMANDS:
        return short_help(topic)
    if command is not None and topic == "all":
        return command_help(command)
    known = {key: entry for name in [command] if name for key, entry in setting_fields(SCHEMAS[name])}
    if topic in CHOICES and (command is None or (topic in known and not is_name(known[topic]))):
        return group_help(topic, known[topic].metadata["names"] if command else ())
    chosen = [(key, entry) for key, entry in known.items() if key == topic or key.startswith(f"{topic}.")]
    return "\n".join(line for key, entry in chosen for line in _setting(key, entry)) if chosen else None


def topics(command: str | None, topic: str) -> str:
    """Topics that may stand behind `--help`, and those that `topic` is near to."""
    if command is None:
        near = did_you_mean(topic, [*COMMANDS, *GROUPS])
        return f"a command ({', '.join(COMMANDS)}) or a group of settings ({', '.join(GROUPS)}){near}"
    near = did_you_mean(topic, (key for key, _ in setting_fields(SCHEMAS[command])))
    return f"a setting of {command}{near or f' (`{command} --help all` lists them)'}"


def short_help(name: str) -> str:
    """Text of `python -m bandit_lab <command> --help`: one screen, with the settings that matter."""
    command, known = COMMANDS[name], dict(setting_fields(SCHEMAS[name]))
    many = [] if command.reads else ["-m key=a,b   one run per value, in folders named after it; one table over all"]
    lines = [
        *textwrap.wrap(f"bandit_lab {name}: {command.summary}", SCREEN),
        "",
        *textwrap.wrap(command.notes, SCREEN),
        "",
        "examples:",
        f"  {command.example}",
        f"  {command.further}",
        "",
        f"settings that matter, of {len(known)} (key=default [unit]):",
        *(line for key in command.matter.split() for line in _short_setting(key, known[key])),
        "",
        *many,
        "--help all   every setting, with units and variants      --help KEY   one of them",
        "--cfg job    print the settings and stop",
    ]
    return "\n".join(lines)


def _short_setting(key: str, entry: Field[Any]) -> list[str]:
    text, unit = entry.metadata["help"], entry.metadata["unit"]
    if key in CHOICES and not is_name(entry):
        text = f"{text.partition(';')[0]} ({', '.join(_variants_taken(key, entry))})"
    elif unit:
        text = f"{text} [{unit}]"
    return _beside(f"  {key}={_default_text(entry)}", text, 26)


def _beside(head: str, text: str, margin: int) -> list[str]:
    first = f"{head} ".ljust(margin)
    return textwrap.wrap(text, SCREEN, initial_indent=first, subsequent_indent=" " * margin, break_on_hyphens=False)


def _variants_taken(group: str, entry: Field[Any]) -> Sequence[str]:
    return entry.metadata["names"] or choices.names_of(group)


def command_help(name: str) -> str:
    """Text of `python -m bandit_lab <command> --help all`: the examples first, then the settings by section."""
    command, many = COMMANDS[name], "-m key=a,b   one run per value, in folders named after it; one table over all"
    lines = [
        f"bandit_lab {name}: {command.summary}",
        "",
        "examples:",
        f"  {command.example}",
        f"  {command.further}",
        "",
        f"usage: python -m bandit_lab {name} {_PLAIN.get(command.paths, '')}[key=value ...]",
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
    return lines if key not in CHOICES or is_name(entry) else lines + _one_of(key, entry)


def _default_text(entry: Field[Any]) -> str:
    return entry.metadata.get("variant") or json.dumps(default_of(entry)).replace('"', "")


def _one_of(group: str, entry: Field[Any]) -> list[str]:
    """Every choice of a group in one line."""
    lines = [_named(name, choices.line_of(group, name)) for name in _variants_taken(group, entry)]
    if group == "optimizer" and not entry.metadata["names"]:
        lines.append(_named("adam, ...", "any optimiser of optax by its name (--help optimizer lists them)"))
    return [line for part in lines for line in part]


def _named(name: str, text: str) -> list[str]:
    return textwrap.wrap(f"{name:<15} {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 20)


def group_help(group: str, taken: Sequence[str] = ()) -> str:
    """Text of `--help <group>`: every variant with its documentation, options, their defaults and meaning.

    taken: the variants that the command takes; none: all.
    """
    users = [name for name, schema in SCHEMAS.items() if group in schema.__dataclass_fields__]
    entry = dict(setting_fields(SCHEMAS[users[0]]))[group]
    quick = "predict" if "predict" in users else users[0]
    other = " (check: see --cfg job)" if "check" in users else ""
    lines = [
        f"{group}: {entry.metadata['help']}",
        "",
        "example:",
        f"  python -m bandit_lab {quick} {_example(group, entry.metadata['variant'])}",
        "",
        f"setting of {', '.join(users)}; default {entry.metadata['variant']}{other}",
    ]
    for name in taken or choices.names_of(group):
        text = choices.documentation(group, name) or choices.line_of(group, name)
        lines += ["", name, textwrap.indent(text, "    ", lambda line: bool(line.strip())), *_options(group, name)]
    return "\n".join([*lines, *(_optax() if group == "optimizer" and not taken else [])])


def _example(group: str, default: str) -> str:
    """A variant other than the default, with its first option where it has one."""
    others = ["adam"] * (group == "optimizer") + [name for name in choices.names_of(group) if name != default]
    having = [(name, option) for name in others for option in choices.options_of(group, name)[:1]]
    simple = [(name, option) for name, option in having if option[1] and not set(option[1]) & set("[]() '{}")]
    chosen, given = simple[0] if simple and group != "bandit" else (others[0], None)
    option = f" {given[0]}={given[1]}" if given and given[1] != "null" else ""
    return f"{group}={chosen}{option}"


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
