"""Settings in the scripts that people paste: shell command lines and Python calls. Nothing is executed.

Shell: `key=value` (Hydra) and `--key value`, `--key=value`, with the script's own plain variables put in and
`$((a * b))` worked out; the Python program that is run first is `program`. Python: literal keyword arguments of calls
whose name ends in `Config` or `Arguments`, and names bound to literals before.
"""

import ast
import re
import shlex
from typing import Any

_VARIABLE = re.compile(r"^\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)=(\S.*?|)\s*(?:#.*)?$")
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)(?::?-([^}]*))?\}|\$([A-Za-z_]\w*)")
_SUM = re.compile(r"\$\(\(([^()$]{1,200})\)\)")
_PROGRAM = re.compile(r"(?:\s-m|\bpython[\d.]{0,6})\s{1,20}([\w./]{1,200})")
_LONGEST_LINE = 20_000


def from_shell(text: str) -> dict[str, Any]:
    """Settings of a shell script or of `key=value` lines; the last one wins. Raises ValueError for none."""
    variables: dict[str, str] = {}
    found: dict[str, Any] = {}
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        if len(line) > _LONGEST_LINE or line.lstrip().startswith("#"):
            continue
        assigned = _VARIABLE.match(line)
        if assigned and "." not in assigned[1]:
            variables[assigned[1]] = _filled(assigned[2].strip("'\""), variables)
        line = _filled(line, variables)
        found |= _words(line)
        if found and (program := _PROGRAM.search(line[:2000])) is not None:
            found.setdefault("program", program[1])
    return found


def _filled(text: str, variables: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return variables.get(name, match[2] if match[2] is not None else match[0])[:400]

    return _SUM.sub(lambda match: _worked_out(match[1], variables), _REFERENCE.sub(value, text))


def _worked_out(expression: str, variables: dict[str, str]) -> str:
    """A product or sum of integers, or the text unchanged."""
    bare = re.sub(r"[A-Za-z_]\w*", lambda match: variables.get(match[0], match[0]), expression)
    if not re.fullmatch(r"[\d\s+\-*/()]{1,200}", bare) or "**" in bare or re.search(r"\d{10}", bare):
        return expression
    try:
        return str(_arithmetic(ast.parse(bare.replace("//", "/").strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return expression


def _arithmetic(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _arithmetic(node.left), _arithmetic(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return left // right
    raise ValueError("neither a number nor a sum of numbers")


def _words(line: str) -> dict[str, Any]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    found: dict[str, Any] = {}
    for place, word in enumerate(words):
        key, equals, value = word.partition("=")
        option = key.startswith("--")
        if not re.fullmatch(r"(?:--|\+{0,2})[A-Za-z_][\w.\-]*", key):
            continue
        name = key.lstrip("-+")
        if equals:
            found[name] = value.strip("[]").split(",") if re.fullmatch(r"\[[^\[\]]{1,400}\]", value) else value
        elif option:
            values: list[str] = []
            for following in words[place + 1 : place + 5]:
                if following.startswith("--") or (len(values) and not re.match(r"[\d.\-]", following)):
                    break
                values.append(following)
            found[name] = True if not values else values[0] if len(values) == 1 else values
    return found


def from_python(text: str) -> dict[str, Any]:
    """Literal keyword arguments of `...Config(...)` calls. Raises ValueError for a script that cannot be parsed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"expected a Python script, got one that cannot be parsed ({type(error).__name__})") from None
    names: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = _literal(node.value, names)
            if value is not None:
                names[node.targets[0].id] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith(("Config", "Arguments")):
            for keyword in node.keywords:
                value = _literal(keyword.value, names)
                if keyword.arg and value is not None:
                    found[keyword.arg] = value
    return found


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return list(value) if isinstance(value, tuple) else value if isinstance(value, bool | int | float | str) else None
