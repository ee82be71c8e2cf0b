"""How far the linear threshold holds: what experiments/linearisation.py is made of."""
