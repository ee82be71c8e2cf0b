"""Strict numerics for every test: double precision on, warnings as errors (pyproject.toml)."""

import gc
import os

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # no test may depend on what an earlier run left on disk

import jax
import pytest

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Free a module's compiled programs: thousands in one process use up the system's memory maps, and LLVM aborts."""
    yield
    jax.clear_caches()
    gc.collect()
