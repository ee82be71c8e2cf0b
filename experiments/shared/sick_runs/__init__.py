"""Simulated runs with planted, known failures: what `check` puts to a diagnostic, and experiments score.

plant    every number of a run, drawn from ranges    simulate  the run, by the lab's own update
logs     the log that a trainer would have written    effects   sizes of its failures, by its hidden state
"""
