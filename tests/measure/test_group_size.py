"""What a finite group does to the mean: where invariance holds and fails."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom
from settings import learner

from bandit_lab.bandits import two_arm
from bandit_lab.simulation import drift_of
from bandit_lab.theory.group_size import factor_expansion

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def group_factor(size, p):
    """c_G(p) = E[sigma_k]/sqrt(p (1 - p)), k ~ Bin(G, p): the closed form, from scipy's binomial."""
    k = np.arange(size + 1)
    return np.sum(binom.pmf(k, size, p) * np.sqrt(k * (size - k)) / size) / np.sqrt(p * (1 - p))


def at_success(p):
    """Parameters of two arms (1, 0) that succeed with probability p."""
    gap = np.log(p / (1 - p))
    return jnp.array([gap / 2, -gap / 2])


def test_invariance_holds_while_many_of_both_kinds_are_drawn():
    """|c_G - first order| stays within its stated error bar while G p (1 - p) >= 1; the shift itself is below 1 % above
    13 of them, and more than a tenth where G p (1 - p) <= 1. RLOO is invariant everywhere.
    """
    for size in (4, 16, 64, 256):
        for p in np.linspace(0.02, 0.98, 25):
            drawn, exact = size * p * (1 - p), group_factor(size, p)
            first, bar = factor_expansion(size, p)
            if drawn >= 4:
                assert abs(exact - first) <= 2 * bar + 0.1 / drawn**3
            if drawn >= 13:
                assert 1 - exact < 0.0105
            if drawn <= 1:
                assert 1 - exact > 0.1
            theta = at_success(p)
            rloo = learner("rloo", two_arm((1.0, 0.0)), group_size=size)
            np.testing.assert_allclose(
                drift_of(rloo, "finite_group")(theta, theta, 0.0),
                drift_of(rloo, "mean_field")(theta, theta, 0.0),
                rtol=1e-12,
            )
