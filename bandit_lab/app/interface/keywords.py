"""From keywords to a document: Hydra composes them, the command's checks judge them, and the command computes.

Nothing is printed, and the caller's settings of JAX and Hydra are as they were before.
"""

import contextlib
import io
import json
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from bandit_lab.app.document import ABSENT, Block, Column, Document, On, Table, Values
from bandit_lab.app.interface.objects import by_name, in_double
from bandit_lab.app.settings.config import CHOICES, SCHEMAS
from bandit_lab.app.settings.schema import is_name

OPEN = ("sweep", "options", "diagnostic", "optimizer.options")
"""Settings that take keys which no schema knows."""
KEPT_BETWEEN_RUNS = ("cache",)
"""Settings that write outside of the run folder."""
_LONGEST = 600  # characters of a mistake: an array may be long


def call(command: str, keywords: Mapping[str, Any], paths: tuple[str | Path, ...] = ()) -> Document:
    """A command's result. Raises ValueError for bad input, with the text of the command line."""
    from bandit_lab.app import runner

    keep = keywords.get("run_dir") is not None
    with working(command, keywords, paths) as given, run_folder(keywords.get("run_dir")) as folder:
        config, explicit = composed(command, given)
        if not keep and "pictures" in config and "pictures" not in given and _function_of(command) is None:
            config.pictures = False  # nobody would see them
        _, plan = runner.check(command, config, explicit, folder)
        return _document(command, plan, folder, keep)


@contextlib.contextmanager
def working(command: str, keywords: Mapping[str, Any], paths: tuple[str | Path, ...] = ()) -> Iterator[dict[str, Any]]:
    """Inside, a command may work; yields its keywords with the paths among them, and names in place of objects.

    Raises:
      ValueError: what the command line would say in one line.
    """
    from bandit_lab.app.terminal.errors import one_line

    try:
        with settings_of_others_kept(), by_name(keywords) as named:
            yield named | ({"paths": [str(path) for path in paths]} if paths else {})
    except Exception as error:
        text = one_line(error, command)
        if text is None:
            raise
        raise ValueError(textwrap.shorten(text, _LONGEST, placeholder=" ...")) from None


def composed(command: str, keywords: dict[str, Any]) -> tuple[Any, frozenset[str]]:
    """(settings as Hydra composes them from these keywords, the keys that were given).

    Raises:
      ValueError, HydraException, OmegaConfBaseException: an unknown key, a value of the wrong type.
    """
    from omegaconf import OmegaConf

    from bandit_lab.app import plugins
    from bandit_lab.app.settings import compose
    from bandit_lab.app.settings.grid import check_sweepable

    modules = keywords.get("plugins")
    if isinstance(modules, str | list | tuple):
        listed = [modules] if isinstance(modules, str) else modules
        modules = [plugins.module_named(str(one)) for one in listed]
        keywords = keywords | {"plugins": modules}
    choices, values = _choices(command, keywords), dict(_flat(command, keywords))
    plugins.load(modules if isinstance(modules, list) else (), choices)
    with compose.hydra_ready():
        config = compose.composed(command, choices)
    for key, value in values.items():
        parent, _, name = key.rpartition(".")
        if parent == "sweep":
            check_sweepable(name)
        try:
            OmegaConf.update(config, key, plain(key, value), merge=False, force_add=parent in OPEN)
        except RecursionError:
            raise ValueError(f"{key}: expected a value, got one that is nested too deeply") from None
    if keywords.get("run_dir") is None:
        for key in KEPT_BETWEEN_RUNS:
            if key in config and key not in keywords:
                config[key] = None
    chosen = {one.partition("=")[0] for one in choices}
    return config, frozenset({*values, *chosen})


def _group_settings(command: str) -> list[str]:
    known = SCHEMAS[command].__dataclass_fields__
    return [one for one in CHOICES if not is_name(known.get(one))]


def _choices(command: str, keywords: Mapping[str, Any]) -> list[str]:
    """`group=name` for every variant that is given by its name."""
    found = []
    for group in _group_settings(command):
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
        if isinstance(value, Mapping) and (key in nested or key in CHOICES or key in OPEN):
            for name, one in value.items():
                yield from inside(f"{key}.{name}", one)
        else:
            yield key, value

    groups = _group_settings(command)
    for key, value in keywords.items():
        if key in groups:
            options = inside(key, value) if isinstance(value, Mapping) else ()
            yield from (one for one in options if one[0] != f"{key}.name")
        elif key in CHOICES and not isinstance(value, Mapping):
            yield f"{key}.name", value
        else:
            yield from inside(key, value)


def plain(key: str, value: Any) -> Any:
    """A value as a configuration has it; text stays as it stands. Raises ValueError for what it cannot hold."""
    from bandit_lab.app.terminal.arguments import uninterpolated

    if hasattr(value, "__array__"):  # of JAX, pandas, xarray, PyTorch too
        return plain(key, in_double(value).tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(f"{key}.{name}", one) for name, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(f"{key}[{place}]", one) for place, one in enumerate(value)]
    if isinstance(value, str | Path):
        return uninterpolated(str(value))
    if isinstance(value, int) and value.bit_length() > 1024:  # no float holds it, and it may be too long to be printed
        raise ValueError(f"{key}: expected a finite number, got an integer of {value.bit_length()} bits")
    if value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"{key}: expected a number, text, a list or a mapping, got {type(value).__name__}")
    return value


@contextlib.contextmanager
def settings_of_others_kept() -> Iterator[None]:
    """Inside, JAX computes in double precision where it is asked to. Afterwards that is as before, and so is Hydra,
    where it runs the caller."""
    from hydra.core.hydra_config import HydraConfig

    outer = HydraConfig.instance().cfg
    try:
        with _double():
            yield
    finally:
        HydraConfig.instance().cfg = outer


@contextlib.contextmanager
def _double() -> Iterator[None]:
    import jax

    config: Any = jax.config
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        config.update("jax_enable_x64", before)


@contextlib.contextmanager
def run_folder(chosen: Any) -> Iterator[Path]:
    """The folder to work in: the chosen one, or one that is gone afterwards."""
    if chosen is not None:
        yield Path(str(chosen))
        return
    with tempfile.TemporaryDirectory(prefix="bandit_lab_") as place:
        yield Path(place) / "run"


def _document(command: str, plan: Any, folder: Path, keep: bool) -> Document:
    """The result of a checked plan; with `keep` written as the command writes it. Nothing is printed."""
    from bandit_lab.app import runner
    from bandit_lab.app.folder.store import RunFolder
    from bandit_lab.app.terminal.commands import COMMANDS
    from bandit_lab.app.terminal.errors import Incomplete
    from bandit_lab.app.terminal.progress import Progress

    progress, compute = Progress(quiet=True), _function_of(command)
    if compute is not None and (COMMANDS[command].reads or not keep):
        return compute(plan, progress)
    found: Any = None
    incomplete = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = runner.perform(command, plan, RunFolder(folder), progress)
    except Incomplete as error:
        found, incomplete = error.document, str(error)
    if not isinstance(found, Document):
        return finished(command, folder, incomplete)
    return replace(found, incomplete=incomplete) if incomplete else found


def _function_of(command: str) -> Callable[..., Document] | None:
    """The function from a plan to a document, of a command that is made of one."""
    from bandit_lab.app.terminal.commands import COMMANDS

    return getattr(COMMANDS[command].load(), "compute", None)


def finished(command: str, folder: Path, incomplete: str = "") -> Document:
    """A finished run folder as a document: content of its summary, its data, its pictures."""
    from bandit_lab.app.folder.results import opened
    from bandit_lab.app.folder.store import RESULTS, SUMMARY
    from bandit_lab.app.terminal.commands import COMMANDS

    summary = json.loads((folder / SUMMARY).read_bytes())
    data = None
    if (folder / RESULTS).exists():
        with opened(folder / RESULTS) as stored:
            data = stored.load()
    single = {key: value for key, value in summary.items() if not isinstance(value, dict | list)}
    sections: dict[str, list[Block]] = {"": [Values(single)]}
    for key, value in summary.items():
        if isinstance(value, dict):
            sections[key] = [Values(value)]
        elif isinstance(value, list):
            rows = bool(value) and all(isinstance(row, dict) for row in value)
            sections[key if rows else ""] = [_table(value)] if rows else [*sections[""], Values({key: value})]
    module: Any = COMMANDS[command].load()
    if data is not None and hasattr(module, "figures_of"):
        sections[""] = [*sections[""], *module.figures_of(data)]
    return Document(command, sections, data, incomplete=incomplete)


def _table(rows: list[dict[str, Any]]) -> Table[dict[str, Any]]:
    """A table of rows as JSON has them; what is nested in a cell is not shown."""

    def of(key: str) -> Column[dict[str, Any]]:
        nested = any(isinstance(row.get(key), dict | list) for row in rows)
        return Column(key, key.replace("_", " "), lambda row: row.get(key, ABSENT), on=On.JSON if nested else On.ALL)

    return Table(rows, [of(key) for key in dict.fromkeys(key for row in rows for key in row)])
