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

QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


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
    nothing changes.
    """
    if not hasattr(compiler, "get_compile_options"):
        yield
        return
    as_released = compiler.get_compile_options

    def quick(*args, env_options_overrides=None, **options):
        return as_released(*args, env_options_overrides={**QUICK, **(env_options_overrides or {})}, **options)

    compiler.get_compile_options = quick
    yield
    compiler.get_compile_options = as_released
