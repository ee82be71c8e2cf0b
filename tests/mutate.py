"""A mutation tester: which small mistakes in the code would no short test see?

    python tests/mutate.py --rooms theory measure runs grpo --sample 120 --seed 0

A mutant is one file with one expression changed: a comparison, an operator, a constant (defaults of options too), a
condition or the branch that it decides, a dropped term, min for max, an option that a call no longer hands on, two
names exchanged, the part of an array that comes next. A random sample of all mutants is taken. Each is written into a
copy of the tree in a temporary folder, never in place, and the short tests that concern its file are run there, in a
process of their own, up to the first failure. A test that fails without any mutant, too, counts for nothing. Printed
are killed and survived mutants with their line, and the share that was killed with its 90 % interval.

Which tests concern a mutant: those whose test file imports its file, in few steps, and uses the functions that reach
it. Names that a package passes on are followed to the module that defines them. The `--files` nearest test files are
run, tests that name such a function first, for at most `--budget` seconds. So a survivor may still be seen by the whole
suite: larger numbers tell, which a loaded machine needs as well. `survived (time)`: not seen when the time was up, or
it hangs. Not mutated are texts, annotations, errors that are raised, and numbers below 1e-6 or above 1e6.
"""

import argparse
import ast
import importlib
import inspect
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from scipy import stats

PACKAGE = "bandit_lab"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", "outputs", "multirun", ".*_cache", "*.png")

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Div,), ast.Mod: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
TERMS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
"""Operators whose right-hand side can be dropped."""
_PAIRS = (("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("floor", "ceil"),
          ("sin", "cos"), ("argsort", "argmax"))  # fmt: skip
CALLS = dict(_PAIRS) | {other: one for one, other in _PAIRS}
DROPPED_CALLS = ("sqrt", "abs", "exp", "log", "square", "real", "clip")


LIBRARIES = ("jax.numpy", "optax", "scipy.optimize", "scipy.special", "scipy.stats", "scipy.integrate", "hypothesis")
"""Imported once, before the first fork."""


@dataclass(frozen=True)
class Nearest:
    """A plugin of pytest: tests whose text names what is mutated first, then those that name its module's others."""

    files: list[str]
    names: tuple[set[str], set[str]]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=self._rank)

    def _rank(self, item: pytest.Item) -> tuple[int, int]:
        text = inspect.getsource(getattr(item, "function", type(item)))
        words = set(re.findall(r"\w+", text))
        far = next((place for place, names in enumerate(self.names) if words & names), len(self.names))
        return far, self.files.index(str(item.path)) if str(item.path) in self.files else 0


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of the file at `path` (relative) become `text`."""

    path: str
    line: int
    start: int
    end: int
    before: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_short(self.before)}  ->  {_short(self.text)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:87] + "..."


def variants(node: ast.AST) -> Iterator[ast.expr]:
    """Every change of this one node, its children as they are."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in OPERATORS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            for other in OPERATORS.get(type(op), ())[:1]:
                yield ast.Compare(node.left, [*node.ops[:place], other(), *node.ops[place + 1 :]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(OPERATORS[type(node.op)][0](), node.values)
    elif isinstance(node, ast.BinOp):
        for other in OPERATORS.get(type(node.op), ()):
            yield ast.BinOp(node.left, other(), node.right)
        if isinstance(node.op, TERMS):
            yield node.left
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        if node.value == 0 or 1e-6 <= abs(node.value) <= 1e6:
            whole = isinstance(node.value, int) or node.value == 0
            yield ast.Constant(node.value + 1 if whole else node.value * 2)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from _next_parts(node)
    elif isinstance(node, ast.Call):
        yield from _other_arguments(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in CALLS and isinstance(node.func, ast.Attribute):
            yield ast.Call(ast.Attribute(node.func.value, CALLS[name]), node.args, node.keywords)
        elif name in CALLS and isinstance(node.func, ast.Name):
            yield ast.Call(ast.Name(CALLS[name]), node.args, node.keywords)
        elif name in DROPPED_CALLS and node.args:
            yield node.args[0]


def _other_arguments(node: ast.Call) -> Iterator[ast.expr]:
    """The call without one of its options, or with two neighbouring names exchanged."""
    for place, option in enumerate(node.keywords):
        if option.arg is not None:
            yield ast.Call(node.func, node.args, [*node.keywords[:place], *node.keywords[place + 1 :]])
    for place, pair in enumerate(pairwise(node.args)):
        if all(isinstance(one, ast.Name) for one in pair):
            yield ast.Call(node.func, [*node.args[:place], *reversed(pair), *node.args[place + 2 :]], node.keywords)


def _next_parts(node: ast.Subscript) -> Iterator[ast.expr]:
    """`x[:n]` as `x[n : 2 * n]`, and `x[:n, :n]` so along both axes: the numbers that stand behind the right ones."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    starts = [one for one in parts if isinstance(one, ast.Slice) and one.upper and not one.lower and not one.step]
    if starts and len(starts) == len(parts):
        twice = [ast.Slice(one.upper, ast.BinOp(ast.Constant(2), ast.Mult(), one.upper)) for one in starts if one.upper]
        yield ast.Subscript(node.value, ast.Tuple(twice) if len(twice) > 1 else twice[0])


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """This node and what is in it, without what is not mutated."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.pattern):
        return
    yield node
    left_out = {"annotation", "returns", "decorator_list", "bases"}
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in left_out:
                yield from _inside(child)


def mutants(root: Path, path: str) -> list[Mutant]:
    """All mutants of one file, in order."""
    source = (root / path).read_bytes()
    tree = ast.parse(source)
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []
    for node in _inside(tree):
        place = node
        changed = list(variants(node))
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            place, changed = node.test, [ast.UnaryOp(ast.Not(), node.test)]
        for new in changed:
            start = lines[place.lineno - 1] + place.col_offset
            end = lines[place.end_lineno - 1] + place.end_col_offset
            found.append(Mutant(path, place.lineno, start, end, source[start:end].decode(), f"({ast.unparse(new)})"))
    return found


def names_of(source: bytes, line: int) -> tuple[set[str], set[str]]:
    """Public names through which tests reach a line of a file: those that use it, and all others that it defines."""
    uses: dict[str, set[str]] = {}
    for node in ast.parse(source).body:
        name = getattr(node, "name", "")
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            name = getattr(target, "id", name)
        inside = {word for part in ast.walk(node) for word in (getattr(part, "id", ""), getattr(part, "attr", ""))}
        if name:
            uses[name] = inside
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            reached = {name}
    for _ in uses:
        reached |= {name for name, inside in uses.items() if inside & reached}
    public = {name for name in uses if not name.startswith("_")}
    return reached & public, public - reached


@dataclass
class Imports:
    """Who imports whom among the package's modules and the tests, names that a package passes on followed."""

    root: Path
    modules: dict[str, Path] = field(default_factory=dict)
    imported: dict[Path, set[str]] = field(default_factory=dict)
    passed_on: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted((self.root / PACKAGE).rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            self.modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        known = set().union(*(self.of(path) for path in self.modules.values()))
        for module in self.modules.keys() - known:  # variants, which are loaded by the names of their files
            package = module.rpartition(".")[0]
            for loader in self.modules.keys() & {package, f"{package}.base"}:
                self.of(self.modules[loader]).add(module)

    def origin(self, package: str, name: str) -> str | None:
        """The module that `from package import name` leads to."""
        if f"{package}.{name}" in self.modules:
            return f"{package}.{name}"
        if package not in self.modules:
            return None
        if package not in self.passed_on:
            self.passed_on[package] = {
                alias.asname or alias.name: (node.module, alias.name)
                for node in ast.walk(ast.parse(self.modules[package].read_bytes()))
                if isinstance(node, ast.ImportFrom) and node.module in self.modules
                for alias in node.names
            }
        further = self.passed_on[package].get(name)
        return self.origin(*further) if further else package

    def of(self, path: Path) -> set[str]:
        """Modules that a file imports; of a package that it imports as a whole, those whose names it uses."""
        if path in self.imported:
            return self.imported[path]
        found: set[str] = set()
        whole: dict[str, str] = {}
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    module = self.origin(node.module, alias.name)
                    found |= {module} if module else set()
                    if module == f"{node.module}.{alias.name}":
                        whole[alias.asname or alias.name] = module
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
                found |= {self.origin(whole[node.value.id], node.attr) or ""}
        self.imported[path] = found & self.modules.keys()
        return self.imported[path]

    def distances(self, test: Path) -> dict[str, int]:
        """Module -> number of imports between a test file and it."""
        found, queue = dict.fromkeys(self.of(test), 1), deque(self.of(test))
        while queue:
            module = queue.popleft()
            for other in self.of(self.modules[module]) - found.keys():
                found[other] = found[module] + 1
                queue.append(other)
        return found


class Bench:
    """A copy of the tree, and the tests that concern each file."""

    def __init__(self, root: Path, copy: Path, files: int, budget: float) -> None:
        self.copy, self.files, self.budget = copy, files, budget
        shutil.copytree(root, copy, ignore=LEFT_OUT, symlinks=True)
        imports = Imports(copy)
        self.near = {test: imports.distances(test) for test in sorted((copy / "tests").rglob("test_*.py"))}
        self.modules = {path: name for name, path in imports.modules.items()}
        self.sound: dict[str, bool] = {}
        self.writes = 0

    def concerned(self, path: str, names: set[str]) -> list[str]:
        """Test files that import the file at `path`: those that use these names, near ones, those of its room first."""
        module, room = self.modules[self.copy / path], Path(path).parts[1]
        reach = {test: near[module] for test, near in self.near.items() if module in near}
        silent = {test: not names & set(re.findall(r"\w+", test.read_text())) for test in reach}
        ranked = sorted(reach, key=lambda test: (reach[test] + 2 * silent[test], test.parent.name != room, test))
        return [str(test) for test in ranked[: self.files]]

    def judge(self, mutant: Mutant) -> str:
        """`killed`, `survived`, `survived (time)` or `survived (no test)`."""
        names = names_of((self.copy / mutant.path).read_bytes(), mutant.line)
        tests = self.concerned(mutant.path, names[0])
        if not tests:
            return "survived (no test)"
        path, unsound = self.copy / mutant.path, [f"--deselect={name}" for name, good in self.sound.items() if not good]
        source = path.read_bytes()
        self._write(path, source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
        try:
            status, failed = self._pytest([*tests, *unsound], Nearest(tests, names))
        finally:
            self._write(path, source)
        if status in (0, None):
            return "survived" if status == 0 else "survived (time)"
        if failed and failed not in self.sound:
            self.sound[failed] = self._pytest([str(self.copy / failed)])[0] in (0, None)
        return "killed" if self.sound.get(failed, True) else self.judge(mutant)

    def _pytest(self, arguments: list[str], *plugins: Nearest) -> tuple[int | None, str]:
        """(exit status of pytest in the copy, None if time was up; the test that failed), in a process of its own.

        It is forked, so that libraries are imported once for all mutants: most of a short test is their start.
        """
        with tempfile.TemporaryFile("w+") as out:
            child = os.fork()
            if child == 0:
                self._become_pytest(out.fileno(), arguments, plugins)
            until = time.monotonic() + self.budget
            try:
                while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                    if time.monotonic() > until:
                        return None, ""
                    time.sleep(0.05)
            finally:
                if ended[0] == 0:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
            out.seek(0)
            failed = [line.removeprefix("FAILED ") for line in out if line.startswith("FAILED ")]
        return ended[1], failed[0].strip().partition(" - ")[0] if failed else ""

    def _become_pytest(self, out: int, arguments: list[str], plugins: tuple[Nearest, ...]) -> None:
        """In the child; it never returns."""
        status = 1
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.chdir(self.copy)
            os.environ |= {"PYTHONPATH": str(self.copy), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            sys.path.insert(0, str(self.copy))
            options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
            status = int(pytest.main([*options, *arguments], plugins))
            status = 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _write(self, path: Path, content: bytes) -> None:
        """With a time of its own, by which Python tells whether what it compiled earlier is still that file."""
        path.write_bytes(content)
        self.writes += 1
        os.utime(path, (time.time() + 2 * self.writes,) * 2)


def main() -> None:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="+", default=["theory", "measure", "runs", "grpo"], help="folders")
    parser.add_argument("--sample", type=int, default=120, help="how many mutants; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--files", type=int, default=4, help="how many test files for one mutant")
    parser.add_argument("--budget", type=float, default=60, help="seconds for one mutant")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so long")
    parser.add_argument("--at", default="", help="only mutants whose line, FILE:LINE: ..., contains this text")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the tree")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # so that what runs and the copy go, too
    files = [f for room in asked.rooms for f in sorted((asked.root / PACKAGE / room).rglob("*.py"))]
    found = [m for f in files for m in mutants(asked.root, str(f.relative_to(asked.root))) if asked.at in str(m)]
    drawn = random.Random(asked.seed).sample(found, min(asked.sample or len(found), len(found)))
    print(f"{len(found)} mutants in {len(files)} files, {len(drawn)} drawn, seed {asked.seed}", flush=True)
    until, verdicts = time.monotonic() + 60 * asked.minutes, []
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # as the tests' conftest has it, which comes too late here
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(asked.root, Path(folder) / "copy", asked.files, asked.budget)
        for mutant in drawn:
            if time.monotonic() > until:
                print("stopped: out of time")
                break
            verdicts.append(bench.judge(mutant))
            print(f"{verdicts[-1]:18} {mutant}", flush=True)
    killed = sum(verdict.startswith("killed") for verdict in verdicts)
    if verdicts:
        ends = stats.binomtest(killed, len(verdicts)).proportion_ci(0.9, "exact")
        print(f"{killed} of {len(verdicts)} killed: {killed / len(verdicts):.0%} ({ends.low:.0%} to {ends.high:.0%})")


if __name__ == "__main__":
    main()
