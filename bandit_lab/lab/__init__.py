"""The laboratory's commands: bandits predicted, simulated and compared.

predict/    formulas for one setting; `fixed_point` is the one place where settings become theory
sweep/      a grid of runs beside its theory             check/      what every variant has to keep
reproduce/  figures and claims                           explore/    the stability map as a page
`simulate` makes many seeds of one setting, without a grid.
"""
