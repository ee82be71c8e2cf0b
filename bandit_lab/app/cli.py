"""The command line: from arguments to a finished run folder, an exit code, and at most one line of complaint."""

import argparse
import contextlib
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bandit_lab._names import one_of
from bandit_lab._text import visible
from bandit_lab.app import plugins
from bandit_lab.app.settings import compose
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.settings.grid import check_sweepable
from bandit_lab.app.settings.schema import setting_fields
from bandit_lab.app.terminal.arguments import as_overrides, as_setting
from bandit_lab.app.terminal.commands import COMMANDS
from bandit_lab.app.terminal.errors import BadInput, Incomplete, Stopped, bad_input, is_from_config, one_line
from bandit_lab.app.terminal.interrupt import interruptible
from bandit_lab.app.terminal.output import lost, ready, say, tell

OK, INCOMPLETE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3
HELP = frozenset(("-h", "--help"))
_FORCED = re.compile(r"\+{1,2}([\w.]+)=")
_SETTINGS = frozenset(key for schema in SCHEMAS.values() for key, _ in setting_fields(schema))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 parts failed, 2 bad input, 3 interrupted; our own
    failures raise (1 too)."""
    ready()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in HELP:
        return _help(None, arguments)
    if arguments[0] == "--version":
        from bandit_lab._version import __version__

        return _say(__version__)
    if arguments[0] == "-sc":
        return _completion(arguments[1:])
    command, *overrides = arguments
    if command not in COMMANDS:
        return _complain("bandit_lab", f"command: expected {one_of(command, COMMANDS)}, got {command!r}")
    if HELP & set(overrides):
        return _help(command, overrides)
    return _guarded(command, overrides)


def _completion(arguments: list[str]) -> int:
    from bandit_lab.app.terminal import completion

    task, _, shell = "".join(arguments[:1]).partition("=")
    if shell in completion.SCRIPTS and (task, len(arguments)) == ("install", 1):
        return _say(completion.SCRIPTS[shell])
    if shell in completion.SCRIPTS and (task, len(arguments)) == ("query", 2):
        return _say("\n".join(completion.candidates(arguments[1])))
    return _complain("bandit_lab", f"-sc: expected install=bash, zsh or fish, got {shlex.join(arguments)!r}")


def _help(command: str | None, arguments: list[str]) -> int:
    """The overview, a command's help, or that of the word behind --help; with variants of plug-ins named there."""
    from bandit_lab.app.terminal import help as texts

    who = f"bandit_lab {command or ''}".rstrip()
    place = next((i for i, argument in enumerate(arguments) if argument in HELP), 0)
    topic = next((a for a in arguments[place + 1 : place + 2] if "=" not in a and not a.startswith("-")), None)
    try:
        modules = plugins.named(map(plugins.as_modules, arguments))
        if modules or ((command or topic) and plugins.announced()):
            plugins.load(modules)
        found = texts.topic_help(command, topic) if topic else None
    except ValueError as error:
        return _complain(who, str(error))
    if topic and found is None and not (command and COMMANDS[command].paths):
        return _complain(who, f"--help: expected {texts.topics(command, topic)}, got {topic!r}")
    return _say(found or (texts.short_help(command) if command else texts.overview()))


def _guarded(command: str, overrides: list[str]) -> int:
    """Run a command; turn bad input and interruption into one line and an exit code."""
    full_error = os.environ.get("HYDRA_FULL_ERROR") == "1"
    job = _Job(command)
    try:
        with interruptible(lambda: f"bandit_lab {command}: {_interrupted(job, overrides)}"):
            with bad_input():
                arguments = _parsed(command, overrides)
            job.run(arguments.options, rewritten(arguments.overrides), arguments.several)
        return _delivered(command, job)
    except KeyboardInterrupt:  # `interruptible` has said so
        return INTERRUPTED
    except Stopped as error:
        return _complain(f"bandit_lab {command}", f"{error}, no finished run; {_again(job, overrides)}", INTERRUPTED)
    except Incomplete as error:
        return _complain(f"bandit_lab {command}", f"{error}; {_again(job, overrides, ended=True)}", INCOMPLETE)
    except Exception as error:
        text = one_line(error, command)
        if text is None or full_error:
            raise
        return _complain(f"bandit_lab {command}", text)


def _parsed(command: str, arguments: list[str]) -> compose.Arguments:
    try:
        return compose.parse(as_overrides(command, arguments))
    except compose.UnknownOption as error:
        meant = as_setting(command, arguments, error.option)
        raise ValueError(f"option: expected {meant}, got {error.option!r}") if meant else error from None


def _delivered(command: str, job: "_Job") -> int:
    """The end of a command that did its work. What could not be printed is a part that failed, so 1 and not 0: who
    redirects stdout to a file must learn that it is not whole. It is not 3, since the run itself is finished."""
    reason = lost()
    if reason is None:
        return OK
    where = "" if COMMANDS[command].reads else f"; the run is finished: {job.folder}"
    return _complain(f"bandit_lab {command}", f"stdout: cannot be written ({reason}){where}", INCOMPLETE)


def _interrupted(job: "_Job", overrides: list[str]) -> str:
    return f"interrupted, no finished run; {_again(job, overrides)}"


def _again(job: "_Job", overrides: list[str], ended: bool = False) -> str:
    """`run it again with: ...`; overwrite=true where all of a run that `ended` is made anew, as it is in its folder,
    and not where it would throw away what is finished."""
    continues = COMMANDS[job.command].continues
    kept = [argument for argument in overrides if not argument.startswith("overwrite=")]
    if not COMMANDS[job.command].reads:  # else it makes no run folder
        kept = _with_run_dir(kept, job.folder)
    again = shlex.join(kept if continues or not ended else [*kept, "overwrite=true"])
    what = "what is finished is kept, continue it" if continues else "run it again"
    return f"{what} with: python -m bandit_lab {job.command} {again}".rstrip()


def rewritten(overrides: Sequence[str]) -> list[str]:
    """The overrides as Hydra wants them; complains about sweeping what is not traced."""
    result = []
    for argument in overrides:
        swept = re.match(r"\+{0,2}sweep\.(\w+)(.*)", argument, re.DOTALL)
        if swept:
            with bad_input():
                check_sweepable(swept[1])
        argument = re.sub(r"^for=", "seconds=", argument)  # no name for a setting, but the word that is meant
        open_ended = re.match(r"(sweep|optimizer\.options|options|diagnostic)\.\w+", argument)
        forced = _FORCED.match(argument)  # Hydra's + and ++ are for keys that no schema has
        plain = argument.lstrip("+") if forced and forced[1] in _SETTINGS else argument
        result.append(f"++{argument}" if open_ended else plain)
    return result


class _Job:
    """One call of a command: one run, or with -m several."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.folder: Path | None = None
        self.error: BaseException | None = None
        self.incomplete: Incomplete | None = None
        self.swept: list[str] = []
        self.process = _this_process()

    def run(self, options: argparse.Namespace, overrides: list[str], several: bool) -> None:
        """Print help or settings, or run the command, or one run per value of a multirun."""
        if COMMANDS[self.command].reads and several:
            raise BadInput(f"option: expected one run folder for {self.command}, got -m")
        if "plugins" not in SCHEMAS[self.command].__dataclass_fields__:  # no variants to choose from
            compose.register((), options.config_dir)
        else:
            with bad_input():
                named = plugins.named(overrides)
                plugins.load(named, overrides, options.config_dir)
        name = options.config_name or self.command
        if compose.shows(options):
            with _overrides_of_hydra(overrides), compose.hydra_ready(options.config_dir) as hydra:
                compose.show(hydra, options, name, overrides)
        elif several:
            self._run_several(options.config_dir, name, overrides)
        else:
            self._run_one(options.config_dir, name, overrides)

    def _run_one(self, config_dir: str | None, name: str, overrides: list[str]) -> None:
        from bandit_lab.app import runner

        with _overrides_of_hydra(overrides), compose.hydra_ready(config_dir):
            config = compose.composed(name, overrides)
        self.folder = runner.chosen_folder(self.command, config)
        runner.run(self.command, config, explicit_keys(overrides), self.folder)

    def _run_several(self, config_dir: str | None, name: str, overrides: list[str]) -> None:
        """Check every job before the first one works; then have Hydra's sweeper and launcher run them."""
        from bandit_lab.app.runner import check, default_folder
        from bandit_lab.app.terminal import multirun

        given = [a.split("=", 1)[1] for a in overrides if a.startswith("run_dir=")]
        overrides = [a for a in overrides if not a.startswith("run_dir=")]
        self.folder = Path(given[-1]) if given else default_folder(self.command)
        with _overrides_of_hydra(overrides), compose.hydra_ready(config_dir) as hydra:
            self.swept, expanded = compose.swept_keys(overrides), list(compose.expand(overrides))
            with bad_input():
                multirun.check_table(self.folder)
                jobs = multirun.jobs_of(self.swept, expanded)
            for job, own in zip(jobs, expanded, strict=True):
                check(self.command, compose.composed(name, own), explicit_keys(own), self.folder / job.name)
            try:
                compose.launch(hydra, name, overrides, self.folder, self._task)
            except Incomplete as error:  # of a job in another process
                self.incomplete = error
        if self.error is not None:
            raise self.error
        own_sweeper = any(a.startswith(("hydra/sweeper=", "hydra.sweeper")) for a in overrides)
        multirun.finish(self.command, self.folder, [] if own_sweeper else jobs)
        say(str(self.folder))
        if self.incomplete is not None:
            raise self.incomplete

    def _folder_of(self, base: Path, number: Any, overrides: Sequence[str]) -> Path:
        """The folder of one run of a multirun, in this process or in a launcher's."""
        from bandit_lab.app.terminal import multirun

        values = multirun.swept(self.swept, overrides)
        return base / (multirun.folder_name(values) if values else str(number))

    def _task(self, config: Any) -> None:
        """What Hydra calls for each job of a multirun. Errors are kept, so that Hydra prints nothing of its own; where
        a launcher took the job to another process, they go back through Hydra."""
        if self.error is not None:
            return
        try:
            from hydra.core.hydra_config import HydraConfig

            from bandit_lab.app import runner

            hydra_config = HydraConfig.get()
            overrides = list(hydra_config.overrides.task)
            folder = self._folder_of(Path(hydra_config.runtime.output_dir), hydra_config.job.num, overrides)
            runner.run(self.command, config, explicit_keys(overrides), folder)
        except BaseException as error:
            if _this_process() != self.process:
                raise
            if isinstance(error, Incomplete):  # the other runs of a multirun go on
                self.incomplete = error
            else:
                self.error = error


def _this_process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def explicit_keys(overrides: Sequence[str]) -> frozenset[str]:
    """The keys that were given on the command line."""
    return frozenset(argument.lstrip("+~").split("=", 1)[0] for argument in overrides)


def _with_run_dir(overrides: list[str], folder: Path | None) -> list[str]:
    if folder is None or any(a.startswith("run_dir=") for a in overrides):
        return overrides
    return [*overrides, f"run_dir={folder}"]


@contextlib.contextmanager
def _overrides_of_hydra(overrides: Sequence[str]) -> Iterator[None]:
    """Inside, a ValueError or TypeError that is no setting's is Hydra's, which could not read the overrides."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if isinstance(error, BadInput) or is_from_config(error):
            raise
        raise BadInput(f"override: expected key=value, got {shlex.join(overrides)[:200]} ({error})"[:400]) from error


def _say(text: str) -> int:
    say(text)
    reason = lost()
    return OK if reason is None else _complain("bandit_lab", f"stdout: cannot be written ({reason})", INCOMPLETE)


def _complain(who: str, text: str, code: int = BAD_INPUT) -> int:
    tell(f"{who}: {visible(text)}")
    return code
