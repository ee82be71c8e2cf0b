"""The hall: what a person types, sets, reads and keeps. It knows of a command only what its tables name.

terminal/   what is typed and read                       settings/   what can be set, composed by Hydra
folder/     what a run leaves                            chunks/     work that survives a kill
plots/      the one style of all pictures                result.py   what a command returns, and its writers

`cli.py` finds a command, `runner.py` runs it, `plugins.py` loads what users add.
"""
