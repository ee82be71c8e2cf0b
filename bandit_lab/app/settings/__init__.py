"""Settings: the schema of every command, and the names of its variants. Imports no JAX."""
