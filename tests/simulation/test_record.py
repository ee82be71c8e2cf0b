"""The fast path's record of single runs against the same numbers of a whole trajectory, kept at once."""

import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.simulation.fast.record import half_way, start_tail, watch, watch_silence


@pytest.mark.parametrize("steps", [1, 2, 5, 6])
def test_the_tail_is_what_comes_at_half_of_the_steps_or_later(steps):
    """Times 0..T of J and steps 0..T - 1 of silence; T even and odd; a lane that starts below its fixed point, one
    above."""
    rng = np.random.default_rng(1)
    reward, silent, point = rng.uniform(size=(steps + 1, 2)), rng.uniform(size=(steps, 2)), np.array([1.1, -0.1])
    tail = start_tail(jnp.asarray(reward[0]), jnp.asarray(point))
    for step in range(steps):
        tail = watch_silence(tail, steps, jnp.asarray(step), jnp.asarray(silent[step]))
        tail = watch(tail, steps, jnp.asarray(step + 1), jnp.asarray(reward[step + 1]))
    late = reward[np.arange(steps + 1) >= steps / 2]
    assert half_way(steps) == steps + 1 - len(late)
    np.testing.assert_allclose(tail.mean, late.mean(0), rtol=1e-14)
    np.testing.assert_allclose(tail.square, ((late - late.mean(0)) ** 2).sum(0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(tail.silent, silent[np.arange(steps) >= steps / 2].sum(0), rtol=1e-14)
    np.testing.assert_allclose(tail.overshoot, (np.array([1, -1]) * (reward - point)).max(0), rtol=1e-14)
