"""Long blocks: the success-probability recurrence and its slope. Period two: measure/test_mixed.py."""

import numpy as np
import pytest

from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.fixed_points import fixed_points
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.stability import multipliers
from bandit_lab.theory.stiffness import BinarySignal, stiffness_split
from experiments.shared.theory.long_block import long_block_policy, success_recurrence, success_slope

SIGNAL, REFERENCE = BinarySignal(GroupLaw("grpo"), (1.0, 0.0)), np.array([0.009, 0.991])


def test_recurrence_is_the_long_block_of_two_arms():
    for p in (0.02, 0.3, 0.8):
        after = long_block_policy(SIGNAL, REFERENCE, 1.7, np.array([p, 1 - p]))
        assert after[0] == pytest.approx(float(success_recurrence(np.array(p), 0.009, 1.7)), rel=1e-12)
    assert success_recurrence(np.array(0.2), 0.1, 1.0, eps=0.05) < success_recurrence(np.array(0.2), 0.1, 1.0)


@pytest.mark.parametrize("beta", [1.2, 2.0, 2.5, 3.0])
def test_slope_is_minus_rho_of_the_split(beta):
    point = fixed_points(SIGNAL, REFERENCE, beta)[0]
    fresh, stale = stiffness_split(SIGNAL, point.policy, beta, "ratio").reduced()
    rho = stale[0, 0] / fresh[0, 0]
    p, h = point.policy[0], 1e-6
    central = (success_recurrence(p + h, 0.009, beta) - success_recurrence(p - h, 0.009, beta)) / (2 * h)
    assert success_slope(p, beta) == pytest.approx(-rho, rel=1e-10)
    assert central == pytest.approx(-rho, rel=1e-6)
    block = multipliers(LinearLoop(fresh, stale, 0.5), 0.2, 5000)[0]
    assert block.real == pytest.approx(-rho, rel=1e-6)
