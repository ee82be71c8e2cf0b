"""The tests' own setting: long files first, three tiers, quick compilation, interrupts."""

import ast
import itertools
import os
import signal
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
import running
from jax.experimental.serialize_executable import serialize
from running import AS_RELEASED, LONGEST, QUICKLY, compile_quickly, leave_out, longest_first
from settings import nightly_but, thinned


def test_long_files_exist_and_come_first(request):
    """Planted: a file that is not there."""
    folder = Path(__file__).parent
    assert [name for name in LONGEST if not (folder / name).is_file()] == []
    assert [name for name in (*LONGEST, "measure/test_nothing.py") if not (folder / name).is_file()] != []

    class Item:
        def __init__(self, path):
            self.path = folder / path

        def get_closest_marker(self, name):
            return None

    items = [Item("bandits/test_modes.py"), Item(LONGEST[1]), Item("theory/test_noise.py"), Item(LONGEST[0])]
    first, last = items[3], items[0]
    longest_first(items)
    assert [items[0], items[2]] == [first, last]


def test_what_a_tier_leaves_out_is_named_rightly(request):
    """Planted: a test and a case that are not there."""
    here = "test_setup.py::test_what_a_tier_leaves_out_is_named_rightly"
    listed = {here: ("no case",), "test_setup.py::test_nothing": ()}
    marked = []
    item = request.node
    item.add_marker = marked.append
    assert leave_out([item], "nightly", listed) == {f"{here}[no case]", "test_setup.py::test_nothing[]"}
    assert leave_out([item], "slow", {here: ()}) == set()
    assert marked == ["nightly", "slow"]


def size_of_code():
    """Bytes of a small program; compiled anew at every call."""
    compiled = jax.jit(lambda x: jnp.sum(jnp.sin(x) ** 2 * jnp.cos(x))).lower(jnp.ones(1000)).compile()
    return len(serialize(compiled)[0])


def test_quick_compilation_reaches_the_compiler(request):
    """The switch changes the machine code; without it the same program has the same size."""
    plain = size_of_code()
    assert size_of_code() == plain
    request.getfixturevalue("compiled_quickly")
    assert size_of_code() != plain


@pytest.fixture
def tried(monkeypatch):
    """Commands that `compile_quickly` tries the flags with; none of them knows the flags."""
    commands = []

    def unknown(command, env, **options):
        commands.append(env["XLA_FLAGS"])
        return subprocess.CompletedProcess(command, -signal.SIGABRT)

    monkeypatch.setattr(running.subprocess, "run", unknown)
    monkeypatch.delenv(AS_RELEASED, raising=False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_given=1")
    return commands


def test_flags_that_xla_does_not_know_are_not_set(tried, monkeypatch):
    compile_quickly()
    assert tried == [f"--xla_given=1 {QUICKLY}"]
    assert os.environ["XLA_FLAGS"] == "--xla_given=1"
    monkeypatch.setenv(AS_RELEASED, "1")
    compile_quickly()
    assert len(tried) == 1


def test_a_worker_inherits_the_flags_without_trying_them(tried, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", QUICKLY)
    compile_quickly()
    assert (tried, os.environ["XLA_FLAGS"]) == ([], QUICKLY)


ROOT = Path(__file__).resolve().parents[1]


def test_no_private_part_of_jax_is_used():
    private = "jax." + "_src"
    paths = [path for name in ("bandit_lab", "experiments", "tests") for path in (ROOT / name).rglob("*.py")]
    assert [path for path in paths if private in path.read_text(encoding="utf-8")] == []


def imports(source, modules):
    """The modules of the package that a source imports at its top, under TYPE_CHECKING too; not inside functions."""
    top = [inner for node in ast.parse(source).body for inner in (node.body if isinstance(node, ast.If) else [node])]
    found = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    for node in (node for node in top if isinstance(node, ast.ImportFrom)):
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        found |= (names & modules) | ({node.module} if names - modules else set())
    return found & modules


def test_no_module_of_the_package_imports_itself_by_another():
    """Planted: one arrow back up closes a circle."""
    paths = {path: path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "bandit_lab").rglob("*.py")}
    names = {path: name.removesuffix("/__init__").replace("/", ".") for path, name in paths.items()}
    arrows = {name: imports(path.read_text(encoding="utf-8"), set(names.values())) for path, name in names.items()}
    TopologicalSorter(arrows).prepare()  # raises CycleError with the circle
    arrows["bandit_lab.theory"] |= {"bandit_lab.lab.predict.linear"}
    with pytest.raises(CycleError):
        TopologicalSorter(arrows).prepare()


SHARED_NAMES = {
    "FixedPoint": "of the theory and of the measurement: two witnesses of one thing",
    "Policy": "of two arms, of many, of any bandit: one interface in three files",
}
"""Classes that have a namesake in another module."""


def namesakes(sources):
    """Names of classes at the top of more than one of these texts."""
    names = [{node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)} for text in sources]
    return {name for one in names for name in one if sum(name in other for other in names) > 1}


def test_a_class_has_its_name_alone():
    """No new namesakes. Planted: a second `RateCrossing` is seen."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "bandit_lab").rglob("*.py")]
    assert namesakes(sources) - set(SHARED_NAMES) == set()
    assert "RateCrossing" in namesakes([*sources, "class RateCrossing: ..."])


def test_a_diagonal_shows_every_value_and_nothing_is_lost():
    """Planted: a value added to an axis is in `make test`."""
    for letters in ("abc", "abcd"):
        params = thinned(letters, range(2), [True])
        assert {param.values for param in params} == {(x, y, True) for x in letters for y in range(2)}
        kept = {param.values for param in params if not param.marks}
        assert [{values[axis] for values in kept} for axis in range(3)] == [set(letters), {0, 1}, {True}]
        assert len(kept) == len(letters)
        assert {mark.name for param in params for mark in param.marks} == {"nightly"}


def test_representatives_are_variants_and_the_others_are_nightly():
    params = nightly_but([("b", 2)], [("a", 1), ("b", 2)])
    assert [(param.values, [mark.name for mark in param.marks]) for param in params] == [
        (("a", 1), ["nightly"]),
        (("b", 2), []),
    ]
    with pytest.raises(AssertionError, match="'c'"):
        nightly_but(["c"], ["a", "b"])


def test_the_tiers_are_told_apart_by_their_mark():
    """Each tier has all of the one before it; the last leaves nothing out. `.ci/run` ends with the last or the second.

    What is in no tier of `make test` is what `make nightly` runs by itself.
    """
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    left_out = dict(line.removeprefix("LEFT_OUT_").split(" :=") for line in makefile if line.startswith("LEFT_OUT_"))
    assert left_out == {"short": " not slow and not nightly", "slow": " not nightly", "all": ""}
    assert "TIER ?= short" in makefile
    recipes = {
        target: next(after for line, after in itertools.pairwise(makefile) if line.startswith(f"{target}:"))
        for target in ("test", "nightly")
    }
    assert '-m "$(LEFT_OUT_$(TIER))"' in recipes["test"]
    assert '-m "nightly"' in recipes["nightly"]
    if not (ROOT / ".ci/run").exists():
        pytest.skip("not part of a released archive")
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    steps = [line.split("make --silent ")[1].split() for line in lines if "make --silent " in line]
    assert [step[:2] for step in steps[-2:]] == [["test", "TIER=all"], ["test", "TIER=slow"]]


def test_a_process_started_here_can_be_interrupted():
    """Also where the tests were started in the background by a shell without job control."""
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
