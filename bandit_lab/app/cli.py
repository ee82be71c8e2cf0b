"""The command line: Hydra composes the settings of a command, the command works, and a mistake is one line."""

import os
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab._checks import one_of, visible
from bandit_lab.app import plugins
from bandit_lab.app.settings.config import check_sweepable, config_dir
from bandit_lab.app.terminal.commands import COMMANDS, help_of, overview
from bandit_lab.app.terminal.interrupt import interruptible
from bandit_lab.app.terminal.output import Stopped, bad_input, lost, one_line, ready, say, tell
from bandit_lab.app.version import __version__

OK, INCOMPLETE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 parts failed, 2 bad input, 3 interrupted; our own failures raise (1 too)."""
    ready()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        return _said(overview())
    if arguments[0] == "--version":
        return _said(__version__)
    if arguments[0] == "-sc":
        return _completed(arguments)
    command, *rest = arguments
    if command not in COMMANDS:
        return _complain("bandit_lab", f"command: expected {one_of(command, COMMANDS)}, got {command!r}")
    if {"-h", "--help"} & set(rest):
        return _said(help_of(command))
    return _guarded(command, rest)


def _completed(arguments: list[str]) -> int:
    """What a shell asks for while a line is typed: the commands, then what Hydra gives for the line's command."""
    line = os.environ.get("COMP_LINE", "")
    command = next((word for word in line.split()[1:] if word in COMMANDS), None)
    if command is None and arguments[-1].startswith("query="):
        return _said("\n".join(COMMANDS))
    os.environ["COMP_LINE"] = line.replace(f" {command}", "", 1)
    return _guarded(command or "sweep", arguments)


def _guarded(command: str, rest: list[str]) -> int:
    """Run a command; turn bad input and interruption into one line and an exit code."""
    job = _Job(command)
    who = f"bandit_lab {command}"
    try:
        with interruptible(lambda: f"{who}: interrupted, no finished run; {_again(job, rest)}"):
            with bad_input():
                overrides = _overrides(command, rest)
            job.run(overrides)
    except KeyboardInterrupt:  # `interruptible` has said so
        return INTERRUPTED
    except Stopped as error:
        code, message = (INCOMPLETE, f"{error}") if error.ended else (INTERRUPTED, f"{error}, no finished run")
        return _complain(who, f"{message}; {_again(job, rest, error.ended)}", code)
    except Exception as error:
        text = one_line(error, command)
        if text is None and plugins.named(rest):
            text = (
                f"plugins: expected variants that keep the rules (`check` names them), got {_checks.described(error)}"
            )
        if text is None or os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        return _complain(who, text)
    if (reason := lost()) is None:
        return OK
    where = "" if job.folder is None else f": {job.folder}"
    return _complain(who, f"stdout: cannot be written ({reason}); the run is finished{where}", INCOMPLETE)


def _again(job: "_Job", rest: list[str], ended: bool = False) -> str:
    """`run it again with: ...`; with overwrite=true where a run that `ended` is made anew in its folder. Never
    where that would throw away what is finished."""
    continues = COMMANDS[job.command].continues
    arguments = [argument for argument in rest if not argument.startswith("overwrite=")]
    if job.folder is not None and not any(one.startswith("run_dir=") for one in arguments):
        arguments = [*arguments, f"run_dir={job.folder}"]
    again = shlex.join(arguments if continues or not ended else [*arguments, "overwrite=true"])
    what = "what is finished is kept, continue it" if continues else "run it again"
    return f"{what} with: python -m bandit_lab {job.command} {again}".rstrip()


def _overrides(command: str, rest: list[str]) -> list[str]:
    """The arguments as Hydra takes them: plain ones are put into the command's list of them. Raises ValueError."""
    paths, result, plain = COMMANDS[command].paths, [], []
    for before, argument in zip(["", *rest], rest, strict=False):
        option = argument.startswith("-") or (before.startswith("-") and before not in ("-m", "--multirun", "-v"))
        if argument == "-v":
            result.append("verbose=true")
        elif not option and paths and "=" not in argument:
            plain.append(argument)
        else:
            result.append(argument if option else _override(argument))
    return [*result, *([f"{paths}=[{','.join(map(repr, plain))}]"] if plain else [])]


def _override(argument: str) -> str:
    """An override: keys that no schema knows may be added. Complains about sweeping what is not traced."""
    group, _, key = argument.lstrip("+").partition("=")[0].partition(".")
    if group == "sweep" and key:
        check_sweepable(key.partition(".")[0])
    if argument.startswith(("sweep.", "optimizer.options.")):
        return f"++{argument}"
    return argument


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
        several = bool({"-m", "--multirun"} & set(overrides))
        if given:
            self.folder = Path(given[-1].strip("'\""))
        elif several or COMMANDS[self.command].writes:
            self.folder = runner.default_folder(self.command)
        own = [f"hydra.sweep.dir='{self.folder}'"] if several else []
        with bad_input():
            _checks.require(not several or not COMMANDS[self.command].reads, "option", "one run folder", "-m")
            plugins.load_for_hydra(self.command, overrides)
            _with_hydra(self.command, [*overrides, *own], self._task)
        if self.error is not None:
            raise self.error
        if several:
            say(str(self.folder))

    def _task(self, config: Any) -> None:
        """Hydra calls this for each run. Errors are kept, so that Hydra prints nothing of its own.

        Where a launcher took the run to another process, they go back through Hydra.
        """
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        from bandit_lab.app import runner

        if self.error is not None and not (isinstance(self.error, Stopped) and self.error.ended):
            return
        try:
            of_hydra = HydraConfig.get()
            several = of_hydra.mode == RunMode.MULTIRUN
            folder = Path(of_hydra.sweep.dir, str(of_hydra.job.num)) if several else self.folder
            explicit = frozenset(one.lstrip("+~").split("=", 1)[0] for one in of_hydra.overrides.task)
            runner.run(self.command, config, explicit, folder)
        except BaseException as error:
            if (socket.gethostname(), os.getpid()) != self.process:
                raise
            self.error = error


def _with_hydra(name: str, arguments: Sequence[str], task: Callable[[Any], None]) -> None:
    """`hydra.main` with these arguments.

    Raises:
      HydraException, OmegaConfBaseException: an unknown key, a value of the wrong type (`errors.one_line` reads them).
      ValueError: what Hydra cannot compose at all.
    """
    import hydra
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException

    def called(config: Any) -> None:
        task(config)

    GlobalHydra.instance().clear()
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["bandit-lab", *arguments], "1"  # else it prints and exits itself
    try:
        hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=name)(called)()
    except HydraException:
        raise
    except (OSError, RecursionError, AttributeError, TypeError) as error:
        got = f"{type(error).__name__}: {str(error)[:80]}"
        raise ValueError(f"settings: expected values that can be composed, got {got}") from error
    finally:
        sys.argv = before
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]


def _said(text: str) -> int:
    say(text)
    reason = lost()
    return OK if reason is None else _complain("bandit_lab", f"stdout: cannot be written ({reason})", INCOMPLETE)


def _complain(who: str, text: str, code: int = BAD_INPUT) -> int:
    tell(f"{who}: {visible(text)}")
    return code
