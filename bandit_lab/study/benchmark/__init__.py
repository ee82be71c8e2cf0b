"""Simulated runs with planted, known failures, and the score of the detectors on them."""
