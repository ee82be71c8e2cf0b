"""`predict`: formulas for one setting.

command      the command
prediction   every number
report       the numbers as a document: `summary.json`, the table
verdict      the line in words with which it begins
statement    one statement, with its unit and how exact it is
statements   all of them (`nonlinear`: those beyond the linear theory)
"""
