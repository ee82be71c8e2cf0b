"""Stability threshold of refresh, lag and pipeline: what experiments/phase_diagram.py is made of."""
