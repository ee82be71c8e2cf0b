"""From over-damped to oscillatory: what experiments/transition.py is made of."""
