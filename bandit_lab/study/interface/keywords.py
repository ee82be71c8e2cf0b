"""From keywords to a document: Hydra composes them, the command's checks judge them, and the command computes.

Nothing is printed, and the caller's settings of JAX and Hydra are as they were before.
"""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab.study.document import ABSENT, Block, Column, Document, On, Table, Values
from bandit_lab.study.settings.config import GROUPS, SCHEMAS

OPEN = ("sweep", "options", "diagnostic", "optimizer.options")
"""Settings that take keys which no schema knows."""
KEPT_BETWEEN_RUNS = ("compilation_cache", "cache")
"""Settings that write outside of the run folder."""


def call(command: str, keywords: Mapping[str, Any], paths: tuple[str | Path, ...] = ()) -> Document:
    """What a command finds. Raises ValueError for bad input, with the text of the command line."""
    from bandit_lab.study import runner

    given = dict(keywords) | ({"paths": [*map(str, paths)]} if paths else {})
    keep = given.get("run_dir") is not None
    with errors_in_one_line(command), settings_of_others_kept(), run_folder(given.get("run_dir")) as folder:
        config, explicit = composed(command, given)
        if not keep and "pictures" in config and "pictures" not in given and _function_of(command) is None:
            config.pictures = False  # nobody would see them
        _, plan = runner.check(command, config, explicit, folder)
        return _document(command, plan, folder, keep)


def composed(command: str, keywords: Mapping[str, Any]) -> tuple[Any, frozenset[str]]:
    """(settings as Hydra composes them from these keywords, the keys that were given).

    Raises:
      ValueError, HydraException, OmegaConfBaseException: an unknown key, a value of the wrong type.
    """
    from omegaconf import OmegaConf

    from bandit_lab.study import plugins
    from bandit_lab.study.settings import compose
    from bandit_lab.study.settings.grid import check_sweepable

    modules = keywords.get("plugins")
    choices, values = _choices(keywords), dict(_flat(command, keywords))
    plugins.load(modules if isinstance(modules, list | tuple) else (), choices)
    with compose.hydra_ready():
        config = compose.composed(command, choices)
    for key, value in values.items():
        parent, _, name = key.rpartition(".")
        if parent == "sweep":
            check_sweepable(name)
        OmegaConf.update(config, key, _plain(value), merge=False, force_add=parent in OPEN)
    if keywords.get("run_dir") is None:
        for key in KEPT_BETWEEN_RUNS:
            if key in config and key not in keywords:
                config[key] = None
    chosen = {one.partition("=")[0] for one in choices}
    return config, frozenset({*values, *chosen})


def _choices(keywords: Mapping[str, Any]) -> list[str]:
    """`group=name` for every variant that is given by its name."""
    found = []
    for group in GROUPS:
        value = keywords.get(group)
        name = value.get("name") if isinstance(value, Mapping) else value
        if name is not None:
            if not (isinstance(name, str) and name.isidentifier()):
                raise ValueError(
                    f"{group}: expected a variant's name, or a dictionary with name and options, got {name!r}"
                )
            found.append(f"{group}={name}")
    return found


def _flat(command: str, keywords: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every setting that is no variant's name."""
    nested = {one.name for one in fields(SCHEMAS[command]) if is_dataclass(one.default_factory)}

    def inside(key: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, Mapping) and (key in nested or key in GROUPS or key in OPEN):
            for name, one in value.items():
                yield from inside(f"{key}.{name}", one)
        else:
            yield key, value

    for key, value in keywords.items():
        if key in GROUPS and not isinstance(value, Mapping):
            continue
        yield from (one for one in inside(key, value) if not (key in GROUPS and one[0] == f"{key}.name"))


def _plain(value: Any) -> Any:
    """A value as a configuration has it; text stays as it stands."""
    from bandit_lab.study.terminal.arguments import uninterpolated

    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    return uninterpolated(str(value)) if isinstance(value, str | Path) else value


@contextlib.contextmanager
def errors_in_one_line(command: str) -> Iterator[None]:
    """Inside, what the command line would say in one line is a ValueError with that line."""
    from bandit_lab.study.terminal.errors import one_line

    try:
        yield
    except Exception as error:
        text = one_line(error, command)
        if text is None:
            raise
        raise ValueError(text) from error


@contextlib.contextmanager
def settings_of_others_kept() -> Iterator[None]:
    """Inside, JAX computes in double precision where it is asked to. Afterwards that is as before, and so is Hydra,
    where it runs the caller."""
    import jax
    from hydra.core.hydra_config import HydraConfig

    config: Any = jax.config
    before, outer = config.jax_enable_x64, HydraConfig.instance().cfg
    config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        config.update("jax_enable_x64", before)
        HydraConfig.instance().cfg = outer


@contextlib.contextmanager
def run_folder(chosen: Any) -> Iterator[Path]:
    """The folder to work in: the chosen one, or one that is gone afterwards."""
    if chosen is not None:
        yield Path(str(chosen))
        return
    with tempfile.TemporaryDirectory(prefix="bandit_lab_") as place:
        yield Path(place) / "run"


def _document(command: str, plan: Any, folder: Path, keep: bool) -> Document:
    """What a checked plan gives; with `keep` written as the command writes it. Nothing is printed."""
    from bandit_lab.study.folder.store import RunFolder
    from bandit_lab.study.terminal.commands import COMMANDS
    from bandit_lab.study.terminal.errors import Incomplete
    from bandit_lab.study.terminal.progress import Progress

    progress, compute = Progress(quiet=True), _function_of(command)
    if compute is not None and (COMMANDS[command].reads or not keep):
        return compute(plan, progress)
    found: Any = None
    incomplete = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = COMMANDS[command].load().execute(plan, RunFolder(folder), progress)
    except Incomplete as error:
        found, incomplete = error.document, str(error)
    if not isinstance(found, Document):
        return finished(command, folder, incomplete)
    return replace(found, incomplete=incomplete) if incomplete else found


def _function_of(command: str) -> Callable[..., Document] | None:
    """The function from a plan to a document, of a command that is made of one."""
    from bandit_lab.study.terminal.commands import COMMANDS

    return getattr(COMMANDS[command].load().execute, "__wrapped__", None)


def finished(command: str, folder: Path, incomplete: str = "") -> Document:
    """What a run folder holds in which nothing was left to do: the content of its summary, and its data."""
    import xarray

    from bandit_lab.study.folder.written import RESULTS, SUMMARY

    summary = json.loads((folder / SUMMARY).read_bytes())
    with xarray.open_zarr(folder / RESULTS) as stored:
        data = stored.load()
    single = {key: value for key, value in summary.items() if not isinstance(value, dict | list)}
    sections: dict[str, list[Block]] = {"": [Values(single)]}
    for key, value in summary.items():
        if isinstance(value, dict):
            sections[key] = [Values(value)]
        elif isinstance(value, list):
            rows = bool(value) and all(isinstance(row, dict) for row in value)
            sections[key if rows else ""] = [_table(value)] if rows else [*sections[""], Values({key: value})]
    return Document(command, sections, data, incomplete=incomplete)


def _table(rows: list[dict[str, Any]]) -> Table[dict[str, Any]]:
    """A table of rows as JSON has them; what is nested in a cell is not shown."""

    def of(key: str) -> Column[dict[str, Any]]:
        nested = any(isinstance(row.get(key), dict | list) for row in rows)
        return Column(key, key.replace("_", " "), lambda row: row.get(key, ABSENT), on=On.JSON if nested else On.ALL)

    return Table(rows, [of(key) for key in dict.fromkeys(key for row in rows for key in row)])
