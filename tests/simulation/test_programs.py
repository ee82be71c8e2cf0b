"""Programs of many lengths in one process: the last used ones are kept, the others are freed as a whole."""

import gc

import jax
import pytest
from settings import cells, learner

from bandit_lab import simulation
from bandit_lab.bandits import two_arm
from bandit_lab.simulation import reference
from bandit_lab.simulation.fast import items
from bandit_lab.simulation.programs import MOST, Kept


def live() -> int:
    """Compiled programs of this process."""
    gc.collect()
    return len(jax.devices()[0].client.live_executables())


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
