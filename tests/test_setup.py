"""The tests' own setting: long files first, quick compilation, interrupts."""

import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import LONGEST, QUICK, pytest_collection_modifyitems
from jax._src import compiler


def test_long_files_exist_and_come_first(request):
    """Planted: a file that is not there."""
    folder = Path(__file__).parent
    assert [name for name in LONGEST if not (folder / name).is_file()] == []
    assert [name for name in (*LONGEST, "measure/test_nothing.py") if not (folder / name).is_file()] != []

    class Item:
        def __init__(self, path):
            self.path = folder / path

    items = [Item("bandits/test_modes.py"), Item(LONGEST[1]), Item("theory/test_noise.py"), Item(LONGEST[0])]
    first, last = items[3], items[0]
    pytest_collection_modifyitems(items)
    assert [items[0], items[2]] == [first, last]


def test_quick_compilation_reaches_the_compiler(compiled_quickly):
    """Fails where JAX still has the place for options but no longer looks there."""
    if not compiled_quickly:
        pytest.skip("this JAX has no such place for options: every test compiles at full cost")
    seen, wrapped = [], compiler.get_compile_options

    def watched(*args, **options):
        seen.append(wrapped(*args, **options))
        return seen[-1]

    compiler.get_compile_options = watched
    try:
        assert float(jax.jit(lambda x: x * 3 + 1)(np.float64(2))) == 7
    finally:
        compiler.get_compile_options = wrapped
    assert seen
    assert all(set(QUICK.items()) <= set(options.env_option_overrides) for options in seen)


def test_a_process_started_here_can_be_interrupted():
    """Also where the tests were started in the background by a shell without job control."""
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
