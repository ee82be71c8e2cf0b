"""Reward logs as the commands take them: `settings` say which, `gather` reads them, `index` a table that names them."""
