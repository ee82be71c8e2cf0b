"""Reward logs as the commands take them: `gather` reads the runs, `index` a table that names them."""
