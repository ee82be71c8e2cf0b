"""Long blocks: the success-probability recurrence, its slope, period two and runaway."""

import numpy as np
import pytest

from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.fixed_points import fixed_points
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.signal import BinarySignal
from bandit_lab.theory.stability import islands, multipliers
from bandit_lab.theory.stiffness import stiffness_split
from experiments.shared.theory.long_block import long_block_policy, settle, success_recurrence, success_slope

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


def test_period_two_runaway_and_fixed_point():
    run = settle(SIGNAL, REFERENCE, 1.2, REFERENCE)
    assert run.kind == "period_2"
    np.testing.assert_allclose(np.sort(run.cycle[:, 0]), [0.0699, 0.1926], atol=5e-5)
    assert settle(SIGNAL, REFERENCE, 0.5, REFERENCE).kind == "runaway"
    calm = settle(SIGNAL, REFERENCE, 2.5, REFERENCE)
    assert calm.kind == "fixed_point"
    assert calm.cycle[0, 0] == pytest.approx(fixed_points(SIGNAL, REFERENCE, 2.5)[0].policy[0], abs=1e-8)


def test_real_split_has_instability_islands_although_rho_is_below_one():
    """Reference that disfavours the good arm, ratio, standardised, momentum 0.9: unstable runs of N that end again."""
    point = fixed_points(SIGNAL, REFERENCE, 2.0)[0]
    split = stiffness_split(SIGNAL, point.policy, 2.0, "ratio")
    assert point.policy[0] < 0.5
    fresh, stale = split.reduced()
    loop = LinearLoop(fresh, stale, 0.9)
    found = islands(loop, 0.01 / fresh[0, 0], 400)
    assert found
    assert all(last < 200 for _, last in found)
    assert abs(success_slope(point.policy[0], 2.0)) < 1
