"""Strict numerics for every test: double precision on, warnings as errors (pyproject.toml). And the tests' time."""

import gc
import os
import signal
import sys
import time
from pathlib import Path

from running import QUICKLY, compile_quickly, leave_out, longest_first

compile_quickly()
# One thread of linear algebra in every process: others of OpenBLAS spin, up to a third of the time that a draft takes,
# and a process that is forked (zygote.py) must have none.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # no test may depend on what an earlier run left on disk

import jax  # noqa: E402
import pytest  # noqa: E402
from tiers import COSTLY, NIGHTLY, SLOW  # noqa: E402

from bandit_lab._registry import Registry  # noqa: E402

jax.config.update("jax_enable_x64", True)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background of a shell: the commands under test would inherit that Ctrl-C is ignored, and rightly
    # keep to it, where their tests interrupt them.
    signal.signal(signal.SIGINT, signal.default_int_handler)

COSTS = os.environ.get("BANDIT_LAB_TESTS_COSTS")


def pytest_configure(config):
    """pytest-xdist keeps to the order of the files (--no-loadscope-reorder, which only its newer versions have)."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(config, items):
    """What is about released programs is left to test_released.py."""
    unused = (
        leave_out(items, "nightly", NIGHTLY)
        | leave_out(items, "slow", SLOW)
        | leave_out(items, "slow", {} if COSTS else COSTLY)
    )
    if unused and config.args_source.name != "ARGS":
        raise pytest.UsageError(f"tests/tiers.py, costly.txt: expected names of tests, got {', '.join(sorted(unused))}")
    longest_first(items)
    if QUICKLY in os.environ.get("XLA_FLAGS", ""):
        for item in items:
            if item.get_closest_marker("as_released"):
                item.add_marker(pytest.mark.skip(reason="compiled as released in tests/test_released.py"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """The CPU seconds of every test, its ended processes included, into the file that BANDIT_LAB_TESTS_COSTS names."""
    if not COSTS:
        return (yield)
    before = sum(os.times()[:4])
    done = yield
    with Path(COSTS).open("a") as file:
        file.write(f"{sum(os.times()[:4]) - before:.2f}\t{item.nodeid}\n")
    return done


def spare_the_collector() -> None:
    """Take all that lives now out of what Python's collector of garbage looks at, and have it look less often.

    Half a million objects of imported libraries, none of them garbage, are else gone through again and again: a third
    of what a command costs that only composes its settings.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish():
    """All is imported that files of tests import."""
    spare_the_collector()


def memory_maps() -> int:
    """How many maps this process has of the 65,530 that Linux gives each: a compiled program takes several."""
    listing = Path("/proc/self/maps")
    return listing.read_bytes().count(b"\n") if listing.exists() else MOST_MAPS


MOST_MAPS = 16_000
_unoptimised: list[str] = []
"""Modules since the last forgetting that compiled without optimisation: their programs are not for others."""


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Free compiled programs after a module if they are many: thousands use up the system's memory maps, and LLVM
    aborts. Few are kept: the commands of many modules begin with the same ones."""
    yield
    if _unoptimised or memory_maps() >= MOST_MAPS:
        jax.clear_caches()
        _unoptimised.clear()
    spare_the_collector()


@pytest.fixture(autouse=True)
def _forget_compiled_programs_of_a_long_module():
    """The same within a module of hundreds of tests. A test of less than .2 s adds few, and a look takes .03 s."""
    begun = time.monotonic()
    yield
    if time.monotonic() - begun > 0.2 and memory_maps() >= 2 * MOST_MAPS:
        jax.clear_caches()
        spare_the_collector()


@pytest.fixture(scope="module", autouse=True)
def _forget_modules_of_temporary_folders(tmp_path_factory):
    """At the end of a file its plug-ins are forgotten, modules and variants: the `mine` of another file is another."""
    yield
    base = str(tmp_path_factory.getbasetemp())
    theirs = [name for name, one in sys.modules.items() if str(getattr(one, "__file__", None)).startswith(base)]
    for name in theirs:
        del sys.modules[name]
    for registry in Registry.imported:
        for variant in [one for one in registry if registry[one].__module__ in theirs]:
            del registry._builders[variant]


@pytest.fixture
def compiled_quickly(request):
    """For tests of many short programs, whose cost is compilation: no optimisation by LLVM at all.

    Core-seconds of nine derivatives of a drift: 7.0 as released, 4.4 as all tests compile (`compile_quickly`), 2.7
    here, 5.8 with this switch alone. Programs run several times slower: nothing that simulates long asks for it.
    """
    if not _unoptimised:
        jax.clear_caches()
        _unoptimised.append(request.module.__name__)
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
