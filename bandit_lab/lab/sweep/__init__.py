"""`sweep`: the grid. `command` is the entry, `plan` checks everything, `work` is cut into resumable chunks."""
