"""Whether a run folder may be worked in: by the configuration that it was begun with, or anew with `overwrite=true`."""

from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.study.chunks import ChunkStore, hash_of
from bandit_lab.study.chunks.store import SETTINGS
from bandit_lab.study.folder import written
from bandit_lab.study.folder.store import check_manifest

NEW, BEGUN, FINISHED = "new", "begun", "finished"


def state(folder: Path, settings: dict[str, Any], overwrite: bool) -> str:
    """`new`, `begun` (its finished chunks can be used; some may have failed) or `finished`. Only reads.

    settings: everything that decides the results, as plain values.

    Raises:
      ValueError: the folder holds a run of another configuration, finished or not, and `overwrite` is false.
    """
    if overwrite:
        return NEW
    store, found = ChunkStore(folder), written.look(folder)
    check_manifest(folder, found)
    before, manifest = store.settings(), found.manifest
    if manifest is not None:
        same = manifest.get("settings_hash") == hash_of(settings)
        edited = _edited(manifest, settings)
        another = f"source of the plug-in {', '.join(edited)}" if edited else "configuration"
        got = f"a finished run of another {another} in {folder}"
        _checks.require(same, "run_dir", "a new folder, or overwrite=true", got)
        return BEGUN if manifest["chunks"]["failed"] else FINISHED
    if SETTINGS in store.damaged():
        place = store.folder / SETTINGS
        advice = "one that can be read; remove it to go on with the finished chunks that fit, or overwrite=true"
        _checks.require(False, "run_dir", advice, f"a damaged {place}")
    if before is None:
        return BEGUN if store.records() else NEW
    text = f"one begun with another configuration (differs in {', '.join(differing(before, settings))})"
    if edited := _edited(before, settings):
        text = f"one begun with another source of the plug-in {', '.join(edited)}"
    _checks.require(before == settings, "run_dir", "the configuration that it was begun with, or overwrite=true", text)
    return BEGUN


def differing(one: Any, other: Any, prefix: str = "") -> list[str]:
    """Dotted names of the entries in which two nested mappings differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix.rstrip(".") or "everything"]
    names = sorted({*one, *other})
    return [found for name in names for found in differing(one.get(name), other.get(name), f"{prefix}{name}.")]


def _edited(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Plug-ins that both runs used and whose source differs."""
    old, new = before.get("plugin_source") or {}, now.get("plugin_source") or {}
    return [name for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
