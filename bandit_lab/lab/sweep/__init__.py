"""`sweep`: the grid, in one direction.

plan       every check, the axes, the rows
sampled    noisy runs: what is to be run as resumable jobs, and what became of it
jobs       the rows by the theory, what is measured of them as jobs, and the order of all
report     results as one labelled data set; verdict, table and summary; pictures: drawn from the data set
command    the run folder around it
"""
