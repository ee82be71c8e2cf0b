"""Slow start: inertia against softmax geometry: what experiments/slow_start.py is made of."""
