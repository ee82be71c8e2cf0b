"""Batch reuse as temperature; variance as a warning: what experiments/temperature.py is made of."""
