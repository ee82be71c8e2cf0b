"""Lines of the package, the experiments and the benchmarks, a row per room; `--rooms` also shows the rooms inside."""

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("code", "docstrings", "imports", "blank and comments")


def kinds(text: str) -> Counter[str]:
    """Lines of a file by kind."""
    tree, kind = ast.parse(text), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kind |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "docstrings")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            kind |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "imports")
    for number, line in enumerate(text.splitlines(), start=1):
        if number not in kind:
            kind[number] = "blank and comments" if not line.strip() or line.lstrip().startswith("#") else "code"
    return Counter(kind.values())


def room(path: Path, depth: int) -> str:
    """The folder that a file belongs to, at most so many levels down."""
    return "/".join(path.relative_to(ROOT).parts[:-1][:depth])


def main() -> None:
    """Print the table."""
    rooms: dict[str, Counter[str]] = {}
    depth = 3 if "--rooms" in sys.argv else 2
    for path in (path for top in ("bandit_lab", "experiments", "benchmarks") for path in (ROOT / top).rglob("*.py")):
        rooms.setdefault(room(path, depth), Counter(files=0)).update(kinds(path.read_text()) + Counter(files=1))
    whole = Counter[str]()
    for name, found in rooms.items():
        whole.update(found if name.startswith("bandit_lab") else {})
    print(f"| room | files | lines | {' | '.join(KINDS)} |\n|---|---|---|{'---|' * len(KINDS)}")
    order = sorted(rooms.items(), key=lambda one: -one[1].total())
    for name, found in [("the package", whole), *order]:
        lines = [found[kind] for kind in KINDS]
        print(f"| {name} | {found['files']} | {sum(lines):,} | {' | '.join(f'{n:,}' for n in lines)} |")


if __name__ == "__main__":
    main()
