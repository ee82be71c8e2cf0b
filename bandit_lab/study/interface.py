"""The Python interface: every command as a function of keywords that returns its labelled result.

    import bandit_lab as bl

    found = bl.predict(refresh_interval=8, bandit={"name": "k_arm", "rewards": [0.9, 0.5, 0.1]})
    found.to_dict()["thresholds"]

Keywords are the settings of the command line, with its defaults: a nested setting is a dictionary
(`sweep={"learning_rate": [0.1, 0.2]}`), a variant its name or a dictionary with `name` and its options. Mistakes are
ValueErrors with the line that the command prints. Nothing is printed. Nothing is written unless `run_dir` is given:
then the folder is that of the command; without it neither compiled programs nor measurements are kept, but where
`compilation_cache` or `cache` say so.
"""

import contextlib
import difflib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.study.document import ABSENT, Block, Column, Document, On, Table, Values
from bandit_lab.study.settings.config import GROUPS, SCHEMAS
from bandit_lab.study.settings.schema import CompilingSettings

if TYPE_CHECKING:
    import xarray

    from bandit_lab.study.explore.command import Map

__all__ = ["advise", "diagnose", "explore", "export", "fit", "predict", "reproduce", "simulate", "status", "sweep"]

OPEN = ("sweep", "options", "diagnostic", "optimizer.options")
"""Settings that take keys which no schema knows."""
KEPT_BETWEEN_RUNS = ("compilation_cache", "cache")
"""Settings that write outside of the run folder."""


def predict(**settings: Any) -> Document:
    """Closed-form and exact predictions for one setting: `python -m bandit_lab predict`.

    Args:
      settings: `refresh_interval` [steps], `learning_rate` [logits per unit gradient], `momentum`, `kl_weight` [reward
        per nat], `bandit`, ...: `python -m bandit_lab predict --help` lists them with units and defaults.

    Returns:
      A document; `to_dict()` is the content of `summary.json`.

    Raises:
      ValueError: a setting that is unknown or out of range: which, what was expected, what was given.
    """
    return call("predict", settings)


def sweep(**settings: Any) -> Document:
    """A grid of training runs with the theory beside it: `python -m bandit_lab sweep`.

    Args:
      settings: those of `predict`, and `sweep={"refresh_interval": [1, 2, 4]}`, `seeds`, `steps`, ...

    Returns:
      A document; `data` is the grid, with dimensions such as `momentum` and `refresh_interval` and units in `attrs`.

    Raises:
      ValueError: as `predict`.
    """
    return call("sweep", settings)


def reproduce(**settings: Any) -> Document:
    """Figures of the papers and of the lab, with their claims: `python -m bandit_lab reproduce`.

    Args:
      settings: `figures` ("all", or a list of names), `quality` ("draft" or "paper"), ...

    Returns:
      A document; `table("claims")` has a row per claim: predicted, measured, tolerance, holds.

    Raises:
      ValueError: as `predict`.
    """
    return call("reproduce", settings)


def fit(*paths: str | Path, **settings: Any) -> Document:
    """Closed-form laws on reward logs, with intervals and forecasts: `python -m bandit_lab fit`.

    Args:
      paths: log files and folders. settings: `from_fraction`, `learning_rate`, `momentum`, ...

    Returns:
      A document; `table("logs")` has a row per log. `incomplete` says which logs have no curve.

    Raises:
      ValueError: as `predict`; no log that can be read.
    """
    return call("fit", settings, paths)


def diagnose(*paths: str | Path, **settings: Any) -> Document:
    """The four failure modes on reward logs: `python -m bandit_lab diagnose`. As `fit`."""
    return call("diagnose", settings, paths)


def advise(*paths: str | Path, **settings: Any) -> Document:
    """Which settings of a run are safe: `python -m bandit_lab advise`.

    Args:
      paths: a trainer's configuration, and the run's log. settings: `framework`, `stiffness`, `safety`, ...

    Returns:
      A document with margins and limits.

    Raises:
      ValueError: as `predict`.
    """
    return call("advise", settings, paths)


def explore(*paths: str | Path, **settings: Any) -> "Map":
    """The stability map as one interactive page: `python -m bandit_lab explore`. A notebook shows it.

    Args:
      paths: a run's log and its trainer's configuration, laid into the map. settings: where the page begins
        (`refresh_interval` [steps], `learning_rate` [logits per unit gradient], `staleness`, ...); `run_dir`, a sweep
        whose cells are shown; `output`, the file to write; `open`, whether a browser opens that file (here: false).

    Returns:
      The page, `html`, and in `words` what is laid into it. Nothing is written unless `output` is given.

    Raises:
      ValueError: as `predict`; what the page cannot compute.
    """
    from bandit_lab.study import runner
    from bandit_lab.study.explore import command

    given = settings | ({"paths": [*map(str, paths)]} if paths else {})
    with errors_in_one_line("explore"), settings_of_others_kept():
        config, explicit = composed("explore", given)
        config.open = bool(settings.get("open")) and settings.get("output") is not None
        _, plan = runner.check("explore", config, explicit, Path())
        found = command.made(plan)
        if settings.get("output") is not None:
            command.write(plan, found)
        return found


def status(run_dir: str | Path) -> Document:
    """What of a run folder is done, failed and left: `python -m bandit_lab status`. Only reads.

    Raises:
      ValueError: `run_dir` is not the folder of a run.
    """
    return call("status", {"run_dir": str(run_dir)})


def export(run_dir: str | Path, **settings: Any) -> Document:
    """The results of a run folder as one file, CSV or Parquet: `python -m bandit_lab export`.

    Args:
      run_dir: also that of a `-m`. settings: `format`, `table`, `output`.

    Returns:
      A document; `to_dict()["output"]` is the file that was written.

    Raises:
      ValueError: as `predict`; there are no results.
    """
    return call("export", {"run_dir": str(run_dir), **settings})


def simulate(**settings: Any) -> "xarray.Dataset":
    """Many seeds of one setting, on the fast path where it serves.

        runs = bandit_lab.simulate(refresh_interval=8, learning_rate=0.3, seeds=1000, steps=300)
        runs.reward_mean.plot(x="step")

    Args:
      settings: those of `python -m bandit_lab predict --help`, with its defaults: `bandit`, `advantage`, ..., `seeds`
        (S), `steps` (T), `seed`, `refresh_interval` [steps], `learning_rate` [logits per unit gradient], `momentum`,
        `kl_weight` [reward per nat], `group_size`, `dynamics`, `precision`, `path`. With dynamics="mean_field" or
        "finite_group" there is one run.

    Returns:
      A data set with units in the variables' `attrs` and the settings in its own:
      reward_mean, reward_variance (step): [T + 1] expected reward, its mean and (population) variance over seeds;
      final_policy (seed, arm): [S, K] probabilities after the last step, (seed, context, arm) where there are contexts;
      tail_mean, tail_std, overshoot, final_max_probability, tail_silent (seed): [S] as in `simulate.Summary`;
      outcome (seed): [S] what became of each run, by the rules of `sweep`; where no run can be judged it is not there
      and the attribute `no_outcome` says why.

    Raises:
      ValueError: a setting that is unknown or out of range: which, what was expected, what was given.
    """
    from omegaconf import OmegaConf

    from bandit_lab.study.simulated import simulated

    of_a_run = {one.name for one in fields(CompilingSettings)} - {"plugins"}
    known = [one.name for one in fields(SCHEMAS["predict"]) if one.name not in of_a_run]
    for key in (key.partition(".")[0] for key in settings):
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ValueError(f"{key}: expected a setting of simulate{hint}, got an unknown key")
    with errors_in_one_line("predict"), settings_of_others_kept():
        chosen: Any = OmegaConf.to_object(composed("predict", settings)[0])
        return simulated(chosen)


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
    from bandit_lab.study.terminal.arguments import literal

    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    return literal(str(value)) if isinstance(value, str | Path) else value


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
