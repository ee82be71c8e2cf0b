"""The network whose kernel is frozen: the network itself along the flow at a large output scale."""

import numpy as np

from bandit_lab.bandits.neural import neural
from experiments.shared.theory import gradient_flow
from experiments.shared.theory.lazy import lazy_climb

WEIGHT, SIZE = 0.5, 0.02


def stiffnesses(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Along the flow of a network and of the one with a frozen kernel, at the same times."""
    bandit, unit = neural(2, 2, 2, width=3, scale=scale), scale**2
    times = np.array([0.0, 2.0, 8.0]) / unit
    climbs = gradient_flow.climb_of(bandit, WEIGHT), lazy_climb(bandit, WEIGHT)
    whole, lazy = (
        gradient_flow.sharpness(c, "grpo", gradient_flow.follow(c, "grpo", times, SIZE / unit)) / unit for c in climbs
    )
    return whole, lazy


def test_a_large_output_scale_makes_a_network_lazy():
    """What is left falls as 1/scale. At scale 1 the network is another one."""
    rich, far, near = (stiffnesses(scale) for scale in (1.0, 100.0, 400.0))
    missed = [np.max(np.abs(whole / lazy - 1)) for whole, lazy in (rich, far, near)]
    assert missed[0] > 0.1
    assert missed[1] < 0.05
    assert 3 < missed[1] / missed[2] < 5
    assert np.ptp(near[1]) > 0.01 * near[1][0]  # the policy moves
