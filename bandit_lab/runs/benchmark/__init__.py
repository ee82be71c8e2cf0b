"""Simulated runs with planted, known failures, and the score of the diagnostics on them."""
