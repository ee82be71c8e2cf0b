"""`predict`: formulas for one setting.

command      the command
linear       a learner's numbers as a linear loop, which sweeps use too
point        a learner at one setting: thresholds, multipliers, noise
quantities   what else is said of a point, in words and units
statements   the values of these (`nonlinear`: those beyond the linear theory)
reduced      the same of a run whose stiffness is given in place of a bandit
report       the numbers as a result: `summary.json`, the table
verdict      the line in words with which it begins, and those under it

A number passes two containers: the point works it out, a line of the report shows it.
"""
