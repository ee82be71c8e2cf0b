"""The command line: Hydra composes the settings of a command, the command works, and a mistake is one line."""

import contextlib
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab._checks import did_you_mean, nearest, one_of, visible
from bandit_lab.app import plugins
from bandit_lab.app.commands import COMMANDS, help_of, overview
from bandit_lab.app.progress import BadInput, Progress, Stopped, bad_input, say, tell
from bandit_lab.app.settings.config import SCHEMAS, config_dir, listed
from bandit_lab.app.version import __version__

OK, INCOMPLETE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3
_under_way: list["_Job"] = []  # in this process, one at most


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 parts failed, 2 bad input, 3 stopped; our own failures raise (1 too)."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    failure: Exception
    try:
        _run(arguments)
        return OK
    except BadInput as error:
        failure, code, text = error, BAD_INPUT, str(error)
    except Stopped as error:
        failure, code = error, INCOMPLETE if error.ended else INTERRUPTED
        ways = [job.again() for job in _under_way if COMMANDS[job.command].continues or not error.ended]
        text = "; ".join([str(error) if error.ended else f"{error}, no finished run", *ways])
    except Exception as error:
        if not plugins.named(arguments):
            raise
        failure, code, got = error, BAD_INPUT, _checks.described(error)
        text = f"plugins: expected variants that keep the rules (`check` names them), got {got}"
    finally:
        _under_way.clear()
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        raise failure
    tell(visible(f"bandit_lab {arguments[0]}: {' '.join(text.split())}"))
    return code


def last_words() -> str:
    """What is said where a signal ends the process: how the command that is under way goes on."""
    return "".join(
        visible(f"bandit_lab {job.command}: interrupted, no finished run; {job.again()}") for job in _under_way
    )


def _run(arguments: list[str]) -> None:
    command, *rest = arguments
    if command in ("-h", "--help"):
        return say(overview())
    if command == "--version":
        return say(__version__)
    if command == "-sc":
        return _complete(arguments)
    with bad_input():
        _checks.choice("command", command, COMMANDS)
    if {"-h", "--help"} & set(rest):
        return say(help_of(command))
    job = _Job(command, rest)
    _under_way.append(job)
    return job.run()


def _complete(arguments: list[str]) -> None:
    """What a shell asks for while a line is typed: the commands, then what Hydra gives for the line's command."""
    line = os.environ.get("COMP_LINE", "")
    command = next((word for word in line.split()[1:] if word in COMMANDS), None)
    if command is None and arguments[-1].startswith("query="):
        return say("\n".join(COMMANDS))
    os.environ["COMP_LINE"] = line.replace(f" {command}", "", 1)
    return _Job(command or "sweep", arguments).run()


class _Job:
    """One call of a command: one run, or with -m several."""

    def __init__(self, command: str, rest: list[str]) -> None:
        self.command, self.rest = command, rest
        self.folder: Path | None = None
        self.error: BaseException | None = None

    def again(self) -> str:
        """`run it again with: ...`, without what would throw away what is finished."""
        arguments = [one for one in self.rest if not one.startswith("overwrite=")]
        if self.folder is not None and not any(one.startswith("run_dir=") for one in arguments):
            arguments.append(f"run_dir={self.folder}")
        what = "what is finished is kept, continue it" if COMMANDS[self.command].continues else "run it again"
        return f"{what} with: python -m bandit_lab {shlex.join([self.command, *arguments])}"

    def run(self) -> None:
        """Have Hydra compose the settings, and run the command with them, or show what is asked for."""
        from bandit_lab.app import runner

        overrides = _overrides(self.command, self.rest)
        given = [one.partition("=")[2].strip("'\"") for one in overrides if one.startswith("run_dir=")]
        several = bool({"-m", "--multirun"} & set(overrides))
        if given or several or COMMANDS[self.command].writes:
            self.folder = Path(given[-1]) if given else runner.default_folder(self.command)
        with bad_input():
            _checks.require(not several or not COMMANDS[self.command].reads, "option", "one run folder", "-m")
        _compose(self.command, [*overrides, *([f"hydra.sweep.dir='{self.folder}'"] if several else [])], self._task)
        if self.error is not None:
            raise self.error
        if several:
            say(str(self.folder))

    def _task(self, config: Any) -> None:
        """Hydra calls this for each run. Errors are kept, so that Hydra prints nothing of its own. Where a launcher
        took the run to another process, they go back through Hydra."""
        import jax
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode
        from omegaconf import OmegaConf

        from bandit_lab.app import runner

        jax.config.update("jax_enable_x64", True)
        if self.error is not None and not (isinstance(self.error, Stopped) and self.error.ended):
            return
        try:
            of_hydra = HydraConfig.get()
            several = of_hydra.mode == RunMode.MULTIRUN
            folder = Path(of_hydra.sweep.dir, str(of_hydra.job.num)) if several else self.folder
            overrides: Any = OmegaConf.to_container(of_hydra.overrides.task)
            explicit = frozenset(one.lstrip("+~").partition("=")[0] for one in overrides)
            settings = _typed(self.command, config, overrides)
            result = runner.done(self.command, settings, explicit, folder, Progress(settings.quiet))
            result.show()
            if folder is not None:
                say(str(folder))
            if result.incomplete:
                raise Stopped(result.incomplete, ended=True)
        except BaseException as error:
            if not _under_way:
                raise
            self.error = error


def _overrides(command: str, rest: Sequence[str]) -> list[str]:
    """The arguments as Hydra takes them: plain ones are one list, and what no schema knows is added."""
    paths, result, plain = COMMANDS[command].paths, [], []
    for before, argument in zip(["", *rest], rest, strict=False):
        if argument.startswith("-") or (before.startswith("-") and before not in ("-m", "--multirun", "-v")):
            result.append("verbose=true" if argument == "-v" else argument)
        elif paths and "=" not in argument:
            plain.append(argument)
        else:
            result.append(f"++{argument}" if argument.startswith(("sweep.", "optimizer.options.")) else argument)
    return [*result, *([f"{paths}=[{','.join(map(repr, plain))}]"] if plain else [])]


def _compose(command: str, overrides: Sequence[str], task: Callable[[Any], None]) -> None:
    """Have Hydra call `task` with the configuration that these arguments give. Raises BadInput where it cannot."""
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR", "")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["bandit-lab", *overrides], "1"  # else it prints and exits itself
    try:
        with _composing(command, overrides):
            plugins.load_for_hydra(command, overrides)
            run = hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=command)
            run(lambda config: task(config))()
    finally:
        sys.argv, os.environ["HYDRA_FULL_ERROR"] = before, full


def _typed(command: str, config: Any, overrides: Sequence[str]) -> Any:
    """What Hydra composed, as the command's dataclass. Raises BadInput."""
    from omegaconf import OmegaConf

    with _composing(command, overrides):
        return OmegaConf.to_object(
            OmegaConf.merge(OmegaConf.structured(SCHEMAS[command]), OmegaConf.to_container(config))
        )


@contextlib.contextmanager
def _composing(command: str, overrides: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except (BadInput, Stopped):  # of a run in another process
        raise
    except Exception as error:
        raise BadInput(error if type(error) is ValueError else _worded(error, command, overrides)) from error


def _worded(error: Exception, command: str, overrides: Sequence[str]) -> str:
    """What Hydra or OmegaConf says of settings, as `key: expected ..., got ...`."""
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError

    given = dict(one.lstrip("+~").partition("=")[::2] for one in overrides)
    types = {key: inspect.formatannotation(entry.type) for key, entry, _ in listed(SCHEMAS[command])}
    text, cause = str(error), error.__cause__ or error
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        return f"{group}: expected {one_of(name, error.options)}, got {name!r}"
    if isinstance(error, OverrideParseException):
        key = nearest(str(error.override).partition("=")[0].strip(), types) or "key"
        return f"override: expected {key}=value (put quotes around lists and mappings), got {error.override!r}"
    if several := re.match(r"Ambiguous value for argument '(.+?)=(.+?)'", text):
        key, value = several.groups()
        return f"{key}: expected one value, a list ({key}=[{value}]), or -m for a run per value, got {value!r}"
    key = next(iter(re.findall(r"full_key: (\S+)", f"{text}\n{cause}")), "")
    group, _, option = key.rpartition(".")
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        known = [str(one) for one in cause.parent_node or () if one not in ("name", "hydra")]
        near = did_you_mean(option, known) or f" ({', '.join(known) or 'it has none'})"
        owner = f"{group}={cause.parent_node['name']}" if "name" in (cause.parent_node or ()) else group or command
        return f"{key}: expected a setting of {owner}{near}, got an unknown one"
    if key:
        got = repr(given[key]) if key in given else text.splitlines()[0]
        return f"{key}: expected a value of type {types.get(key, 'dict')}, got {got}"
    return f"settings: expected some that can be composed, got {type(error).__name__}: {text}"
