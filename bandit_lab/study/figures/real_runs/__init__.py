"""Real runs and their laws: what experiments/real_runs.py is made of."""
