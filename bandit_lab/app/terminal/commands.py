"""The commands, by name, and their help. A command is a module that is imported when the command is called.

For developers. A new command is one entry in COMMANDS, one schema in `config.SCHEMAS`, and a module with

- `prepare(settings, explicit) -> plan`: every check of every setting, no work and nothing written; `explicit` holds the
  keys that were given on the command line. Raises ValueError (name, expected, got);
- `compute(plan, progress) -> Result`: the work, a function that knows neither of the terminal nor of a run folder;
  `runner.perform` does what is around it. A command whose work is to write (`sweep`, `reproduce`, `explore`) has
  `execute(plan, folder, progress) -> Result | Path` for its folder.
"""

import importlib
import json
import textwrap
from typing import Any, NamedTuple

from bandit_lab.app.settings.config import SCHEMAS, listed
from bandit_lab.app.settings.names import NAMES
from bandit_lab.app.version import __version__

WIDTH = 110


class _Command(NamedTuple):
    """One command: the module that does it, one line for the list, notes and two examples for its help.

    `paths` names the setting that plain arguments go to, if the command takes any. `continues` says that the command
    goes on with an unfinished run. With `reads`, the command makes no run folder. With `chunked`, its module also has
    `check_folder(plan, folder)`, which raises ValueError where the folder holds another run, and `figures_of(data)`,
    the pictures of a stored one.
    """

    module: str
    summary: str
    notes: str
    example: str
    further: str
    paths: str = ""
    continues: bool = False
    reads: bool = False
    chunked: bool = False

    @property
    def writes(self) -> bool:
        """Whether its module has `execute`, for a folder."""
        return self.continues or self.reads

    def load(self) -> Any:
        """The module (imports JAX)."""
        return importlib.import_module(self.module)


COMMANDS = {
    "sweep": _Command(
        "bandit_lab.lab.sweep.command",
        "measures the stability threshold: a grid of training runs, the theory beside it",
        "Without arguments: two arms, model A, refresh intervals 1..64, 64 learning rates across the threshold,\n"
        "momenta 0 and 0.9. An axis that is not swept keeps these values, unless its plain key is given\n"
        "(learning_rate=0.1 runs that rate alone). After an interruption, a kill or a full disk the same command\n"
        "with the same run_dir goes on. What fails is null in the results with its reason (exit 1).",
        "python -m bandit_lab sweep staleness=lag 'sweep.refresh_interval=[1,2,4,8]' momentum=0.9",
        "python -m bandit_lab sweep -m group_size=8,64 seeds=256",
        continues=True,
        chunked=True,
    ),
    "predict": _Command(
        "bandit_lab.lab.predict.command",
        "closed-form and exact predictions for one setting, no simulation",
        "A verdict in words, then the fixed point, its stiffness, the oscillator, the thresholds and the noise.\n"
        "Unstable refresh intervals are searched up to 1,024 (lag with a fresh part of the stiffness: 128).",
        "python -m bandit_lab predict refresh_interval=8 momentum=0.9 learning_rate=0.1 group_size=16",
        "python -m bandit_lab predict -m staleness=refresh,lag,pipeline refresh_interval=8",
    ),
    "explore": _Command(
        "bandit_lab.lab.explore.command",
        "the stability map as one HTML page: drag the point, see threshold and runs move",
        "Writes one file that needs no network, and opens it. The plain argument, a sweep's folder, shows its\n"
        "measured thresholds. The settings say where the page begins.",
        "python -m bandit_lab explore staleness=lag refresh_interval=4 run_dir=my_map open=false",
        "python -m bandit_lab explore outputs/sweep/my_run",
        "paths",
        reads=True,
    ),
    "reproduce": _Command(
        "bandit_lab.lab.reproduce.command",
        "the figures of the papers and of the lab, with every claim's prediction and verdict",
        "Each figure is one file in experiments/ with its numbers in conf/experiment/. Without arguments: all of them\n"
        "as drafts. Measurements are kept in the cache until the code or a setting changes, and after an interruption\n"
        "the same command goes on. A figure that cannot run here is skipped with its reason; one that fails (exit 1)\n"
        "does not stop the others.",
        "python -m bandit_lab reproduce two_detectors quality=paper publish=outputs/figures",
        "python -m bandit_lab reproduce phase_diagram transition",
        "figures",
        continues=True,
    ),
    "check": _Command(
        "bandit_lab.lab.check.command",
        "the conformance suite for a variant: yours before you rely on it, or ours",
        "Checks all that 'plugins=[my_module]' registers and every variant that is chosen (bandit=my_bandit); without\n"
        "either, all variants, which takes minutes. Sampling against exact means, derivatives against differences,\n"
        "stiffness by three routes, growth of displaced runs, compilations, precision, settings. Exit 1 if one fails.",
        "python -m bandit_lab check bandit=gaussian advantage=rloo",
        "python -m bandit_lab check 'plugins=[my_module]'",
    ),
}


def overview() -> str:
    """Text of `python -m bandit_lab`."""
    lines = [
        f"bandit_lab {__version__}: when does GRPO become unstable, and how far from that is a run of yours?",
        "",
        "usage: python -m bandit_lab <command> [key=value ...]      -m: one run per value of key=a,b",
        "",
        *(f"  {name:<10} {command.summary}" for name, command in COMMANDS.items()),
        "",
        f"  {COMMANDS['predict'].example}",
        f"  {COMMANDS['sweep'].example}",
        "",
        "<command> --help: its settings      --cfg job: the settings as composed      --hydra-help: Hydra's",
        "Exit codes: 0 done; 1 done but for parts that failed; 2 bad input; 3 interrupted, or a full disk.",
    ]
    return "\n".join(lines)


def help_of(name: str) -> str:
    """Text of `python -m bandit_lab <command> --help`: examples, then every setting with default, unit and meaning."""
    command = COMMANDS[name]
    lines = [f"bandit_lab {name}: {command.summary}", "", command.notes, "", f"  {command.example}",
             f"  {command.further}", ""]  # fmt: skip
    for key, entry, usual in listed(SCHEMAS[name]):
        default = entry.metadata.get("variant") or json.dumps(usual).replace('"', "")
        unit = f" [{entry.metadata['unit']}]" if entry.metadata["unit"] not in ("", "group") else ""
        names = entry.metadata.get("names") or NAMES.get(key, ())
        text = f"{entry.metadata['help']}{unit}{': ' if names else ''}{', '.join(names)}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=f"  {f'{key}={default} ':<30}",
                               subsequent_indent=" " * 32, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)
