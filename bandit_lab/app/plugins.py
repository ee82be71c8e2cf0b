"""Variants from outside the package: modules named by `'plugins=[...]'`, and entry points of installed packages.

They are imported before Hydra composes the settings. A variant of theirs is chosen by its name, `bandit=my_bandit`; its
options and their defaults are those of the function or class that builds it.
"""

import contextlib
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from bandit_lab._registry import Registry
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.settings.names import NAMES

MISSING = "???"


def registries() -> dict[str, Registry[Any]]:
    """Every registry by the setting that chooses from it."""
    import bandit_lab.grpo as grpo
    from bandit_lab.bandits import BANDITS

    learner: list[Registry[Any]] = [
        *(BANDITS, grpo.ADVANTAGES, grpo.ESTIMATORS, grpo.STALENESS, grpo.OPTIMIZERS),
        *(grpo.KL_ESTIMATORS, grpo.SAMPLERS, grpo.CORRECTIONS),
    ]
    return {registry.kind: registry for registry in learner}


def chosen_from() -> dict[str, Registry[Any]]:
    """The registry of every setting that chooses a variant."""
    from bandit_lab.app.engine import ENGINES

    return {"engine": ENGINES, **registries()}


def load(names: Iterable[str]) -> None:
    """Import entry points and these modules, which bring variants.

    Raises:
      ValueError: something that cannot be imported, a variant that exists already.
    """
    registries()
    _load_entry_points()
    for name in names:
        with _imported(f"plugins: expected modules that can be imported, got {name!r}"), _beside_working_directory():
            importlib.import_module(name)


def load_for_hydra(command: str, overrides: Sequence[str]) -> None:
    """The same of the modules that overrides name. Hydra, which has our variants and what each command begins with from
    `conf/`, then knows theirs, and the types of a command's settings as `<command>_schema`."""
    from hydra.core.config_store import ConfigStore

    load(named(overrides))
    store: Any = ConfigStore.instance()
    # Hydra would copy all of it for every composition, though it copies again whatever it loads: half of the time.
    store.__deepcopy__ = lambda memo: store
    store.store(name=f"{command}_schema", node=SCHEMAS[command])
    for group, name, node in _from_outside(overrides):
        store.store(group=group, name=name, node=node)


@contextlib.contextmanager
def _beside_working_directory() -> Iterator[None]:
    """Inside, modules of the working directory are found, behind all others; elsewhere code there is not looked at."""
    here = str(Path.cwd())
    added = "" not in sys.path and here not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added:
            sys.path.remove(here)


@lru_cache(maxsize=1)
def _load_entry_points() -> None:
    for point in metadata.entry_points(group="bandit_lab.variants"):
        source = f"{point.value!r} of {point.dist.name if point.dist else 'an unknown package'}"
        with _imported(f"entry point {point.name}: expected one that can be imported, got {source}"):
            point.load()


@contextlib.contextmanager
def _imported(complaint: str) -> Iterator[None]:
    try:
        yield
    except ValueError:  # a registry's: it names both places
        raise
    except Exception as error:
        raise ValueError(f"{complaint} ({type(error).__name__}: {error})") from error


def named(overrides: Iterable[str]) -> list[str]:
    """The modules that `'plugins=[...]'` among the overrides names; what is not a list is left to Hydra's check."""
    import yaml

    modules: list[str] = []
    for argument in overrides:
        key, _, text = argument.partition("=")
        with contextlib.suppress(yaml.YAMLError):
            value = yaml.safe_load(text) if key.lstrip("+") == "plugins" else None
            modules += [str(name) for name in value] if isinstance(value, list) else []
    return modules


def _from_outside(overrides: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(group, name, settings) of every variant that is not ours, and of every optimiser that the overrides choose."""
    for group, registry in chosen_from().items():
        yield from ((group, name, settings_of(registry, name)) for name in registry if name not in NAMES[group])
    for argument in overrides:
        group, _, names = argument.partition("=")
        for name in map(str.strip, names.split(",")) if group == "optimizer" else ():
            if re.fullmatch(r"\w+", name) and name not in NAMES[group]:
                yield group, name, {"name": name, "options": {}}


def settings_of(registry: Registry[Any], name: str) -> dict[str, Any]:
    """The settings of a variant: what its builder takes."""
    if registry.kind == "optimizer":
        return {"name": name, "options": {}}
    return {"name": name} | {key: _yaml_value(value) for key, value in registry.defaults(name).items()}


def _yaml_value(value: Any) -> Any:
    """A default as YAML has it; what YAML does not have has to be given."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_yaml_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _yaml_value(item) for key, item in value.items()}
    return MISSING
