"""Threshold from the Hessian: what experiments/stiffness.py is made of."""
