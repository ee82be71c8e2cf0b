"""The clinic: other people's training runs, read, fitted, judged and watched. Nothing here needs JAX.

read/       what a trainer wrote, whatever its format    trainers/   what the settings of each trainer mean
fit/        laws of reward curves
diagnose/   which failure, if any
watch/      a log while it grows                         monitor/    a run from inside its trainer
logs/       many runs as the commands take them
"""
