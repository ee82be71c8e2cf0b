"""Real reward logs: read whatever the trainer wrote; `fit`, `forecast`, `backtest` and `diagnose` are rooms of their own."""

from bandit_lab.curves.readers import Skipped, read, read_all
from bandit_lab.curves.record import Curve, RewardScale, Series

__all__ = ["Curve", "RewardScale", "Series", "Skipped", "read", "read_all"]
