"""A stiffness that is complex: what experiments/complex_stiffness.py is made of."""
