"""A verifier that errs: the closed form, the sign of TPR - FPR, and the clean limit (arXiv 2601.04411)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits import expected_reward
from bandit_lab.bandits.noisy_verifier import noisy_verifier
from bandit_lab.grpo import GRPO, DrGRPO, Hyper, Learner
from experiments.shared.theory.two_arm import noisy_verifier_curve, perfect_verifier_law

RATE, STEPS, EVERY = 0.02, 1000, 50


def success(bandit, rate, steps):
    """True success [steps + 1] of the mean-field run at learning rate `rate`."""
    cell = Hyper(*(np.array([x]) for x in (rate, 0.0, 1, 0.0)))
    return simulation.run(Learner(bandit), "mean_field", cell, steps=steps, dtype=np.float64).reward_mean[0]


@pytest.mark.parametrize(("tpr", "fpr"), [(1.0, 0.0), (0.8, 0.3), (0.6, 0.55), (0.3, 0.8), (0.5, 0.5)])
def test_the_trajectory_is_the_closed_form_in_the_limit_of_small_steps(tpr, fpr):
    """Two step sizes and their extrapolation to 0, whose error is of second order in the step. Tolerance 1e-4; the
    curve of TPR and FPR exchanged is farther off than that wherever they differ."""
    bandit = noisy_verifier((1.0, 0.0), tpr, fpr, initial_logits=(-0.8, 0.6))
    coarse, fine = success(bandit, RATE, STEPS)[::EVERY], success(bandit, RATE / 2, 2 * STEPS)[:: 2 * EVERY]
    time = RATE * np.arange(0, STEPS + 1, EVERY)
    start = 1 / (1 + np.exp(-1.4))
    bad = noisy_verifier_curve(time, start, tpr, fpr)
    limit = 1 - (2 * fine - coarse)
    assert np.max(np.abs(limit - bad)) <= 1e-4
    if (tpr, fpr) == (1.0, 0.0):
        assert np.max(np.abs(limit - np.asarray(perfect_verifier_law(time, start)))) <= 1e-4
    if tpr != fpr:
        assert np.max(np.abs(limit - noisy_verifier_curve(time, start, fpr, tpr))) > 1e-3


def _settings(count, arms=4):
    """Random problems: (true success [count, K], TPR, FPR [count], logits [count, K]), seed 7."""
    draw = np.random.default_rng(7)
    return draw.uniform(size=(count, arms)), *draw.uniform(size=(2, count)), 1.5 * draw.standard_normal((count, arms))


@pytest.mark.parametrize("advantage", [GRPO(), DrGRPO()])
@pytest.mark.parametrize("dynamics", ["mean_field", "finite_group"])
def test_the_sign_of_tpr_minus_fpr_decides_in_all_of_500_random_settings(advantage, dynamics):
    """Change of the true reward along the mean update, G = 8. With the verdict's own reward reported instead the sign
    would be + everywhere: that is caught."""
    truth, tpr, fpr, logits = _settings(500)
    bandits = [noisy_verifier(*row) for row in zip(truth.tolist(), tpr.tolist(), fpr.tolist(), strict=True)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bandits)

    def changes(bandit, theta):
        drift = simulation.drift_of(Learner(bandit, advantage, group_size=8), dynamics)(theta, theta, jnp.zeros(()))
        trained = jax.grad(lambda x: jnp.sum(jnp.exp(bandit.log_policy(x)) * bandit.law.means))(theta)
        return jax.grad(lambda x: expected_reward(bandit, x))(theta) @ drift, trained @ drift

    true, trained = jax.jit(jax.vmap(changes))(together, jnp.asarray(logits))
    assert np.mean(np.sign(true) == np.sign(tpr - fpr)) == 1.0
    assert np.mean(np.sign(trained) == np.sign(tpr - fpr)) < 0.7
