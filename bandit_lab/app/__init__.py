"""The hall: what a person types, sets, reads and keeps. It knows of a command only what its tables name.

settings/   what can be set, composed by Hydra           result.py     what a command returns, and its writers
folder/     what a run leaves                            progress.py   what is said while it works
chunks/     work that survives a kill                    plots/        the one style of all pictures

`cli.py` finds a command of `commands.py`, `runner.py` runs it, `plugins.py` loads what users add.
"""
