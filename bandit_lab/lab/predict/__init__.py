"""`predict`: formulas for one setting.

command      the command, and the numbers as a result: `summary.json`, the table
linear       a learner's fixed point, stiffness and noise, and the loop that they make, which sweeps use too
point        a learner at one setting: thresholds, multipliers, noise
statements   what else is said of a point: words, units, values; a line of the table
reduced      the same of a run whose stiffness is given in place of a bandit
verdict      the line in words with which it begins, and those under it

A number passes two containers: the point works it out, a line of the table shows it.
"""
