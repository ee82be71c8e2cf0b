"""The frame of a script beside the experiments: settings as `key=value`, one line for bad input, a run folder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax

from bandit_lab import _checks
from bandit_lab._checks import one_of
from bandit_lab.app import plugins
from bandit_lab.app.folder import store
from bandit_lab.app.progress import Progress, say, tell
from bandit_lab.app.result import Result
from bandit_lab.app.runner import compute_into, default_folder
from bandit_lab.app.settings.config import RunSettings, listed

OK, INCOMPLETE, BAD_INPUT = 0, 1, 2
"""Exit codes, as of the package's commands."""


@dataclass(frozen=True)
class ScriptPlan:
    """Checked settings, and what else the work needs. precision: for the manifest."""

    settings: Any
    given: Any = None
    precision: str | None = None


Prepare = Callable[[Any, frozenset[str]], Any]


def run(
    arguments: Sequence[str],
    name: str,
    about: str | None,
    schema: type[RunSettings],
    prepare: Prepare,
    compute: Callable[[Any, Progress], Result],
) -> int:
    """Work as a command of the package does: check, compute, write the run folder, print; the last line is the folder.

    Returns the exit code.

    about: the script's docstring, for `--help`. prepare: from (settings, keys that were given) to a plan with the
    settings; raises ValueError.
    """
    if {"-h", "--help"} & set(arguments):
        say(_help(about or "", schema))
        return OK
    try:
        settings = read(schema, arguments)
        folder = Path(settings.run_dir) if settings.run_dir else default_folder(name)
        store.check_folder(folder, settings.overwrite, False)
        jax.config.update("jax_enable_x64", True)
        plugins.load(settings.plugins)
        plan = prepare(settings, frozenset(one.partition("=")[0] for one in arguments))
        store.create_folder(folder)
    except ValueError as error:
        tell(f"{name}: {' '.join(str(error).split())}")
        return BAD_INPUT
    try:
        report = compute_into(name, compute, plan, store.RunFolder(folder), Progress(settings.quiet))
        report.show()
    finally:
        say(str(folder))
    if report.incomplete:
        tell(f"{name}: {report.incomplete}")
    return INCOMPLETE if report.incomplete else OK


def read(schema: type[Any], arguments: Sequence[str]) -> Any:
    """Settings from `key=value`; an argument without a key is one of `paths`. Raises ValueError."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    names = [one.name for one in fields(schema)]
    paths = [one for one in arguments if "=" not in one]
    _checks.require(not paths or "paths" in names, "argument", "key=value", " ".join(paths))
    texts = [one for one in arguments if "=" in one]
    for one in texts:
        key = one.partition("=")[0]
        _checks.require(key in names, key, one_of(key, names), "an unknown key")
    try:
        parts = [OmegaConf.structured(schema), OmegaConf.from_dotlist(texts), {"paths": paths} if paths else {}]
        return OmegaConf.to_object(OmegaConf.merge(*parts))
    except OmegaConfBaseException as error:
        raise ValueError(f"{error.full_key}: {str(error).splitlines()[0]}") from None


def _help(about: str, schema: type[Any]) -> str:
    settings = [(f"{key}={json.dumps(usual)}", one.metadata["help"]) for key, one, usual in listed(schema)]
    lines = [f"  {option}".ljust(34) + f"  {text}" for option, text in settings]
    return "\n".join([about.strip(), "", "Settings, as key=value:", *lines])
