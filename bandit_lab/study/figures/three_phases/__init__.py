"""What dividing by the std does: what experiments/three_phases.py is made of."""
