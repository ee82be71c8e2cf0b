"""Hydra: from the arguments of a command to its composed settings.

A command's configuration is made from its schema, with the variants that the schema names as defaults; the choices of a
group are made from the registries. Hydra looks into a folder of the user's (`--config-dir`) before both.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from bandit_lab.app.settings.config import SCHEMAS


def register(variants: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
    """Make known to Hydra the settings of every command, as `<command>_schema` and, with the variants that it starts
    from, as `<command>`; and these variants: (group, name, settings)."""
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
        if _is_new(group, name, settings):
            store.store(group=group, name=name, node=settings)


_stored: dict[tuple[str, str], Any] = {}


def _is_new(group: str, name: str, settings: Any) -> bool:
    """Whether Hydra has not been told this already: it takes a millisecond for each, on every call of a command."""
    if (group, name) in _stored and _stored[group, name] == settings:
        return False
    _stored[group, name] = settings
    return True


def with_hydra(name: str, arguments: Sequence[str], task: Callable[[Any], None]) -> None:
    """`hydra.main` with these arguments; also where it is at work already, as in a job of somebody else's.

    Raises:
      HydraException, OmegaConfBaseException: an unknown key, a value of the wrong type (`errors.one_line` reads them).
      ValueError: what Hydra cannot compose at all.
    """
    import hydra
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException

    def called(config: Any) -> None:
        task(config)

    outer, outer_config = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    GlobalHydra.instance().clear()
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["bandit_lab", *arguments], "1"  # else it prints and exits itself
    try:
        hydra.main(version_base="1.3", config_path=None, config_name=name)(called)()
    except HydraException:
        raise
    except (OSError, RecursionError, AttributeError, TypeError) as error:
        got = f"{type(error).__name__}: {str(error)[:80]}"
        raise ValueError(f"settings: expected values that can be composed, got {got}") from error
    finally:
        sys.argv = before
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = outer, outer_config
