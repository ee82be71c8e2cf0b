"""Where a run leaves the flow: the closed form without a fresh part, and block maps where fresh and stale mix."""

import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.bandits.neural import neural
from experiments.shared.theory import gradient_flow
from experiments.shared.theory.edge_of_stability import edge, edge_along_flow

CLIMB = gradient_flow.climb_of(neural(2, 2, 2, width=3), 0.1)
DURATION, SIZE, INTERVAL = 9.0, 0.05, 4
TIMES = np.linspace(0, DURATION, 41)[1:]


@pytest.fixture(scope="module")
def flow():
    """Stiffness [40] at the places at which multipliers are looked at; it rises at the end."""
    return gradient_flow.sharpness(CLIMB, "grpo", gradient_flow.follow(CLIMB, "grpo", TIMES, SIZE))


def edge_of_runs(estimator: str, rate: float, advantage: str = "grpo") -> float:
    return edge_along_flow(CLIMB, advantage, estimator, rate, INTERVAL, DURATION, SIZE)


def test_adam_with_fresh_gradients_has_the_edge_of_the_literature():
    """arXiv 2207.14484: 2 (1 + b1)/((1 - b1) eta), 38/eta at b1 = 0.9; stale gradients by the linear loop."""
    assert edge("refresh", 1, 0.9, 0.01, "ema") == pytest.approx(3800)
    place = edge("pipeline", 4, 0.9, 0.01, "ema")
    loop = theory.LinearLoop(0.0, place, 0.9, "pipeline", "ema")
    assert theory.spectral_radius(loop, 0.01, 4) == pytest.approx(1, abs=1e-6)
    assert place == pytest.approx(10 * edge("pipeline", 4, 0.9, 0.01))


def test_without_a_fresh_part_it_is_the_closed_form(flow):
    """2/(eta N), to the flow's rise between two fine places: a fortieth of that between two coarse ones."""
    level = (flow[-1] + flow[0]) / 2
    rate = 2 / (INTERVAL * level)
    apart = np.max(np.abs(np.diff(flow))) / 40
    assert abs(edge_of_runs("frozen", rate) - edge("refresh", INTERVAL, 0.0, rate)) < apart
    assert abs(edge_of_runs("frozen", 1.02 * rate) - level) > apart
    mixed = edge_of_runs("ratio", rate)
    assert abs(mixed - level) > apart
