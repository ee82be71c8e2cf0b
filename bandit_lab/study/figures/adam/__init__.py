"""Adam: thresholds and mean curves against group size: what experiments/adam.py is made of."""
