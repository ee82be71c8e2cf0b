"""Runs that start far from the fixed point: they return below the threshold and cycle above it."""

import numpy as np
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.measure import find_fixed_point, learning_rate_boundary
from experiments.shared.measure.late_time import return_boundary, tail_range

ALONG = np.array([1.0, -1.0])


def test_the_boundary_of_far_starts_is_that_of_small_displacements():
    """On-policy blocks without momentum; a run that is too short says less, and one above the threshold cycles."""
    trained = learner("grpo", two_arm())
    point = find_fixed_point(trained, "mean_field", 1.0)
    one, theta = cells(1.0, 0.0, 4), np.tile(point.theta, (1, 1))
    small = learning_rate_boundary(trained, "mean_field", one, theta, ALONG / 2, np.geomspace(0.5, 20, 12)).value[0]
    both, far = cells([1.0, 1.0], 0.0, 4), np.tile(theta, (2, 1))
    start = far + np.array([[0.5], [-0.5]]) * ALONG
    grid = small * np.linspace(0.8, 1.2, 5)
    boundary = return_boundary(trained, "mean_field", both, far, start, ALONG, grid, 6000)
    np.testing.assert_allclose(boundary.value, small, rtol=5e-3)
    short = return_boundary(trained, "mean_field", both, far, start, ALONG, grid, 400)
    assert np.all(short.value < 0.99 * small)
    reach = tail_range(trained, "mean_field", cells(small * np.array([0.95, 1.05]), 0.0, 4), far, start, ALONG, 6000)
    assert np.abs(reach[0]).max() < 1e-6
    assert reach[1, 0] < -0.1 < 0.1 < reach[1, 1]
