"""Two detectors, one law: what experiments/two_detectors.py is made of."""
