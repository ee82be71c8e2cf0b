"""Strict numerics for every test: double precision on, warnings as errors (pyproject.toml)."""

import jax

jax.config.update("jax_enable_x64", True)
