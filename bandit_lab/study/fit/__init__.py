"""`fit`: laws on reward logs. `command` is the entry, `settings` its keys, `work` what is done to one log."""
