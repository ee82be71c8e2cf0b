"""What a person runs: settings, commands, run folders, tables and pictures. The only room that touches the outside.

terminal/   what is typed and read              settings/   what can be set, composed by Hydra
folder/     what a run leaves                   chunks/     work that survives a kill
plots/      pictures and their one style        document/   what a command returns, and its four writers
logs/       runs as the commands on logs take them
benchmark/  labelled simulated runs

Every command has a room: sweep, predict, explore, watch, fit, diagnose, advise, reproduce, check, bench. `cli.py` finds
it, `runner.py` runs it, `wiring.py` is the one place where settings become theory.
"""
