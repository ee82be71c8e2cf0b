"""Which estimators have a refresh-interval threshold: what experiments/estimators.py is made of."""
