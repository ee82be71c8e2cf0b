"""Variants from outside the package: modules named by `'plugins=[...]'`, and entry points of installed packages.

They are imported before Hydra composes the settings. A variant of theirs is chosen by its name, `bandit=my_bandit`; its
options and their defaults are those of `conf/bandit/my_bandit.yaml` beside its module, if there is one, else those of
the function or class that builds it.
"""

import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from bandit_lab._registry import Registry
from bandit_lab.app.settings import compose
from bandit_lab.app.settings.config import CHOICES

ENTRY_POINTS = "bandit_lab.variants"
_brought: set[str] = set()
MISSING = "???"


def registries() -> dict[str, Registry[Any]]:
    """Every registry by the setting that chooses from it."""
    from bandit_lab.bandits import BANDITS
    from bandit_lab.grpo import (
        ADVANTAGES,
        CORRECTIONS,
        ESTIMATORS,
        KL_ESTIMATORS,
        OPTIMIZERS,
        SAMPLERS,
        STALENESS,
    )

    learner: list[Registry[Any]] = [
        BANDITS,
        ADVANTAGES,
        ESTIMATORS,
        STALENESS,
        OPTIMIZERS,
        KL_ESTIMATORS,
        SAMPLERS,
        CORRECTIONS,
    ]
    return {registry.kind: registry for registry in learner}


def chosen_from() -> dict[str, Registry[Any]]:
    """Of every setting that chooses a variant: from what."""
    from bandit_lab.app.engine import ENGINES

    return {"engine": ENGINES, **registries()}


def load(names: Iterable[str]) -> None:
    """Import entry points and these modules, which bring variants.

    Raises:
      ValueError: something that cannot be imported, that registers nothing, a variant that exists already.
    """
    registries()
    _load_entry_points()
    with _beside_working_directory():
        for name in names:
            before = _variants()
            _guarded(
                f"plugins: expected modules that can be imported, got {name!r}", partial(importlib.import_module, name)
            )
            _check_registers(name, _variants() > before)


def load_for_hydra(overrides: Iterable[str], folder: str | None = None) -> None:
    """The same of the modules that overrides name, and make every variant and every chosen name known to Hydra.

    folder: of the user's configurations, whose choices stand before ours.
    """
    load(named(overrides))
    compose.register([*_choices(overrides, folder)], folder)


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


def _variants() -> int:
    return sum(len(list(registry)) for registry in Registry.imported)


def _check_registers(name: str, brought: bool) -> None:
    """Raise ValueError if a module brought no variant, neither now nor when it was imported before."""
    _brought.update([name] if brought else [])
    brought = name in _brought or any(
        registry[one].__module__ == name for registry in Registry.imported for one in registry
    )
    got = f"{name!r}, in which nothing is decorated with @register_bandit(...), @register_advantage(...), ..."
    if not brought:
        raise ValueError(f"plugins: expected modules that register a variant, got {got}")


def announced() -> list[metadata.EntryPoint]:
    """Entry points of installed packages."""
    return list(metadata.entry_points(group=ENTRY_POINTS))


@lru_cache(maxsize=1)
def _load_entry_points() -> None:
    for point in announced():
        source = f"{point.value!r} of {point.dist.name if point.dist else 'an unknown package'}"
        _guarded(f"entry point {point.name}: expected one that can be imported, got {source}", point.load)


def _guarded(complaint: str, do: Callable[[], object]) -> None:
    try:
        do()
    except ValueError:  # a registry's: it names both places
        raise
    except Exception as error:
        raise ValueError(f"{complaint} ({type(error).__name__}: {error})") from error


def named(overrides: Iterable[str]) -> list[str]:
    """The modules that `'plugins=[...]'` among the overrides names; what is not a list is left to Hydra's check."""
    modules: list[str] = []
    for argument in overrides:
        if not re.match(r"\+{0,2}plugins=", argument):
            continue
        from hydra.core.override_parser.overrides_parser import OverridesParser
        from hydra.core.override_parser.types import ChoiceSweep
        from hydra.errors import HydraException

        try:
            parsed = OverridesParser.create().parse_override(argument)
        except HydraException:
            continue
        values: Any = parsed.value()
        for value in values.list if isinstance(values, ChoiceSweep) else [values]:
            modules += [str(name) for name in value] if isinstance(value, list) else []
    return modules


def as_modules(argument: str) -> str:
    """`plugins=mad.py` and `'plugins=[mad.py,./other.py]'` as the list of modules that is meant; all else as it is."""
    key, _, value = argument.partition("=")
    if key.lstrip("+") != "plugins" or not re.fullmatch(r"\[?[\w./, ]+\]?", value):
        return argument
    return f"{key}=[{','.join(module_named(name) for name in value.strip('[]').split(','))}]"


def module_named(name: str) -> str:
    """`mad` of `mad.py` or `./mad.py`, files of the working directory; other names as they are."""
    return re.sub(r"^(?:\./)?(\w+)\.py$", r"\1", name.strip())


def check_not_forgotten(registry: Registry[Any], name: str) -> None:
    """Raise ValueError if a file of the working directory seems to hold this unknown variant: nobody imported it."""
    group = registry.kind
    registers = re.compile(rf"register_{group.partition('_')[0]}\w*\(\s*['\"]{name}['\"]")
    for file in filter(Path.is_file, sorted(Path().glob("*.py"))):
        named = file.stem == name and group != "optimizer"  # optax may have one of this name
        if named or registers.search(file.read_text(encoding="utf-8", errors="replace")):
            beside = f"'plugins=[{file.stem}]' beside it, which imports {file.name}"
            raise ValueError(f"{group}: expected one of {', '.join(registry)}, or {beside}, got {name!r}")


def _choices(overrides: Iterable[str], folder: str | None) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(group, name, settings) of every variant, and of every other name that the overrides choose: an optimiser of
    optax, or a mistake that is judged where the variant is built."""
    every = chosen_from()
    known = {group: every[group] for group in CHOICES if group in every}
    for group, registry in known.items():
        yield from ((group, name, settings_of(registry, name)) for name in registry)
    for argument in overrides:
        group, _, names = argument.partition("=")
        for name in map(str.strip, names.split(",")) if group in known else ():
            if re.fullmatch(r"\w+", name) and name not in known[group]:
                if folder is None or not Path(folder, group, f"{name}.yaml").is_file():
                    check_not_forgotten(known[group], name)
                yield group, name, {"name": name} | ({"options": {}} if group == "optimizer" else {})


def settings_of(registry: Registry[Any], name: str) -> dict[str, Any]:
    """The settings of a variant: what its builder takes, or its own YAML file if its author wrote one."""
    file = _own_yaml(registry, name)
    if file is not None:
        from omegaconf import OmegaConf

        return dict(OmegaConf.to_container(OmegaConf.load(file)))  # type: ignore[arg-type]
    if registry.kind == "optimizer":
        return {"name": name, "options": {}}
    return {"name": name} | {key: yaml_value(value) for key, value in registry.defaults(name).items()}


def _own_yaml(registry: Registry[Any], name: str) -> Path | None:
    try:
        source = inspect.getsourcefile(inspect.unwrap(registry[name]))
    except (TypeError, OSError):  # built in, or a class of a notebook
        return None
    file = Path(source or ".").parent / "conf" / registry.kind / f"{name}.yaml"
    return file if file.is_file() else None


def yaml_value(value: Any) -> Any:
    """A default as YAML has it; what YAML does not have has to be given."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [yaml_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): yaml_value(item) for key, item in value.items()}
    return MISSING
