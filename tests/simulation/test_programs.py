"""Programs of many lengths in one process: the last used ones are kept, the others are freed as a whole."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab import simulation
from bandit_lab.bandits import two_arm
from bandit_lab.simulation import reference
from bandit_lab.simulation.fast import items
from bandit_lab.simulation.programs import MOST, Kept
from experiments.shared.programs import bounded_jit


def live() -> int:
    """Compiled programs of this process."""
    gc.collect()
    return len(jax.devices()[0].client.live_executables())


def test_the_last_used_programs_stay_and_the_others_are_freed():
    """Planted: the same function under a plain `jax.jit` keeps all of them."""
    traced = []

    def powers(x, steps, base=2.0):
        traced.append(steps)
        return x * base**steps

    bounded, unbounded = bounded_jit("steps", most=3)(powers), jax.jit(powers, static_argnames="steps")
    x, base = jnp.ones(2), jnp.float64(2)
    before = live()
    for steps in range(10):
        np.testing.assert_array_equal(bounded(x, steps, base=base), 2.0**steps)
    assert live() - before == 3
    assert traced == list(range(10))
    for steps in (9, 8, 7, 9):
        bounded(x, base=base, steps=steps)
    assert traced == list(range(10))
    bounded(x, 0, base)
    assert traced == [*range(10), 0]
    assert len(bounded.programs) == 3
    before = live()
    for steps in range(10):
        unbounded(x, steps, base)
    assert live() - before == 10


@pytest.mark.parametrize("path", ["fast", "reference"])
def test_runs_of_many_lengths_keep_a_bounded_number_of_programs(monkeypatch, compiled_quickly, path):
    assert max(len(reference._program), len(items.compiled)) <= MOST
    monkeypatch.setattr(reference, "_program", Kept(reference._program.__wrapped__, 2))
    monkeypatch.setattr(items, "compiled", Kept(items.compiled.__wrapped__, 2))
    trained, counts = learner(bandit=two_arm()), []
    for steps in (5, 6, 7, 8):
        runs = simulation.run(trained, "mean_field", cells(0.1), steps=steps, path=path)
        assert runs.reward_mean.shape == (1, steps + 1)
        counts.append(live())
    assert counts[1] > counts[0]
    assert counts[3] == counts[2] == counts[1]
