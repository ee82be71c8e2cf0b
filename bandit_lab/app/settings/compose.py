"""Hydra: from the arguments of a command to its composed settings.

Nothing stands in YAML here. A command's configuration is made from its schema, with the variants that the schema names
as defaults; the choices of a group are made from the registries. A folder of the user's (`--config-dir`) is looked at
before both.
"""

import argparse
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.settings.config import SCHEMAS

SHOWN = ("job", "hydra", "all")
"""What --cfg can print."""
NO_FILES = Path(__file__).parent
"""A folder without configurations. Without a folder Hydra looks through all frames for its caller's: 0.1 s."""


@dataclass(frozen=True)
class Arguments:
    """A command's arguments: Hydra's options, and the overrides (`key=value`) in their order."""

    options: argparse.Namespace
    overrides: list[str]

    @property
    def several(self) -> bool:
        """Whether one run per value is asked for."""
        return self.options.multirun or "hydra.mode=MULTIRUN" in self.overrides


class UnknownOption(ValueError):
    """Something with a dash that is no option of Hydra's, as it was typed."""

    def __init__(self, option: str) -> None:
        super().__init__(f"option: expected key=value, -m, --cfg job, --help or --hydra-help, got {option!r}")
        self.option = option


def parser() -> argparse.ArgumentParser:
    """Hydra's options. Errors are raised, not printed."""
    found = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    found.add_argument("overrides", nargs="*", help="key=value, nested keys with dots")
    found.add_argument("-m", "--multirun", action="store_true", help="one run per value of key=a,b")
    found.add_argument("-c", "--cfg", nargs="?", const=_checks.NOTHING, help=f"print {' | '.join(SHOWN)} and stop")
    found.add_argument("--resolve", action="store_true", help="with --cfg: without interpolations")
    found.add_argument("-p", "--package", help="with --cfg: this part of it")
    found.add_argument("-cd", "--config-dir", "-cp", "--config-path", help="folder of further configurations")
    found.add_argument("-cn", "--config-name", help="configuration in place of the command's own")
    found.add_argument("-i", "--info", nargs="?", const="all", help="what Hydra knows: defaults, searchpath, ...")
    found.add_argument("-r", "--run", action="store_true", help="run the command, as without it")
    found.add_argument("--hydra-help", action="store_true", help="these options, and groups of Hydra's own")
    return found


def parse(arguments: Sequence[str]) -> Arguments:
    """The options and overrides among the arguments.

    Raises:
      ValueError: an unknown option, one without its value, or two that exclude each other.
    """
    try:
        options, rest = parser().parse_known_intermixed_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name}: expected a value, got none") from error
    unknown = [*rest, *(one for one in options.overrides if one.startswith("-"))]
    if unknown:
        raise UnknownOption(unknown[0])
    if options.cfg:
        _checks.choice("--cfg", options.cfg, SHOWN)
    targets = [one for one in options.overrides if re.match(r"[+~]*hydra[./].*_target_=", one)]
    if targets:
        raise ValueError(f"hydra: expected an installed plug-in by its name, hydra/sweeper=NAME, got {targets[0]}")
    asked = [name for name in ("multirun", "cfg", "info", "run") if getattr(options, name)]
    if len(asked) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise ValueError(f"option: expected one of --run, --multirun, --cfg, --info, got {names}")
    _checks.require(bool(options.cfg) or not options.resolve, "--resolve", "--cfg beside it", _checks.Word("it alone"))
    is_folder = options.config_dir is None or Path(options.config_dir).is_dir()
    _checks.require(is_folder, "--config-dir", "a folder", options.config_dir)
    return Arguments(options, options.overrides)


def register(variants: Iterable[tuple[str, str, Mapping[str, Any]]], folder: str | None = None) -> None:
    """Make known to Hydra the settings of every command, as `<command>_schema` and, with the variants that it starts
    from, as `<command>`; and these variants: (group, name, settings), but for those that the user's folder has.

    """
    from hydra.core.config_store import ConfigStore

    store: Any = ConfigStore.instance()
    # Hydra would copy all of it for every composition, though it copies again whatever it loads: half of the time.
    store.__deepcopy__ = lambda memo: store
    for command, schema in SCHEMAS.items():
        if not _is_new("", command, schema):
            continue
        chosen = [{one.name: one.metadata["variant"]} for one in fields(schema) if "variant" in one.metadata]
        silent = [{f"override hydra/{one}_logging": "none"} for one in ("job", "hydra")]
        hydra = {"output_subdir": None, "job": {"name": command, "chdir": False}, "run": {"dir": "."}}
        store.store(name=f"{command}_schema", node=schema)
        store.store(name=command, node={"defaults": [f"{command}_schema", *chosen, "_self_", *silent], "hydra": hydra})
    for group, name, settings in variants:
        theirs = folder is not None and Path(folder, group, f"{name}.yaml").is_file()
        if not theirs and _is_new(group, name, settings):
            store.store(group=group, name=name, node=settings)


_stored: dict[tuple[str, str], Any] = {}


def _is_new(group: str, name: str, settings: Any) -> bool:
    """Whether Hydra has not been told this already: it takes a millisecond for each, on every call of a command."""
    if (group, name) in _stored and _stored[group, name] == settings:
        return False
    _stored[group, name] = settings
    return True


@contextlib.contextmanager
def hydra_ready(folder: str | None = None) -> Iterator[Any]:
    """Inside, Hydra composes; also where it is at work already, as in a job of a multirun.

    folder: of the user's configurations.
    """
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(Path(folder).absolute() if folder else NO_FILES), version_base="1.3"):
            yield GlobalHydra.instance().hydra
    finally:
        GlobalHydra.instance().hydra = outer


def composed(name: str, overrides: Sequence[str]) -> Any:
    """The settings that overrides give, inside `hydra_ready`; interpolations of Hydra's own (`${hydra:...}`) too.

    Raises:
      HydraException, OmegaConfBaseException: an unknown key, a value of the wrong type (`errors.one_line` reads them).
      ValueError: what Hydra cannot compose at all.
    """
    from hydra import compose
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import open_dict

    try:
        config = compose(name, list(overrides), return_hydra_config=True)
    except (
        OSError,
        RecursionError,
        AttributeError,
        TypeError,
    ) as error:
        got = f"{type(error).__name__}: {str(error)[:80]}"
        raise ValueError(f"settings: expected values that can be composed, got {got}") from error
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        del config["hydra"]
    return config


def shows(options: argparse.Namespace) -> bool:
    """Whether something is only to be shown."""
    return bool(options.cfg or options.info or options.hydra_help)


def show(hydra: Any, options: argparse.Namespace, name: str, overrides: list[str]) -> None:
    """Print what --cfg, --info, or --hydra-help ask for."""
    if options.cfg:
        hydra.show_cfg(name, overrides, options.cfg, options.package, options.resolve)
    elif options.info:
        hydra.show_info(options.info, name, overrides)
    else:
        hydra.hydra_help(name, parser(), options)


def launch(hydra: Any, name: str, overrides: Sequence[str], folder: Path, task: Callable[[Any], None]) -> None:
    """One call of `task` per value, by Hydra's sweeper and launcher (`hydra/launcher=joblib`)."""
    further = (f"hydra.sweep.dir='{folder}'", "hydra.sweep.subdir=.", "hydra.mode=MULTIRUN")
    hydra.multirun(config_name=name, task_function=task, overrides=[*overrides, *further])


def expand(overrides: list[str]) -> Iterator[list[str]]:
    """The jobs of a multirun: the product of all comma-separated choices, in Hydra's order."""
    from itertools import product

    choices = [
        [f"{parsed.get_key_element()}={value}" for value in parsed.sweep_string_iterator()]
        if parsed.is_sweep_override()
        else [parsed.input_line or ""]
        for parsed in _parsed(overrides)
    ]
    for job in product(*choices):
        yield list(job)


def swept_keys(overrides: Sequence[str]) -> list[str]:
    """The keys that differ from run to run of a multirun."""
    return [one.get_key_element().lstrip("+~") for one in _parsed(overrides) if one.is_sweep_override()]


def _parsed(overrides: Sequence[str]) -> list[Any]:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_overrides(list(overrides))
