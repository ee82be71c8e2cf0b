"""The command line: Hydra composes the settings of a command, the command works, and a mistake is one line."""

import os
import re
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab._names import nearest, one_of
from bandit_lab._text import visible
from bandit_lab._version import __version__
from bandit_lab.app import plugins
from bandit_lab.app.settings import compose
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.settings.grid import check_sweepable
from bandit_lab.app.settings.schema import setting_fields
from bandit_lab.app.terminal.commands import COMMANDS, help_of, overview
from bandit_lab.app.terminal.errors import Incomplete, Stopped, bad_input, one_line
from bandit_lab.app.terminal.interrupt import interruptible
from bandit_lab.app.terminal.output import lost, ready, say, tell

OK, INCOMPLETE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3
HELP = frozenset(("-h", "--help"))
_OF_HYDRA = re.compile(r"-m|--multirun|-c|--cfg|--resolve|-p|--package|-i|--info|--hydra-help|-sc|--shell-completion|"
                       r"-cd|--config-dir|-cp|--config-path|-cn|--config-name|-r|--run")  # fmt: skip
_WITH_VALUE = ("-c", "--cfg", "-p", "--package", "-cd", "--config-dir", "-cp", "--config-path", "-cn", "--config-name")
_SHOWN = ("job", "hydra", "all")
_OPEN = re.compile(r"(sweep|optimizer\.options)\.\w+")
"""Settings that take keys which no schema knows."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 parts failed, 2 bad input, 3 interrupted; our own failures raise (1 too)."""
    ready()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in HELP:
        return _said(overview())
    if arguments[0] == "--version":
        return _said(__version__)
    command, *rest = arguments
    if command not in COMMANDS:
        return _complain("bandit_lab", f"command: expected {one_of(command, COMMANDS)}, got {command!r}")
    if HELP & set(rest):
        return _said(help_of(command))
    return _guarded(command, rest)


def _guarded(command: str, rest: list[str]) -> int:
    """Run a command; turn bad input and interruption into one line and an exit code."""
    full_error = os.environ.get("HYDRA_FULL_ERROR") == "1"
    job = _Job(command)
    who = f"bandit_lab {command}"
    try:
        with interruptible(lambda: f"{who}: interrupted, no finished run; {_again(job, rest)}"):
            with bad_input():
                overrides = overrides_of(command, rest)
            job.run(overrides)
    except KeyboardInterrupt:  # `interruptible` has said so
        return INTERRUPTED
    except Stopped as error:
        return _complain(who, f"{error}, no finished run; {_again(job, rest)}", INTERRUPTED)
    except Incomplete as error:
        return _complain(who, f"{error}; {_again(job, rest, ended=True)}", INCOMPLETE)
    except Exception as error:
        text = one_line(error, command)
        if text is None and plugins.named(rest):
            text = (
                f"plugins: expected variants that keep the rules (`check` names them), got {_checks.described(error)}"
            )
        if text is None or full_error:
            raise
        return _complain(who, text)
    if (reason := lost()) is None:
        return OK
    return _complain(who, f"stdout: cannot be written ({reason}); the run is finished: {job.folder}", INCOMPLETE)


def _again(job: "_Job", rest: list[str], ended: bool = False) -> str:
    """`run it again with: ...`; overwrite=true where all of a run that `ended` is made anew, as it is in its folder,
    and not where it would throw away what is finished."""
    continues = COMMANDS[job.command].continues
    kept = [argument for argument in rest if not argument.startswith("overwrite=")]
    if job.folder is not None and not any(one.startswith("run_dir=") for one in kept):
        kept = [*kept, f"run_dir={job.folder}"]
    again = shlex.join(kept if continues or not ended else [*kept, "overwrite=true"])
    what = "what is finished is kept, continue it" if continues else "run it again"
    return f"{what} with: python -m bandit_lab {job.command} {again}".rstrip()


def overrides_of(command: str, rest: list[str]) -> list[str]:
    """The arguments as Hydra takes them: plain ones are put into the command's list of them. Raises ValueError."""
    key, result, plain = COMMANDS[command].paths, [], []
    for place, argument in enumerate(rest):
        behind = rest[place - 1] if place else ""
        if behind in ("-c", "--cfg"):
            _checks.choice("--cfg", argument, _SHOWN)
        if argument in ("-v", "--verbose") and "verbose" in SCHEMAS[command].__dataclass_fields__:
            result.append("verbose=true")
        elif behind in _WITH_VALUE:
            result.append(argument)
        elif argument.startswith("-"):
            known = _OF_HYDRA.fullmatch(argument.partition("=")[0]) is not None
            near = nearest(
                argument.lstrip("-").partition("=")[0], [name for name, _ in setting_fields(SCHEMAS[command])]
            )
            meant = f"{near}=VALUE" if near else "key=value, -m, --cfg job, --help or --hydra-help"
            _checks.require(known, "option", meant, argument)
            result.append(argument)
        elif "=" in argument or not key:
            result.append(_override(argument))
        else:
            plain.append(argument)
    if plain:
        listed = ",".join(f"'{one}'" for one in plain)
        result.append(f"{key}=[{listed}]")
    return result


def _override(argument: str) -> str:
    """An override; complains about sweeping what is not traced, and about code of somebody's choice."""
    if swept := re.match(r"\+{0,2}sweep\.(\w+)(.*)", argument, re.DOTALL):
        check_sweepable(swept[1])
    if re.search(r"\d{4000}", argument):  # Python refuses to read it, inside Hydra's parser
        raise ValueError(f"override: expected a number of fewer than 4,000 digits, got {argument[:40]}...")
    if re.match(r"[+~]*hydra[./].*_target_=", argument):
        raise ValueError(f"hydra: expected an installed plug-in by its name, hydra/sweeper=NAME, got {argument}")
    return f"++{argument}" if _OPEN.match(argument) else plugins.as_modules(argument)


class _Job:
    """One call of a command: one run, or with -m several."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.folder: Path | None = None
        self.error: BaseException | None = None
        self.process = (socket.gethostname(), os.getpid())

    def run(self, overrides: list[str]) -> None:
        """Have Hydra compose the settings, and run the command with them, or show what is asked for."""
        from bandit_lab.app import runner

        given = [one.partition("=")[2] for one in overrides if one.startswith("run_dir=")]
        self.folder = Path(given[-1].strip("'\"")) if given else runner.default_folder(self.command)
        several = bool({"-m", "--multirun"} & set(overrides)) or "hydra.mode=MULTIRUN" in overrides
        with bad_input():
            _checks.require(not several or not COMMANDS[self.command].reads, "option", "one run folder", "-m")
            plugins.load_for_hydra(overrides, _config_dir(overrides))
        own = [f"hydra.sweep.dir='{self.folder}'"] if several else []
        with bad_input():
            compose.with_hydra(self.command, [*overrides, *own], self._task)
        if self.error is not None:
            raise self.error
        if several:
            say(str(self.folder))

    def _task(self, config: Any) -> None:
        """What Hydra calls for each run. Errors are kept, so that Hydra prints nothing of its own.

        Where a launcher took the run to another process, they go back through Hydra.
        """
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        from bandit_lab.app import runner

        if self.error is not None and not isinstance(self.error, Incomplete):
            return
        try:
            of_hydra = HydraConfig.get()
            assert self.folder is not None
            several = of_hydra.mode == RunMode.MULTIRUN
            folder = Path(of_hydra.sweep.dir, str(of_hydra.job.num)) if several else self.folder
            runner.run(self.command, config, explicit_keys(of_hydra.overrides.task), folder)
        except BaseException as error:
            if (socket.gethostname(), os.getpid()) != self.process:
                raise
            self.error = error


def _config_dir(overrides: Sequence[str]) -> str | None:
    """The user's folder of configurations, if one is given."""
    for option, value in zip(overrides, [*overrides[1:], ""], strict=False):
        name, _, own = option.partition("=")
        if name in ("-cd", "--config-dir"):
            return own or value
    return None


def explicit_keys(overrides: Sequence[str]) -> frozenset[str]:
    """The keys that were given on the command line."""
    return frozenset(argument.lstrip("+~").split("=", 1)[0] for argument in overrides)


def _said(text: str) -> int:
    say(text)
    reason = lost()
    return OK if reason is None else _complain("bandit_lab", f"stdout: cannot be written ({reason})", INCOMPLETE)


def _complain(who: str, text: str, code: int = BAD_INPUT) -> int:
    tell(f"{who}: {visible(text)}")
    return code
