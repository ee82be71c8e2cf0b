"""Dividing by the std: late rates and curvature: what experiments/normalisation.py is made of."""
