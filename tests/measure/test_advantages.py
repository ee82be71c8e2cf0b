"""Every advantage that the theory has a closed form for: its mean gradient against the simulation's exact one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab import theory
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, Learner, sees_batch
from bandit_lab.simulation import drift_of

ARMS = k_arm((0.85, 0.4, 0.15))
FIXED = k_arm((1.3, 0.2, -0.4), kind="fixed")
NOW, OLD = jnp.array([0.3, -0.5, 0.1]), jnp.array([-0.4, 0.2, 0.6])


def expected(signal, estimator):
    """The mean of the estimator at (NOW, OLD) without KL term, from h and the mean advantage of the rollout policy."""
    policy, old = (np.asarray(jax.nn.softmax(theta)) for theta in (NOW, OLD))
    factor, means = signal.factor(old), signal.means
    if estimator == "ratio":
        return factor * theory.fisher(policy) @ means
    stale = factor * theory.fisher(old) @ means
    return stale if estimator == "frozen" else stale + signal.mean_advantage(old) * (old - policy)


def test_the_theory_names_advantages_as_the_registry_does():
    """What the registry has beyond the theory sees several groups at once: no function of one group's law."""
    assert set(theory.MOMENT_ADVANTAGES) < set(theory.ADVANTAGES) <= set(ADVANTAGES)
    assert all(sees_batch(ADVANTAGES[name]()) for name in set(ADVANTAGES) - set(theory.ADVANTAGES))


@pytest.mark.parametrize("estimator", ["frozen", "uncorrected", "ratio"])
@pytest.mark.parametrize("name", theory.ADVANTAGES)
def test_mean_gradient_of_binary_rewards(name, estimator):
    """Enumerated groups of 3 and 4 and infinite ones, off policy, to 1e-13. Planted: the factor of another rule."""
    success = tuple(np.asarray(ARMS.law.means[0]))
    for size in (3, 4, None):
        trained = learner(name, ARMS, group_size=size or 4, estimator=ESTIMATORS[estimator]())
        found = drift_of(trained, "mean_field" if size is None else "finite_group")(NOW, OLD, 0.0)
        signal = theory.BinarySignal(theory.GroupLaw(name, size), success)
        np.testing.assert_allclose(found, expected(signal, estimator), atol=1e-13)
        wrong = theory.BinarySignal(theory.GroupLaw("tempered", size, power=0.8), success)
        assert np.abs(found - expected(wrong, estimator)).max() > 1e-3


@pytest.mark.parametrize("size", [4, None])
@pytest.mark.parametrize("power", [0.0, 1.3, 2.0])
def test_mean_gradient_at_other_powers_of_the_std(power, size):
    trained = Learner(ARMS, ADVANTAGES["tempered"](power), group_size=size or 4)
    found = drift_of(trained, "mean_field" if size is None else "finite_group")(OLD, OLD, 0.0)
    law = theory.GroupLaw("tempered", size, power=power)
    signal = theory.BinarySignal(law, tuple(np.asarray(ARMS.law.means[0])))
    np.testing.assert_allclose(found, expected(signal, "frozen"), atol=1e-13)


@pytest.mark.parametrize("estimator", ["uncorrected", "ratio"])
@pytest.mark.parametrize("name", theory.MOMENT_ADVANTAGES)
def test_mean_gradient_of_other_rewards_in_infinite_groups(name, estimator):
    """Rewards 1.3, 0.2 and -0.4, off policy, to 1e-13. Planted: another power of the std."""
    trained = learner(name, FIXED, estimator=ESTIMATORS[estimator]())
    found = drift_of(trained, "mean_field")(NOW, OLD, 0.0)
    means = tuple(np.asarray(FIXED.law.means[0]))
    np.testing.assert_allclose(found, expected(theory.MomentSignal(means, advantage=name), estimator), atol=1e-13)
    wrong = theory.MomentSignal(means, advantage="tempered", power=0.8)
    assert np.abs(found - expected(wrong, estimator)).max() > 1e-3
