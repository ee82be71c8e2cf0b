"""`sweep`: the grid, in one direction.

plan       every check, the axes
jobs       the rows by the theory, and what is to be measured as resumable jobs; sampled: the same of noisy runs
command    the order: theory, jobs, results; the run folder
dataset    results as one labelled data set; report: verdict, table and summary; pictures: drawn from the data set
simulate   many seeds of one setting, without a grid
"""
