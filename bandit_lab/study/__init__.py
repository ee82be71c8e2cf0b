"""What a person runs: settings, commands, run folders, tables and pictures. The only room that touches the outside.

`figures/` holds what the experiments predict, measure and draw, `reproduce/` the command that runs them, `plots/` the
pictures of the other commands and the one style of all.
"""
