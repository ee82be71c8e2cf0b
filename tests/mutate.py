"""Small defects, planted one at a time: which tests notice each? A night of one machine.

    make mutate ARGS="--sample 20 --areas theory loop --tests tests/theory tests/test_loop.py"

First the map, in outputs/defects (remove it after a change of the code): every test file runs alone under coverage.py.
Nothing compiled or cached is kept between its tests, so that the lines of a test are all that it executes. What a
fixture of the file executes counts for its first test, what a process of its own executes for none. Then defects, as
many of every area, whose seed is the date. Each is planted in a copy of the tree. Tests of `make test` that execute
the line run, cheapest first, for about `--seconds`; if all pass, those that `.ci/run` adds. A failure without a defect
is none. Rows go to `defects.txt`: of each, `costs.py` keeps the cheapest test for `make test`.
"""

import argparse
import ast
import datetime
import functools
import gc
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "outputs/defects"
LAB, CLINIC = "bandit_lab/", "packages/grpo_clinic/grpo_clinic/"
AREAS = {
    "physics": [LAB + "bandits", LAB + "grpo"], "loop": [LAB + "loop.py"], "sampling": [LAB + "simulation"],
    "theory": [LAB + "theory"], "measure": [LAB + "measure"],
    "store": [LAB + "app/chunks", LAB + "app/folder", LAB + "lab/sweep"],
    "readers": [CLINIC + "readers", CLINIC + "logs"],
    "rules": [CLINIC + "rules", CLINIC + "fitting", CLINIC + "monitor"],
}  # fmt: skip
TIERS = ("make test", ".ci/run")
IMPORT = ""
"""The context of lines that run before any test does."""
_TWO = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE),
        (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), ("min", "max"), ("minimum", "maximum"),
        ("argmin", "argmax"), ("any", "all"), ("floor", "ceil"), ("sin", "cos")]  # fmt: skip
OTHER = {ast.Pow: ast.Mult} | {one: two for pair in _TWO for one, two in (pair, pair[::-1])}
UNNAMED = {"no end", "not collected"}
DROPPED = ("sqrt", "abs", "exp", "log", "square", "clip")


class Defect(NamedTuple):
    """Bytes of a file that become others; `lines`: of the statement, or of a compound one's head."""

    path: str
    lines: tuple[int, int]
    start: int
    end: int
    before: str
    after: str


def with_(node: ast.AST, **parts: object) -> ast.AST:
    """The node with other parts."""
    return type(node)(**(dict(ast.iter_fields(node)) | parts))


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Every change of this one node, its children as they are."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        yield with_(node, ops=[OTHER[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHER:
        yield with_(node, op=OTHER[type(node.op)]())
        yield node.left if isinstance(node, ast.BinOp) else node.values[0]
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield with_(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        value = node.value
        yield ast.Constant(not value if type(value) is bool else value + 1 if type(value) is int else 2 * value or 1.0)
    elif isinstance(node, ast.Slice) and node.upper:
        yield with_(node, upper=ast.BinOp(node.upper, ast.Sub(), ast.Constant(1)))
    elif isinstance(node, ast.Call):
        for place, two in enumerate(pairwise(node.args)):
            if all(isinstance(one, ast.Name) for one in two):
                yield with_(node, args=[*node.args[:place], *two[::-1], *node.args[place + 2 :]])
        for option in node.keywords:
            yield with_(node, keywords=[one for one in node.keywords if one is not option])
        key = "attr" if isinstance(node.func, ast.Attribute) else "id"
        name = getattr(node.func, key, "")
        if name in OTHER:
            yield with_(node, func=with_(node.func, **{key: OTHER[name]}))
        elif name in DROPPED and node.args:
            yield node.args[0]


def defects(path: Path) -> Iterator[Defect]:
    """All of one file. Not in texts, annotations, imports and errors that are raised."""
    source = path.read_bytes()
    begins = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def inside(node: ast.AST, lines: tuple[int, int], is_test: bool = False) -> Iterator[Defect]:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.pattern):
            return
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            lines = node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        for new in chain(variants(node), [ast.UnaryOp(ast.Not(), node)] if is_test else []):
            start = begins[node.lineno - 1] + node.col_offset
            end = begins[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(new) if isinstance(new, ast.Slice) else f"({ast.unparse(new)})"
            yield Defect(str(path.relative_to(ROOT)), lines, start, end, source[start:end].decode(), text)
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list", "bases"):
                    yield from inside(child, lines, name == "test" and isinstance(node, ast.If | ast.While))

    yield from inside(ast.parse(source), (1, 1))


def files(places: Iterable[str], pattern: str) -> list[Path]:
    """Files, and those in folders."""
    return [one for place in places for one in sorted([ROOT / place, *(ROOT / place).rglob(pattern)]) if one.is_file()]


def sample(areas: list[str], size: int, seed: int) -> list[Defect]:
    """As many of every area, in turn."""
    drawn = []
    for area in areas:
        every = list(chain(*map(defects, files(AREAS[area], "*.py"))))
        drawn.append(random.Random(f"{seed} {area}").sample(every, min(len(every), size)))
    return [one for one in chain(*zip_longest(*drawn)) if one][:size]


def record(file: str, answer: str) -> None:
    """In a process of its own: {test that passes: (seconds, tier)} of one test file, and {path: {line: [test]}}."""
    import coverage
    import pytest

    measured, seen = coverage.Coverage(data_file=None, source=["bandit_lab", CLINIC]), {}

    class Plugin:
        def pytest_runtest_logstart(self, nodeid):
            if "jax" in sys.modules:
                sys.modules["jax"].clear_caches()
            for one in gc.get_objects():
                if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("bandit_lab"):
                    one.cache_clear()
            measured.switch_context(nodeid)

        def pytest_runtest_logreport(self, report):
            seconds, _, good = seen.get(report.nodeid, (0.0, 0, True))
            seen[report.nodeid] = seconds + report.duration, int("slow" in report.keywords), good and report.passed

    measured.start()
    pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not nightly", file], plugins=[Plugin()])
    measured.stop()
    tests = {name: (seconds, tier) for name, (seconds, tier, good) in seen.items() if good}
    data = measured.get_data()
    lines = {str(Path(path).relative_to(ROOT)): data.contexts_by_lineno(path) for path in data.measured_files()}
    Path(answer).write_text(json.dumps({"tests": tests, "lines": lines}))


def whole_map(places: list[str]) -> tuple[dict, dict]:
    """The same of the test files in these places together, recorded where missing."""
    tests, lines = {}, defaultdict(lambda: defaultdict(set))
    MAP.mkdir(parents=True, exist_ok=True)
    for file in files(places, "test_*.py"):
        name = str(file.relative_to(ROOT))
        stored = MAP / f"{name.replace('/', '.')}.json"
        if not stored.exists() or stored.stat().st_mtime < file.stat().st_mtime:
            print(f"recording {name}", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--record", name, stored]
            subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        recorded = json.loads(stored.read_text()) if stored.exists() else {"tests": {}, "lines": {}}
        tests |= recorded["tests"]
        for path, each in recorded["lines"].items():
            for line, names in each.items():
                lines[path][int(line)] |= set(names) & (recorded["tests"].keys() | {IMPORT})
    return tests, lines


def failing(tree: Path, tests: list[str], seconds: float) -> set[str]:
    """Which of these tests fail in this tree, at most five; a reason of UNNAMED where that cannot be told."""
    away = {"PYTHONPATH": f"{tree}:{tree}/packages/grpo_clinic:{tree}/packages/grpo_probe"}
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--maxfail=5", "-p", "no:xdist", "-p", "no:cacheprovider"]
    options = {"cwd": tree, "env": os.environ | away | {"PYTHONDONTWRITEBYTECODE": "1"}, "timeout": 60 + 3 * seconds}
    try:
        done = subprocess.run([*command, *tests], capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired:
        return {"no end"}
    if done.returncode == 4:  # names are missing, or a file that cannot be imported
        missing = re.findall(r"^ERROR: (?:not found:|found no collectors for) (.*)$", done.stderr, re.MULTILINE)
        return {"not collected", *missing[:5]}
    return (
        set(re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)) if done.returncode else set()
    )


def noticed(tree: Path, defect: Defect, tests: dict, lines: dict, seconds: float) -> tuple[str, set[str]]:
    """(the first tier that notices a defect, or why none does; tests)."""
    here = lines.get(defect.path, {})
    names = set().union(*(here.get(line, set()) for line in range(defect.lines[0], defect.lines[1] + 1)))
    if IMPORT in names:  # it counts for all that runs anything of the file
        names = set().union(*here.values()) - {IMPORT}
    path = tree / defect.path
    source = path.read_bytes()
    for tier, title in enumerate(TIERS):
        ordered = sorted((one for one in names if tests[one][1] == tier), key=lambda one: tests[one][0])
        spent = list(accumulate(tests[one][0] for one in ordered))
        if chosen := ordered[: max(1, bisect(spent, seconds))]:
            path.write_bytes(source[: defect.start] + defect.after.encode() + source[defect.end :])
            failed = failing(tree, chosen, seconds)
            path.write_bytes(source)
            failed -= failing(tree, sorted(failed), seconds) if failed and not failed & UNNAMED else set()
            if failed:
                return title, failed
    return ("nobody" if names else "no test executes it"), set()


def main() -> None:
    """Draw, plant, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = {"sample": 150, "seed": int(datetime.date.today().strftime("%Y%m%d")), "seconds": 60}
    for name, default in given.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--areas", nargs="+", default=list(AREAS), choices=AREAS)
    parser.add_argument("--tests", nargs="+", default=("tests", "packages/grpo_clinic/tests"))
    asked = parser.parse_args()
    recorded, seen = whole_map(asked.tests), []
    print(f"seed {asked.seed}\n\n| noticed by | line | defect | tests |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "copy"
        left_out = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "outputs", ".*_cache")
        shutil.copytree(ROOT, tree, ignore=left_out)
        if lost := failing(tree, ["--collect-only", *recorded[0]], 600):
            sys.exit(f"tests of the map that no run finds (are the variables of the corpora set?): {sorted(lost)}")
        for one in sample(asked.areas, asked.sample, asked.seed):
            tier, tests = noticed(tree, one, *recorded, asked.seconds)
            seen.append(tier)
            change = " -> ".join(" ".join(text.split())[:60] for text in (one.before, one.after))
            names = ", ".join(sorted(tests))
            print(f"| {tier} | {one.path}:{one.lines[0]} | `{change}` | {names} |", flush=True)
    by_test, by_all = (sum(tier in TIERS[:place] for tier in seen) for place in (1, 2))
    print(f"\n{len(seen)} defects: {by_test} noticed by {TIERS[0]}, {by_all} by {TIERS[1]}; ", end="")
    print(f"{seen.count('no test executes it')} that no test executes")


if __name__ == "__main__":
    record(*sys.argv[2:]) if sys.argv[1:2] == ["--record"] else main()
