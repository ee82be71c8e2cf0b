"""Quantities read along runs of several bandits at once, against the engine and by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits.contextual import contextual
from bandit_lab.grpo import Hyper, Lag, Learner
from bandit_lab.measure.displaced import stack_bandits
from experiments.shared.measure.observe import (
    mean_cosine,
    observe,
    prompt_gradients,
    success_and_cosine,
    success_of_prompts,
)

BANDITS = [contextual(3, 3, overlap, seed=seed) for overlap, seed in ((0.0, 1), (0.6, 2))]


def test_every_bandit_runs_as_the_engine_runs_it_alone():
    """Exact dynamics with a lag, momentum and KL: to rounding. Bandits in the wrong order are caught."""
    stacked, rates = stack_bandits(BANDITS), np.array([2.0, 3.0])
    options = {"group_size": 4, "staleness": Lag(), "horizon": 3}
    seen = observe(
        Learner(stacked, **options),
        "finite_group",
        Hyper(rates, 0.5, 3, 0.2),
        success_of_prompts,
        stacked,
        times=6,
        every=5,
    )[:, 0].mean(-1)
    for bandit, rate, curve, other in zip(BANDITS, rates, seen, seen[::-1], strict=True):
        cell = Hyper(*(np.array([x]) for x in (rate, 0.5, 3, 0.2)))
        alone = simulation.run(
            Learner(bandit, **options), "finite_group", cell, steps=25, dtype=np.float64
        ).reward_mean[0]
        np.testing.assert_allclose(curve, alone[::5], atol=1e-12)
        assert np.max(np.abs(other - alone[::5])) > 1e-3


def test_mean_cosine_and_gradients_by_hand():
    assert float(mean_cosine(jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))) == 0
    np.testing.assert_allclose(mean_cosine(jnp.array([[1.0, 0.0], [-3.0, 0.0], [1.0, 1.0]])), (1 + 2 / 2**0.5) / 3)
    value, gradients = prompt_gradients(BANDITS[0], BANDITS[0].initial_parameters)
    step = 1e-6 * gradients[1] / jnp.linalg.norm(gradients[1])
    change = success_of_prompts(BANDITS[0], BANDITS[0].initial_parameters + step) - value
    np.testing.assert_allclose(change / 1e-6, [0, jnp.linalg.norm(gradients[1]), 0], atol=1e-6)
    success, cosine = success_and_cosine(BANDITS[1], BANDITS[1].initial_parameters)
    np.testing.assert_array_equal(success, success_of_prompts(BANDITS[1], BANDITS[1].initial_parameters))
    assert float(cosine) == pytest.approx(0.6)  # prompts that are alike but for their difficulty: the overlap
