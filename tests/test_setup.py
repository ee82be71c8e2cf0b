"""The tests' own setting: long files first, three tiers, quick compilation, interrupts."""

import os
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
import running
from jax.experimental.serialize_executable import serialize
from running import AS_RELEASED, QUICKLY, compile_quickly, leave_out
from settings import thinned


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


def test_a_diagonal_shows_every_value_and_nothing_is_lost():
    """Planted: a value added to an axis is in `make test`."""
    for letters in ("abc", "abcd"):
        params = thinned(letters, range(2), [True])
        assert {param.values for param in params} == {(x, y, True) for x in letters for y in range(2)}
        kept = {param.values for param in params if not param.marks}
        assert [{values[axis] for values in kept} for axis in range(3)] == [set(letters), {0, 1}, {True}]
        assert len(kept) == len(letters)
        assert {mark.name for param in params for mark in param.marks} == {"nightly"}


def test_a_process_started_here_can_be_interrupted():
    """Also where the tests were started in the background by a shell without job control."""
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
