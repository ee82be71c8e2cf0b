"""Which lines of a module a function depends on: what makes a stored measurement out of date, and nothing else."""

import ast


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


def text(source: str, name: str) -> str:
    """Those statements as text, without comments: changes if and only if their code does."""
    return "\n".join(ast.unparse(statement) for statement in needed(source, name))


def imported(source: str, name: str) -> set[str]:
    """Dotted names of what the function `name` imports or uses of modules: `bandit_lab.theory.exact`, ..."""
    statements = needed(source, name)
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


def question(source: str) -> str:
    """First line of a module's docstring; empty where there is none."""
    return (ast.get_docstring(ast.parse(source)) or "").strip().split("\n")[0]


def _bindings(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return []


def _without_docstring(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(statement) is not None:
        statement.body = statement.body[1:] or [ast.Pass()]
    return statement
