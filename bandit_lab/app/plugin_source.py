"""The source of variants from outside the package, as hashes: a run that goes on must not mix two versions of one.

Hashed is what was imported, at the moment when `plugins.load` imported it: the module that registers the variant, and
what it imports from its own folder or package. Installed packages that it uses count by their names alone.
"""

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from bandit_lab._registry import Registry

_seen: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
_OURS = __name__.partition(".")[0]
_INSTALLED = frozenset(("site-packages", "dist-packages"))


def modules_of(name: str) -> list[str]:
    """A module and what it imports, directly or not, from its own package or from its folder; sorted."""
    first = _source_file(name)
    if first is None:
        return []
    root = first.parents[name.count(".") + (first.stem == "__init__")]

    def beside(one: str, file: Path) -> bool:
        if one.partition(".")[0] == name.partition(".")[0]:
            return True
        below = file.relative_to(root).parts if root in file.parents else _INSTALLED
        return one.partition(".")[0] != _OURS and not _INSTALLED & {root.name, *below}

    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        file = _source_file(one)
        if one in found or file is None or not beside(one, file):
            continue
        found.add(one)
        waiting += _imports(one, file)
        waiting += [inside for inside in tuple(sys.modules) if inside.startswith(f"{one}.")]
    return sorted(found)


def sources(names: Iterable[str]) -> dict[str, str]:
    """Module -> SHA-256 of its source, for these modules and what they import."""
    return {one: _hash(one) for name in names for one in modules_of(name)}


def outside(registries: Mapping[str, Registry[Any]], settings: Mapping[str, Any]) -> list[str]:
    """Modules that settings name as plug-ins, or that define a variant which they choose."""
    names = [str(name) for name in settings.get("plugins") or ()]
    for kind, registry in registries.items():
        chosen = settings.get(kind)
        name = chosen.get("name") if isinstance(chosen, Mapping) else chosen
        if isinstance(name, str) and name in registry:
            names.append(registry[name].__module__)
    return sorted({name for name in names if name.partition(".")[0] != _OURS})


def _source_file(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file).resolve() if file and file.endswith(".py") else None


def _hash(name: str) -> str:
    module, file = sys.modules[name], _source_file(name)
    if module not in _seen and file is not None:
        _seen[module] = hashlib.sha256(file.read_bytes()).hexdigest()
    return _seen[module]


def _imports(name: str, file: Path) -> Iterator[str]:
    """Imported modules that a module's source names: `a.b` also stands for `a`."""
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            named = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for one in named:
            parts = one.split(".")
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))
