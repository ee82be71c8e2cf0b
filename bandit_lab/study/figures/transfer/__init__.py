"""Held-out tasks at two group sizes: what experiments/transfer.py is made of."""
