"""The single exponential as the over-damped limit: what experiments/overdamped_limit.py is made of."""
