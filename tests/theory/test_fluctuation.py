"""Early warning of the stationary fluctuation, group size and curvature. Correlations: test_every_convention.py."""

import numpy as np
import pytest

from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.fluctuation import correlation, early_warning, spectrum
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.group_size import factor_expansion, group_shift
from bandit_lab.theory.thresholds import exact
from experiments.shared.theory.curvature import directional_curvature, one_logit_curvature, spread_bound, uniform_bound

LOOP = LinearLoop(np.array([[0.5, 0.1], [0.1, 0.3]]), np.array([[0.3, -0.2], [0.1, 0.4]]), 0.6)
NOISE, PROBE = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([1.0, -0.5])


def test_early_warning_diverges_like_the_inverse_distance():
    for momentum in (0.0, 0.9):
        loop = LinearLoop(0.0, 1.0, momentum)
        critical = exact("refresh", 4, momentum).kappa
        gaps = np.array([1e-2, 1e-3, 1e-4])
        ratio = early_warning(loop, critical, 4, [[1.0]], 1 - gaps)
        assert np.polyfit(np.log(gaps), np.log(ratio), 1)[0] == pytest.approx(-1.0, abs=0.02)
        assert early_warning(loop, critical, 4, [[1.0]], np.array([1e-3, 1.1]))[0] == pytest.approx(1.0, abs=0.01)
        assert early_warning(loop, critical, 4, [[1.0]], np.array([1.1]))[0] == np.inf


def test_unstable_loops_have_no_spectrum():
    assert correlation(LOOP, 10.0, 3, NOISE, PROBE) is None
    assert spectrum(LOOP, 10.0, 3, NOISE, PROBE, np.zeros(1)) is None


def test_second_order_of_the_group_factor():
    for p in (0.5, 0.2, 0.8):
        s = p * (1 - p)
        second = -(7 / (128 * s**2) - 1 / (8 * s))
        gaps = [(GroupLaw("grpo", g).group_factor(p) - factor_expansion(g, p)[0]) * g**2 for g in (800, 1600)]
        assert 2 * gaps[1] - gaps[0] == pytest.approx(second, rel=2e-3)
        assert factor_expansion(64, p)[1] == pytest.approx(abs(second) / 64**2)


def test_group_shift_falls_like_one_over_the_group():
    sizes = np.array([64, 256, 1024])
    shifts = [group_shift((0.9, 0.1), np.array([0.5, 0.5]), 1.0, GroupLaw("grpo", int(g))) for g in sizes]
    for name in ("expected_reward", "stiffness", "threshold"):
        values = np.abs([getattr(s, name) for s in shifts])
        assert np.polyfit(np.log(sizes), np.log(values), 1)[0] == pytest.approx(-1.0, abs=0.05)
    assert group_shift((0.9, 0.1), np.array([0.5, 0.5]), 1.0, GroupLaw("rloo", 8)).stiffness == pytest.approx(0.0)
    assert group_shift((1.0, 0.0), np.array([0.5, 0.5]), 1.2, GroupLaw("grpo", 8)) is None


def test_curvature_bounds_over_random_instances():
    """2,000 random instances; |c^2 covariance| <= spread bound <= B^2 sigma; the curvature by central differences."""
    rng = np.random.default_rng(9)
    for _ in range(2000):
        policy = rng.dirichlet(np.full(4, 0.5))
        rewards, feature = rng.uniform(size=4), rng.uniform(-1, 1, size=4)
        size = np.abs(feature).max()
        curvature = abs(directional_curvature(policy, rewards, feature))
        bound = spread_bound(policy, rewards, feature)
        assert curvature <= bound * (1 + 1e-12) + 1e-15
        assert bound <= uniform_bound(policy, rewards, size) * (1 + 1e-12) + 1e-15
    policy, rewards, feature, h = np.array([0.2, 0.5, 0.3]), np.array([0.9, 0.1, 0.4]), np.array([0.7, -0.2, 1.0]), 1e-4
    moved = [policy * np.exp(t * feature) for t in (-h, 0.0, h)]
    values = [m @ rewards / m.sum() for m in moved]
    central = (values[0] - 2 * values[1] + values[2]) / h**2
    assert directional_curvature(policy, rewards, feature) == pytest.approx(central, abs=1e-7)


def test_equality_case_of_the_curvature_bound():
    root = (1 - 1 / np.sqrt(2)) / 2
    assert root * (1 - root) == pytest.approx(1 / 8)
    policy, rewards, feature = np.array([root, 1 - root]), np.array([1.0, 0.0]), np.array([0.5, -0.5])
    sigma = np.sqrt(1 / 8)
    assert abs(directional_curvature(policy, rewards, feature)) == pytest.approx(sigma / 4, rel=1e-12)
    assert uniform_bound(policy, rewards, 0.5) == pytest.approx(sigma / 4, rel=1e-12)
    grid = np.linspace(0.001, 0.999, 999)
    assert (np.abs(one_logit_curvature(grid)) <= np.sqrt(grid * (1 - grid)) / 4 + 1e-15).all()
