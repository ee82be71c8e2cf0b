"""Strict numerics for every test: double precision on, warnings as errors (pyproject.toml)."""

import gc
import os
import signal

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # no test may depend on what an earlier run left on disk

import jax
import pytest
from jax._src import compiler

jax.config.update("jax_enable_x64", True)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background of a shell: the commands under test would inherit that Ctrl-C is ignored, and rightly
    # keep to it, where their tests interrupt them.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = (
    "simulate/test_fast_path.py",
    "study/test_reproduce_figures.py",
    "study/test_resume.py",
    "curves/test_curves_fit.py",
    "measure/test_adam.py",
    "study/test_check.py",
    "measure/test_floquet.py",
    "curves/test_curves_diagnose.py",
    "measure/test_fluctuation.py",
    "study/test_hosts.py",
    "simulate/test_fast_lively.py",
    "study/test_fit.py",
    "curves/test_curves_false_alarms.py",
    "simulate/test_devices.py",
    "measure/test_escape.py",
    "simulate/test_exact_means.py",
    "simulate/test_dropped_and_clipped.py",
    "measure/test_group_size.py",
    "measure/test_thresholds.py",
    "measure/test_stiffness.py",
    "measure/test_drawn_ages.py",
    "study/test_reproduce.py",
)
"""Files of more than about half a minute, longest first: they begin first, so that no worker is left alone with one."""

QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


def pytest_configure(config):
    """pytest-xdist keeps to the order of the files (--no-loadscope-reorder, which only its newer versions have)."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """Long files first; the order within a file stays."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get("/".join(item.path.parts[-2:]), len(place)))


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Free a module's compiled programs: thousands in one process use up the system's memory maps, and LLVM aborts."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture
def compiled_quickly():
    """For tests of many short programs, whose cost is compilation: no optimisation by LLVM, the older code generator.

    Compiles two to three times faster; programs run several times slower, so that nothing that simulates long asks for
    it. The programs are the same, and so are their numbers up to rounding. Where JAX has no such place for options,
    nothing changes. (The public switch `jax_disable_most_optimizations` does not choose the code generator, and without
    that saves nothing: 40 core-seconds of test_stiffness instead of 21.)
    """
    if not hasattr(compiler, "get_compile_options"):
        yield False
        return
    as_released = compiler.get_compile_options

    def quick(*args, env_options_overrides=None, **options):
        return as_released(*args, env_options_overrides={**QUICK, **(env_options_overrides or {})}, **options)

    compiler.get_compile_options = quick
    yield True
    compiler.get_compile_options = as_released
