"""Help texts, written from the schemas so that they cannot drift apart from the settings."""

import json
import textwrap
from typing import Any

from bandit_lab import __version__
from bandit_lab.study import plugins
from bandit_lab.study.quantities import explain
from bandit_lab.study.settings.config import GROUPS, SCHEMAS, default_of, described, variants_on_disk
from bandit_lab.study.terminal.commands import COMMANDS

_GROUP_DEFAULTS = {
    "bandit": "two_arm",
    "advantage": "grpo",
    "estimator": "frozen",
    "staleness": "refresh",
    "optimizer": "sgd",
    "kl_estimator": "exact",
}


def overview() -> str:
    """What `python -m bandit_lab` prints."""
    lines = [
        f"bandit_lab {__version__}: dynamics of GRPO on softmax bandits, simulated and predicted.",
        "",
        "usage: python -m bandit_lab <command> [key=value ...] [-m] [--help]",
        "",
        "commands:",
        *(f"  {name:<10}{command.summary}" for name, command in COMMANDS.items()),
        "",
        "Exit codes: 0 done, 1 done but for parts that failed (null in the results, with the reason), 2 bad input,",
        "3 interrupted, or the disk is full; after 1 and 3 the command that continues or runs it again is printed.",
    ]
    return "\n".join(lines)


def command_help(name: str) -> str:
    """What `python -m bandit_lab <command> --help` prints."""
    command = COMMANDS[name]
    lines = [
        f"bandit_lab {name}: {command.summary}",
        "",
        command.notes,
        "",
        f"usage: python -m bandit_lab {name} {'[path ...] ' if command.paths else ''}[key=value ...]",
        *(
            []
            if command.reads
            else [
                "       -m key=a,b   one run per value, in folders of run_dir named after the values, and one table over them"
            ]
        ),
        "       --cfg job    print the settings and stop        --hydra-help   Hydra's own options",
        "",
        "settings (default, unit):",
    ]
    for key, entry in described(SCHEMAS[name]):
        default, unit = _default_text(key, default_of(entry)), entry.metadata["unit"]
        lines.append(f"  {key:<24} {default}{f', {unit}' if unit else ''}")
        lines.append(f"  {'':<24}   {entry.metadata['help']}")
        if key in GROUPS:
            lines += _one_of(key)
    if name == "predict":
        lines += ["", *explain()]
    lines += ["", "example:", f"  {command.example}"]
    return "\n".join(lines)


def _default_text(key: str, default: Any) -> str:
    return _GROUP_DEFAULTS[key] if key in GROUPS else json.dumps(default).replace('"', "")


def _one_of(group: str) -> list[str]:
    """The variants of a group: its files in `conf/`, one per variant of ours, and what plug-ins brought."""
    names = sorted({*variants_on_disk(group), *(plugins.registries()[group] if plugins.loaded() else ())})
    names += ["any of optax by name"] if group == "optimizer" else []
    return textwrap.wrap(f"one of: {', '.join(names)}", 116, initial_indent=" " * 29, subsequent_indent=" " * 37)
