"""`sweep`: the grid, in one direction.

plan       every check, the axes
exact      theory of the rows, and what was measured of them; sampled: the same of noisy runs
jobs       what is cut into resumable chunks
compute    the order: theory, jobs, results
dataset    results as one labelled data set; report: verdict, table and summary; pictures: drawn from the data set
simulate   many seeds of one setting, without a grid
"""
