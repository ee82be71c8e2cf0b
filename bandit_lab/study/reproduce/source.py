"""Which lines a function depends on: what makes a stored measurement out of date, and nothing else.

Followed are the function's own file and the parts of figures that it imports (`bandit_lab.study.figures`).
"""

import ast
from pathlib import Path

ROOM = "bandit_lab.study.figures"


def needed(source: str, name: str) -> list[ast.stmt]:
    """Top-level statements that the function `name` uses, directly or through others, in order of the file.

    Docstrings are left out. Raises ValueError where there is no such function.
    """
    body = ast.parse(source).body
    defined: dict[str, ast.stmt] = {}
    for statement in body:
        for binding in _bindings(statement):
            defined[binding] = statement
    if name not in defined:
        raise ValueError(f"{name}: expected a function of this name at the top of the file")
    kept: set[int] = set()
    waiting = [name]
    while waiting:
        statement = defined[waiting.pop()]
        if id(statement) in kept:
            continue
        kept.add(id(statement))
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        waiting += [other for other in used if other in defined]
    return [_without_docstring(statement) for statement in body if id(statement) in kept]


def reached(source: str, name: str) -> list[list[ast.stmt]]:
    """`needed` of the file itself, then of every function or constant of the room that it leads to.

    Raises ValueError where the room is imported otherwise than by name: what is used could not be told.
    """
    waiting, found, seen = [("", source, name)], [], set()
    while waiting:
        module, text, wanted = waiting.pop()
        if (module, wanted) in seen:
            continue
        seen.add((module, wanted))
        statements = needed(text, wanted)
        used = {node.id for one in statements for node in ast.walk(one) if isinstance(node, ast.Name)} | {wanted}
        for other, binding, original in _from_room(statements):
            if binding in used:
                waiting.append((other, _text_of(other), original))
        found.append(statements)
    return found


def text(source: str, name: str) -> str:
    """All statements reached as text, without comments: changes if and only if their code does."""
    return "\n".join(ast.unparse(statement) for statements in reached(source, name) for statement in statements)


def imported(source: str, name: str) -> set[str]:
    """Dotted names of what the function `name` imports or uses of modules: `bandit_lab.theory.exact`, ..."""
    return {one for statements in reached(source, name) for one in _imported(statements)}


def _imported(statements: list[ast.stmt]) -> set[str]:
    names: dict[str, str] = {}
    found = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id in names:
            found.add(names[node.id])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            found.add(f"{names[node.value.id]}.{node.attr}")
    return found


def _from_room(statements: list[ast.stmt]) -> list[tuple[str, str, str]]:
    """(module, name here, name there) of everything that is imported from the room."""
    found = []
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Import):
            whole = [alias.name for alias in node.names if alias.name.startswith(ROOM)]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ROOM):
            module = str(node.module)
            whole = [f"{module}.{alias.name}" for alias in node.names if _path(f"{module}.{alias.name}").exists()]
            found += [(module, alias.asname or alias.name, alias.name) for alias in node.names]
        else:
            continue
        if whole:
            raise ValueError(f"import: expected `from {whole[0]} import <names>`, got the whole module")
    return found


def _path(module: str) -> Path:
    """File of a module of the package."""
    return Path(__file__).resolve().parents[2].joinpath(*module.split(".")[1:]).with_suffix(".py")


def _text_of(module: str) -> str:
    return _path(module).read_text(encoding="utf-8")


def question(source: str) -> str:
    """First line of a module's docstring; empty where there is none."""
    return (ast.get_docstring(ast.parse(source)) or "").strip().split("\n")[0]


def _bindings(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return []


def _without_docstring(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(statement) is not None:
        statement.body = statement.body[1:] or [ast.Pass()]
    return statement
