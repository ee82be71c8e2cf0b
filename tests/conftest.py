"""Strict numerics for every test: double precision on, warnings as errors (pyproject.toml). And the tests' time."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

QUICKLY = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"
AS_RELEASED = "BANDIT_LAB_TESTS_AS_RELEASED"


def compile_quickly() -> None:
    """Have XLA compile with its older code generator and LLVM's first level: most of the tests' time is compilation.

    The programs are the same, and so are their numbers up to rounding. Nothing changes where AS_RELEASED is 1
    (`.ci/run` runs a choice of tests so once more), nor where XLA does not know the flags: it would end every process
    with an abort. To be called before JAX is imported; workers and commands under test inherit it.
    """
    given = os.environ.get("XLA_FLAGS", "")
    if os.environ.get(AS_RELEASED) == "1" or QUICKLY in given:
        return
    flags = f"{given} {QUICKLY}".strip()
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    if subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0:
        os.environ["XLA_FLAGS"] = flags


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

TESTS = Path(__file__).parent
COSTS = os.environ.get("BANDIT_LAB_TESTS_COSTS")
LONGEST = (
    "simulation/test_fast_path.py",
    "lab/test_check.py",
    "lab/test_reproduce_figures.py",
    "app/test_resume.py",
    "measure/test_adam.py",
    "measure/test_fluctuation.py",
    "measure/test_floquet.py",
    "lab/test_reproduce.py",
    "lab/test_predict.py",
    "app/test_bad_input.py",
    "runs/test_fit.py",
    "lab/test_wiring.py",
    "app/test_dask.py",
    "simulation/test_engine.py",
    "lab/test_extending.py",
    "lab/test_sweep.py",
    "measure/test_drawn_ages.py",
    "app/test_commands.py",
    "simulation/test_exact_means.py",
    "grading/test_diagnoses.py",
    "simulation/test_random_bits.py",
    "measure/test_group_size.py",
    "simulation/test_fast_non_silent.py",
    "benchmarks/test_benchmarks.py",
    "simulation/test_dropped_and_clipped.py",
    "simulation/test_fast_draws.py",
    "measure/test_mixed.py",
    "app/test_damaged_runs.py",
    "measure/test_neutral.py",
    "measure/test_thresholds.py",
    "simulation/test_enumerated_groups.py",
    "runs/test_curves_diagnose.py",
    "simulation/test_devices.py",
    "measure/test_stiffness.py",
    "runs/test_curves_fit.py",
    "measure/test_escape.py",
)
"""Files of more than about a quarter of a minute, longest first: they begin first, so that no worker is left alone with
one."""


def pytest_configure(config):
    """pytest-xdist keeps to the order of the files (--no-loadscope-reorder, which only its newer versions have)."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def leave_out(items, mark: str, listed) -> set[str]:
    """Mark what a table of `tiers` leaves out of a tier. Returns what in it is no test's, of the files collected."""
    unused = {(name, "") for name in listed} | {(name, one) for name, kept in listed.items() for one in kept}
    files = set()
    for item in items:
        file = item.path.relative_to(TESTS).as_posix()
        name, case = f"{file}::{item.originalname}", item.name[len(item.originalname) + 1 : -1]
        files.add(file)
        unused -= {(name, ""), (name, case)}
        if name in listed and case not in listed[name]:
            item.add_marker(mark)
    return {f"{name}[{case}]" for name, case in unused if name.partition("::")[0] in files}


def longest_first(items) -> None:
    """Long files first; the order within a file stays."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get("/".join(item.path.parts[-2:]), len(place)))


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
    told = Path("/proc/self/maps")
    return told.read_bytes().count(b"\n") if told.exists() else MOST_MAPS


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
def nothing_compiled():
    """For tests of what compiling takes: no program is there from before."""
    jax.clear_caches()


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
