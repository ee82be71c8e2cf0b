"""Dependencies of a function in an experiment's file, read from the text of the file.

Prediction and measurement are independent witnesses: what `predict` reaches uses nothing that simulates or measures,
what `measure` reaches nothing of the theory, and what draws and compares neither.

A function reaches what it names: functions, constants and imports at the top of the file, and what these name. Of a
file that experiments share (`experiments.shared.readings`) it reaches everything.
"""

import ast
import symtable
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from bandit_lab.app.settings.config import beside_package

SIMULATION = ("bandit_lab.measure", "bandit_lab.simulation", "experiments.shared.measure")
THEORY = ("bandit_lab.theory", "bandit_lab.lab.predict.fixed_point", "experiments.shared.theory")
FORBIDDEN = {
    "predict": SIMULATION,
    "measure": THEORY,
    "draw": SIMULATION + THEORY,
    "trained": SIMULATION + THEORY,
    "table": SIMULATION + THEORY,
    "CLAIMS": SIMULATION + THEORY,
}
"""By name at the top of a file: modules of which nothing may be used, also not by helpers."""
UNTOLD = ("importlib", "sys.modules", "__import__", "eval", "exec", "globals")
"""Ways to a module that cannot be told from the text."""


@lru_cache  # an experiment is loaded by everything that asks about its claims
def check_witnesses(source: str) -> None:
    """Raise ValueError where prediction and measurement are not independent, see `FORBIDDEN`."""
    defined = {name for statement in _read(source)[0] for name in _bindings(statement)}
    for name, forbidden in FORBIDDEN.items():
        for used, line in _uses(source, name) if name in defined else ():
            for target in (used, *_imported_names(_shared(used))):
                wrong = any(_within(target, one) or _within(one, target) for one in forbidden)
                if wrong or any(_within(target, one) for one in UNTOLD):
                    allowed = f"nothing of {', '.join(forbidden)} and no import by text"
                    raise ValueError(f"{name}: expected {allowed}, got {target} in line {line}")


def _uses(source: str, name: str) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of all that `name` reaches in modules and builtins: `bandit_lab.theory.exact`, `max`, ...

    Imports inside functions count even if nothing uses them. Raises ValueError for `from module import *`.
    """
    statements = _reached(source, name)
    top = [entry for one, _ in statements if isinstance(one, ast.Import | ast.ImportFrom) for entry in _imported(one)]
    for statement, names in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        inside = [node for node in ast.walk(statement) if isinstance(node, ast.Import | ast.ImportFrom)]
        yield from ((target, node.lineno) for node in inside for target in _import_targets(node))
        imports = dict(top) | dict(entry for node in inside for entry in _imported(node))
        owners = {id(node.value) for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in owners:
                first, _, rest = _dotted(node).partition(".")
                if first in names or first in imports:
                    yield ".".join(filter(None, (imports.get(first, first), rest))), node.lineno


def _reached(source: str, name: str) -> list[tuple[ast.stmt, set[str]]]:
    """Statements at the top of the file that `name` depends on, in order of the file, each with the names it uses.

    Raises ValueError where nothing of this name is defined.
    """
    body, within = _read(source)
    defined: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for binding in _bindings(statement):
            defined.setdefault(binding, []).append(statement)
    if name not in defined:
        raise ValueError(f"{name}: expected a function of this name at the top of the file")
    waiting, uses = [name], {}
    while waiting:
        for statement in defined.pop(waiting.pop(), []):
            uses[statement] = _named(statement)
            if isinstance(statement, ast.FunctionDef):  # what is local to it leads nowhere
                header = [statement.args, *statement.decorator_list, *filter(None, [statement.returns])]
                uses[statement] = within[statement.name].union(*map(_named, header))
            waiting += uses[statement]
    return [(statement, uses[statement]) for statement in body if statement in uses]


@lru_cache  # every experiment that reads numbers off curves asks
def _shared(used: str) -> tuple[Path, ...]:
    """The file beside the experiments that a dotted name is of, and those that it imports; none for other names."""
    paths: list[Path] = []
    waiting = [used]
    while waiting:
        first, *rest = waiting.pop().split(".")
        places = [Path(*rest[:end]).with_suffix(".py") for end in range(len(rest), 1, -1)]
        for place in places if first == "experiments" else ():
            path = beside_package("experiments", "*.py") / place
            if path.is_file() and path not in paths:
                paths.append(path)
                waiting += _imported_names((path,))
    return tuple(paths)


def _imported_names(files: tuple[Path, ...]) -> list[str]:
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return [name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in _import_targets(node)]


@lru_cache(maxsize=4)  # one after another every part of a file is looked at
def _read(source: str) -> tuple[list[ast.stmt], dict[str, set[str]]]:
    """Statements at the top of a file, not to be changed; and the names that each function takes from there."""
    within: dict[str, set[str]] = {}
    for scope in symtable.symtable(source, "<experiment>", "exec").get_children():
        within.setdefault(scope.get_name(), set()).update(_global(scope))
    return ast.parse(source).body, within


def _named(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _global(table: symtable.SymbolTable) -> set[str]:
    """Names that a function takes from its file or the builtins, those of functions inside it too."""
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return names.union(*map(_global, table.get_children()))


def _bindings(statement: ast.stmt) -> set[str]:
    """Names that lead to a statement at the top of a file.

    Those are what it defines. A statement that may change what exists (`x.update(...)`, a loop, a condition) is led to
    by all that it names.
    """
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        shared = [node.names for node in ast.walk(statement) if isinstance(node, ast.Global)]
        return {statement.name}.union(*shared)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {name for name, _ in _imported(statement)}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    if targets and all(isinstance(target, ast.Name | ast.Tuple | ast.List) for target in targets):
        return set().union(*map(_named, targets))
    names = _named(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            names |= _bindings(node)
    return names


def _imported(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """(name here, dotted name that it stands for) of everything that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        if any(alias.name == "*" for alias in node.names):
            raise ValueError(f"import: expected names, got `from {node.module} import *` in line {node.lineno}")
        return [(alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names]
    return [(one.asname, one.name) if one.asname else (one.name.split(".")[0],) * 2 for one in node.names]


def _import_targets(node: ast.Import | ast.ImportFrom) -> list[str]:
    prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [prefix + alias.name for alias in node.names]


def _dotted(node: ast.AST) -> str:
    """`a.b.c` where a node is that, else empty."""
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return owner and f"{owner}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")
