"""Settings: the schema of every command, how Hydra composes it, and grids of values. Imports no JAX."""
