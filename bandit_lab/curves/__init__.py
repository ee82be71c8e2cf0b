"""Real reward logs: read what the trainer wrote; `fit`, `forecast`, `backtest`, `diagnose` are rooms of their own."""

from bandit_lab.curves.readers import Skipped, read, read_all
from bandit_lab.curves.record import Curve, RewardScale, Series
