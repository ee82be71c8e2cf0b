"""The gradient flow held at a stiffness: below it is the gradient flow, at it the push is down the stiffness alone."""

import jax
import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.bandits.neural import neural

CLIMB = theory.climb_of(neural(2, 2, 2, width=3), 0.1)
TIMES = np.linspace(0, 9, 46)[1:]


@pytest.fixture(scope="module")
def flow():
    """The gradient flow [45, D] and its stiffness [45], which rises at the end."""
    path = theory.follow(CLIMB, "grpo", TIMES, 0.05)
    return path, theory.sharpness(CLIMB, "grpo", path)


def test_below_the_edge_it_is_the_gradient_flow_to_first_order(flow):
    """Euler's method: half the step, half the error (1.6 to 2.4 times)."""
    path, stiffness = flow
    paths = [theory.central_flow(CLIMB, "grpo", 10 * stiffness.max(), TIMES, size) for size in (0.04, 0.02)]
    errors = [np.max(np.abs(one - path)) for one in paths]
    assert 1.6 < errors[0] / errors[1] < 2.4
    assert errors[1] < 0.02 * np.max(np.abs(path[-1] - path[0]))


def test_it_stays_at_the_edge_and_is_pushed_down_the_stiffness_alone(flow):
    _, stiffness = flow
    edge = (stiffness[-1] + stiffness.min()) / 2
    held = theory.central_flow(CLIMB, "grpo", edge, TIMES, 0.01)
    late = TIMES[np.argmax(stiffness > edge)] + 0.5 < TIMES
    assert late.sum() > 3
    assert stiffness[late].min() > 1.02 * edge
    np.testing.assert_allclose(theory.sharpness(CLIMB, "grpo", held)[late], edge, rtol=0.01)
    fine = theory.central_flow(CLIMB, "grpo", edge, np.array([8.5, 8.55]), 0.01)
    velocity = (fine[1] - fine[0]) / 0.05
    middle = jax.numpy.asarray(fine.mean(axis=0))
    push = velocity - jax.grad(lambda x: theory.potential(CLIMB, "grpo", x))(middle)

    def sharpness(x):
        return jax.numpy.linalg.eigvalsh(-jax.hessian(lambda y: theory.potential(CLIMB, "grpo", y))(x))[-1]

    slope = np.asarray(jax.grad(sharpness)(middle))
    cosine = push @ slope / (np.linalg.norm(push) * np.linalg.norm(slope))
    assert cosine < -0.99
    assert abs(velocity @ slope) < 0.05 * np.linalg.norm(push) * np.linalg.norm(slope)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="edge: expected a number > 0"):
        theory.central_flow(CLIMB, "grpo", 0.0, TIMES, 0.05)
    with pytest.raises(ValueError, match="advantage: expected one of"):
        theory.central_flow(CLIMB, "rloo", 1.0, TIMES, 0.05)
