"""Four failures, one shape of reward curve: what experiments/diagnostics.py is made of."""
