"""`diagnose`: the four failure modes on logs. `command` is the entry, `settings` its keys, `work` what is done."""
