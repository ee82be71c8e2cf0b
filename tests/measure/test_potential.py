"""The gap between the mean advantages of the higher and the lower reward, by enumeration of all groups."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab.bandits import two_arm
from bandit_lab.measure.stiffness import advantage_gap

SIZE = 4
RULES = {
    "grpo": lambda r: (r - r.mean()) / r.std() if np.ptp(r) else 0 * r,
    "dapo": lambda r: (r - r.mean()) / r.std() if np.ptp(r) else 0 * r,
    "median": lambda r: r - np.median(r),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("chance", [0.15, 0.7])
def test_the_gap_by_enumeration(rule, chance):
    """Groups of four, one reward known; where silent groups are dropped, as a share of those that are not."""
    expected, drops = 0.0, rule == "dapo"
    for others in itertools.product((0.0, 1.0), repeat=SIZE - 1):
        weight = np.prod([chance if won else 1 - chance for won in others])
        high, low = (RULES[rule](np.array([own, *others]))[0] for own in (1.0, 0.0))
        expected += weight * (high - low) / (1 - chance**SIZE - (1 - chance) ** SIZE if drops else 1)
    found = advantage_gap(learner(rule, two_arm(), group_size=SIZE), "finite_group")(jnp.asarray(chance))
    assert float(found) == pytest.approx(expected, rel=1e-6)
