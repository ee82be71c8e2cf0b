"""Sampled gradients under samplers and corrections against their exact mean and second moment."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab.bandits.contextual import contextual
from bandit_lab.grpo import (
    CORRECTIONS,
    Clipped,
    LogitNoise,
    Masked,
    NoCorrection,
    OwnLaw,
    Temperature,
    TopK,
    TopP,
    Truncated,
)
from bandit_lab.simulation import sampled
from bandit_lab.simulation.finite_group import group_moments

DRAWS, LARGEST_Z = 40_000, 5.0
PROMPTS = contextual(2, 3, overlap=0.4, difficulty=0.5)
LEARNERS = {
    "hot, tis, clipped": learner(estimator=Clipped(0.1), sampler=Temperature(2.5), correction=Truncated(1.3)),
    "cold, importance, k3": learner(
        sampler=Temperature(0.6), correction=CORRECTIONS.build("importance", {}), kl_estimator="k3"
    ),
    "nucleus, k3": learner(sampler=TopP(0.5), kl_estimator="k3"),
    "likeliest, contexts": learner(bandit=PROMPTS, sampler=TopK(2)),
    "noise, icepop, mean-only": learner("dr_grpo", sampler=LogitNoise(std=0.7), correction=Masked(0.7, 1.4)),
    "cold, silent groups dropped": learner("dapo", sampler=Temperature(0.6)),
}


def z_scores(trained, exact):
    """Of mean and second moment [2 D] of the gradient that is drawn, against the exact ones of another learner."""
    random = np.random.default_rng(3)
    start = trained.bandit.initial_parameters
    theta, behaviour = (start + jnp.asarray(random.normal(0, 1.2, start.shape)) for _ in range(2))
    weight = jnp.asarray(0.1)
    keys = jax.random.split(jax.random.key(1), DRAWS)
    drawn = np.asarray(jax.jit(jax.vmap(lambda k: sampled(trained)(k, weight, theta, behaviour).value))(keys))
    moments = jax.jit(group_moments(exact))(weight, theta, behaviour)
    z = []
    for power, expected in ((1, moments.mean), (2, moments.square)):
        seen = drawn**power
        z.append((seen.mean(0) - expected) / (seen.std(0) / np.sqrt(DRAWS) + 1e-9))
    return np.concatenate(z)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in ("hot, tis, clipped", "likeliest, contexts") else pytest.mark.slow)
        for n in LEARNERS
    ],
)
def test_drawn_gradients_have_their_exact_moments(name):
    """n = 40,000 groups of 4, seed 1: |z| <= 5 (false alarm 6e-7 per number).

    Planted: the exact moments without the sampler, and without the correction, are farther off.
    """
    trained = replace(LEARNERS[name], group_size=4)
    assert np.max(np.abs(z_scores(trained, trained))) <= LARGEST_Z
    assert np.max(np.abs(z_scores(trained, replace(trained, sampler=OwnLaw())))) > LARGEST_Z
    if not isinstance(trained.correction, NoCorrection):
        assert np.max(np.abs(z_scores(trained, replace(trained, correction=NoCorrection())))) > LARGEST_Z
