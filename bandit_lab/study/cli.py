"""The command line: from arguments to a finished run folder, an exit code, and at most one line of complaint."""

import contextlib
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bandit_lab._text import visible
from bandit_lab.study import plugins
from bandit_lab.study.settings.config import GROUPS, config_dir, register_schemas, variants_on_disk
from bandit_lab.study.settings.grid import check_sweepable
from bandit_lab.study.terminal.arguments import as_overrides
from bandit_lab.study.terminal.commands import COMMANDS
from bandit_lab.study.terminal.errors import BadInput, Incomplete, Stopped, bad_input, one_line
from bandit_lab.study.terminal.interrupt import interruptible
from bandit_lab.study.terminal.output import lost, ready, say, tell

OK, INCOMPLETE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3
HELP = frozenset(("-h", "--help"))
HYDRA_OPTIONS = frozenset(
    (
        *("-r", "--run", "-m", "--multirun", "-c", "--cfg", "--resolve", "-p", "--package", "-i", "--info"),
        *("-cn", "--config-name", "-cp", "--config-path", "-cd", "--config-dir", "-sc", "--shell-completion"),
        "--hydra-help",
    )
)
SHOWN = ("job", "hydra", "all")  # what --cfg can print
_GROUP_BY_FORCE = re.compile(r"^\+{1,2}(kl_estimator=)")  # a plain setting once, which Hydra let be forced


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 parts failed, 2 bad input, 3 interrupted; our own failures raise (1 too)."""
    ready()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in HELP:
        return _help(None, arguments)
    if arguments[0] == "--version":
        from bandit_lab import __version__

        return _say(__version__)
    command, *overrides = arguments
    if command not in COMMANDS:
        return _complain("bandit_lab", f"command: expected one of {', '.join(COMMANDS)}, got {command!r}")
    if HELP & set(overrides):
        return _help(command, overrides)
    return _guarded(command, overrides)


def _help(command: str | None, arguments: list[str]) -> int:
    """The overview, a command's help, or that of the word behind --help; with variants of plug-ins named there."""
    from bandit_lab.study.terminal import help as texts

    who = f"bandit_lab {command or ''}".rstrip()
    place = next((i for i, argument in enumerate(arguments) if argument in HELP), 0)
    topic = next((a for a in arguments[place + 1 : place + 2] if "=" not in a and not a.startswith("-")), None)
    try:
        modules = plugins.named(arguments)
        if modules or ((command or topic) and plugins.announced()):
            plugins.load(modules)
        found = texts.topic_help(command, topic) if topic else None
    except ValueError as error:
        return _complain(who, str(error))
    if topic and found is None and not (command and COMMANDS[command].paths):
        return _complain(who, f"--help: expected {texts.topics(command)}, got {topic!r}")
    return _say(found or (texts.command_help(command) if command else texts.overview()))


def _guarded(command: str, overrides: list[str]) -> int:
    """Run a command; turn bad input and interruption into one line and an exit code."""
    full_error = os.environ.get("HYDRA_FULL_ERROR") == "1"
    job = _Job(command)
    try:
        with interruptible(lambda: f"bandit_lab {command}: {_interrupted(job, overrides)}"), _raw_hydra_errors():
            job.run(_rewritten(as_overrides(command, overrides)))
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
    kept = _with_run_dir(kept, job.folder)
    again = shlex.join(kept if continues or not ended else [*kept, "overwrite=true"])
    what = "what is finished is kept, continue it" if continues else "run it again"
    return f"{what} with: python -m bandit_lab {job.command} {again}".rstrip()


def _rewritten(overrides: list[str]) -> list[str]:
    """The overrides as Hydra wants them; complains about unknown options and about sweeping what is not traced."""
    result = []
    for argument, following in zip(overrides, [*overrides, "nothing"][1:], strict=True):
        if argument in ("-c", "--cfg") and following not in SHOWN:
            raise BadInput(f"{argument}: expected one of {', '.join(SHOWN)}, got {following!r}")
        if argument.startswith("-") and argument.split("=", 1)[0] not in HYDRA_OPTIONS:
            raise BadInput(f"option: expected key=value, -m, --cfg job, --help or --hydra-help, got {argument!r}")
        swept = re.match(r"\+{0,2}sweep\.(\w+)(.*)", argument, re.DOTALL)
        if swept:
            with bad_input():
                check_sweepable(swept[1])
        open_ended = re.match(r"(sweep|optimizer\.options|options|diagnostic)\.\w+", argument)
        result.append(f"++{argument}" if open_ended else _GROUP_BY_FORCE.sub(r"\1", argument))
    return result


def _register_named_variants(overrides: list[str]) -> None:
    """Let an unknown choice in a group through (an optax optimiser, or a mistake); the builder judges the name."""
    from hydra.core.config_store import ConfigStore

    known_to = plugins.registries()
    for argument in overrides:
        choice = re.fullmatch(rf"({'|'.join(GROUPS)})=([\w,\s]+)", argument)
        for name in choice[2].split(",") if choice else ():
            known = choice and (name.strip() in variants_on_disk(choice[1]) or name.strip() in known_to[choice[1]])
            if choice and name.strip() and not known:
                node = {"name": name.strip()} | ({"options": {}} if choice[1] == "optimizer" else {})
                ConfigStore.instance().store(group=choice[1], name=name.strip(), node=node)


class _Job:
    """One call of Hydra: one run, or with -m several."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.folder: Path | None = None
        self.error: BaseException | None = None
        self.incomplete: Incomplete | None = None
        self.swept: list[str] = []
        self.jobs: list[Any] = []
        self.process = _this_process()

    def run(self, overrides: list[str]) -> None:
        """Call the command's Hydra entry; raises what went wrong."""
        import hydra

        if COMMANDS[self.command].reads and {"-m", "--multirun"} & set(overrides):
            raise BadInput(f"option: expected one run folder for {self.command}, got -m")
        register_schemas()
        with bad_input():
            plugins.load(plugins.named(overrides))
        _register_named_variants(overrides)
        if {"-m", "--multirun"} & set(overrides):
            overrides = self._multirun(overrides)
        entry = hydra.main(config_path=str(config_dir()), config_name=self.command, version_base="1.3")(self._task)
        before = sys.argv
        sys.argv = [f"python -m bandit_lab {self.command}", *overrides]
        try:
            entry()
        except BadInput:  # from a job in another process
            raise
        except Incomplete as error:
            self.incomplete = error
        except (ValueError, TypeError) as error:  # a job here never raises: Hydra could not read the overrides
            raise BadInput(f"override: expected key=value, got {shlex.join(overrides)} ({error})") from error
        finally:
            sys.argv = before
        if self.error is not None:
            raise self.error
        if self.folder is not None and {"-m", "--multirun"} & set(overrides):
            from bandit_lab.study.terminal import multirun

            multirun.finish(self.command, self.folder, self.jobs)
            say(str(self.folder))
        if self.incomplete is not None:
            raise self.incomplete

    def _multirun(self, overrides: list[str]) -> list[str]:
        """Check every job of a multirun before the first one works, and give the multirun a folder."""
        from hydra import compose, initialize_config_dir

        from bandit_lab.study.runner import check, default_folder
        from bandit_lab.study.terminal import multirun

        given = [a.split("=", 1)[1] for a in overrides if a.startswith("run_dir=")]
        overrides = [a for a in overrides if not a.startswith("run_dir=")]
        self.folder = Path(given[-1]) if given else default_folder(self.command)
        plain = [a for a in overrides if a not in ("-m", "--multirun")]
        if not any(a.startswith("-") for a in plain):
            self.swept, jobs = swept_keys(plain), list(expand(plain))
            with bad_input():
                multirun.check_table(self.folder)
                found = multirun.jobs_of(self.swept, jobs)
            with initialize_config_dir(str(config_dir()), version_base="1.3"):
                for job, overrides_of_it in zip(found, jobs, strict=True):
                    config = compose(config_name=self.command, overrides=overrides_of_it)
                    check(self.command, config, explicit_keys(overrides_of_it), self.folder / job.name)
            own_sweeper = any(a.startswith(("hydra/sweeper=", "hydra.sweeper")) for a in plain)
            self.jobs = [] if own_sweeper else found
        return [*overrides, f"hydra.sweep.dir='{self.folder}'", "hydra.sweep.subdir=."]

    def _folder_of(self, base: Path, number: Any, overrides: Sequence[str]) -> Path:
        """The folder of one run of a multirun, in this process or in a launcher's."""
        from bandit_lab.study.terminal import multirun

        values = multirun.swept(self.swept, overrides)
        return base / (multirun.folder_name(values) if values else str(number))

    def _task(self, config: Any) -> None:
        """What Hydra calls for each job. Errors are kept, so that Hydra prints nothing of its own; where a launcher
        took the job to another process, they go back through Hydra."""
        if self.error is not None:
            return
        try:
            from hydra.core.hydra_config import HydraConfig
            from hydra.types import RunMode

            from bandit_lab.study import runner

            hydra_config = HydraConfig.get()
            many = hydra_config.mode == RunMode.MULTIRUN
            overrides = list(hydra_config.overrides.task)
            if many:
                folder = self._folder_of(Path(hydra_config.runtime.output_dir), hydra_config.job.num, overrides)
            else:
                self.folder = folder = runner.chosen_folder(self.command, config)
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


def expand(overrides: list[str]) -> Iterator[list[str]]:
    """The jobs of a multirun: the product of all comma-separated choices, in Hydra's order."""
    from itertools import product

    from hydra.core.override_parser.overrides_parser import OverridesParser

    choices = [
        [f"{parsed.get_key_element()}={value}" for value in parsed.sweep_string_iterator()]
        if parsed.is_sweep_override()
        else [parsed.input_line or ""]
        for parsed in OverridesParser.create().parse_overrides(overrides)
    ]
    for job in product(*choices):
        yield list(job)


def swept_keys(overrides: Sequence[str]) -> list[str]:
    """The keys that differ from run to run of a multirun."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return [one.get_key_element().lstrip("+~") for one in parsed if one.is_sweep_override()]


def explicit_keys(overrides: Sequence[str]) -> frozenset[str]:
    """The keys that were given on the command line."""
    return frozenset(argument.lstrip("+~").split("=", 1)[0] for argument in overrides)


def _with_run_dir(overrides: list[str], folder: Path | None) -> list[str]:
    if folder is None or any(a.startswith("run_dir=") for a in overrides):
        return overrides
    return [*overrides, f"run_dir={folder}"]


@contextlib.contextmanager
def _raw_hydra_errors() -> Iterator[None]:
    """Have Hydra raise its errors instead of printing them and leaving."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before


def _say(text: str) -> int:
    say(text)
    reason = lost()
    return OK if reason is None else _complain("bandit_lab", f"stdout: cannot be written ({reason})", INCOMPLETE)


def _complain(who: str, text: str, code: int = BAD_INPUT) -> int:
    tell(f"{who}: {visible(text)}")
    return code
