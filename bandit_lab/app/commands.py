"""The commands, by name, and their help. A command is a module that is imported when the command is called.

For developers. A new command is one entry in COMMANDS, `conf/<command>.yaml`, one schema in `config.SCHEMAS`, whose
docstring is its help, and a module `bandit_lab.lab.<command>.command` with

- `prepare(settings, explicit) -> plan`: every check of every setting, no work and nothing written; `explicit` holds the
  keys that were given on the command line. Raises ValueError (name, expected, got);
- `compute(plan, progress) -> Result`: the work, a function that knows neither of the terminal nor of a run folder;
  `runner.done` does what is around it. A command whose work is to write (`sweep`, `reproduce`, `explore`) has
  `execute(plan, folder, progress) -> Result | None` for its folder, None where nothing was left to do.
"""

import inspect
import json
import textwrap
from typing import NamedTuple

from bandit_lab.app.settings.config import SCHEMAS, listed
from bandit_lab.app.settings.names import NAMES
from bandit_lab.app.version import __version__

WIDTH = 110


class _Command(NamedTuple):
    """What one command does beside its `compute`.

    `paths` names the setting that plain arguments go to, if the command takes any. `continues` says that the command
    goes on with an unfinished run. With `reads`, what it writes is no run. With `chunked`, its run is kept piece by
    piece, and `figures_of(data)` of its module gives the pictures of a stored one. Both have `check_folder(plan,
    folder)`, which raises ValueError where the folder holds something else.
    """

    paths: str = ""
    continues: bool = False
    reads: bool = False
    chunked: bool = False

    @property
    def writes(self) -> bool:
        """Whether its module has `execute`, for a folder."""
        return self.continues or self.reads


COMMANDS = {
    "sweep": _Command(continues=True, chunked=True),
    "predict": _Command(),
    "explore": _Command("paths", reads=True),
    "reproduce": _Command("figures", continues=True),
    "check": _Command(),
}


def overview() -> str:
    """Text of `python -m bandit_lab`."""
    lines = [
        f"bandit_lab {__version__}: when does GRPO become unstable, and how far from that is a run of yours?",
        "",
        "usage: python -m bandit_lab <command> [key=value ...]      -m: one run per value of key=a,b",
        "",
        *(f"  {name:<10} {_about(name)[0]}" for name in COMMANDS),
        "",
        *(_about(name)[-1] for name in ("predict", "sweep")),
        "",
        "<command> --help: its settings      --cfg job: the settings as composed      --hydra-help: Hydra's",
        "Exit codes: 0 done; 1 done but for parts that failed; 2 bad input; 3 interrupted, or a full disk.",
    ]
    return "\n".join(lines)


def help_of(name: str) -> str:
    """Text of `python -m bandit_lab <command> --help`: examples, then every setting with default, unit and meaning."""
    lines = [*_about(name), ""]
    for key, entry, usual in listed(SCHEMAS[name]):
        default = entry.metadata.get("variant") or json.dumps(usual).replace('"', "")
        unit = f" [{entry.metadata['unit']}]" if entry.metadata["unit"] not in ("", "group") else ""
        names = entry.metadata.get("names") or NAMES.get(key, ())
        text = f"{entry.metadata['help']}{unit}{': ' if names else ''}{', '.join(names)}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=f"  {f'{key}={default} ':<30}",
                               subsequent_indent=" " * 32, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)


def _about(name: str) -> list[str]:
    """One line of what a command does, how, and two examples."""
    return str(inspect.getdoc(SCHEMAS[name])).splitlines()
