"""Branches beyond a threshold: against long runs of the simulator, and against the exact orbits of the theory."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab import theory
from bandit_lab.bandits import two_arm
from bandit_lab.bandits.base import Bandit, RewardLaw
from bandit_lab.grpo import ESTIMATORS, Hyper, Learner, Optimizer
from bandit_lab.measure import find_fixed_point, measure_stiffness
from bandit_lab.measure.branch import Branches, branches
from bandit_lab.simulation import mean_curves

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@cache
def followed(model: str, interval: int, momentum: float, bandit: str = "two") -> tuple[Learner, Branches]:
    trained = learner("grpo", two_arm() if bandit == "two" else None, model)
    return trained, branches(trained, "mean_field", Hyper(1.0, momentum, interval, 1.0))


def late(trained, rate, momentum, interval, steps, last) -> np.ndarray:
    """Expected reward of the last updates of a run from beside the fixed point."""
    theta = find_fixed_point(trained, "mean_field", 1.0).theta
    start = (theta + 0.05 * np.arange(1, len(theta) + 1))[None]
    return mean_curves(trained, cells(rate, momentum, interval), steps=steps, initial=start)[0, -last:]


@pytest.mark.parametrize(("interval", "momentum", "bandit"), [(8, 0.0, "two"), (4, 0.5, "three")])
def test_cycles_are_those_that_long_runs_reach(interval, momentum, bandit):
    trained, found = followed("refresh", interval, momentum, bandit)
    ratio = found.cycle.learning_rate / found.threshold.learning_rate
    assert found.criticality == "supercritical"
    assert found.ended is None
    assert ratio[-1] > 1.5
    i = int(np.argmin(np.abs(ratio - 1.1)))
    assert found.cycle.stable[i]
    rate = found.cycle.learning_rate[i]
    curve = late(trained, rate, momentum, interval, 1000 * interval, 4 * interval)
    seen = np.array([curve.min(), curve.max()])
    np.testing.assert_allclose(found.cycle.reward[i], seen, atol=1e-9)
    assert abs(found.cycle.reward[i + 1] - seen).min() > 1e-6  # a neighbour is another cycle
    # Beyond its own flip the cycle is still there, but no run returns to it.
    end = next(b for b in found.bifurcations if b.of == "cycle")
    assert end.kind == "flip"
    for factor, returns in ((0.99, True), (1.01, False)):
        curve = late(trained, end.learning_rate * factor, momentum, interval, 4000 * interval, 2 * interval + 1)
        assert (abs(curve[-1] - curve[0]) < 1e-6) == returns


@pytest.mark.parametrize(("interval", "momentum"), [(8, 0.0), (4, 0.5)])
def test_cycles_of_two_arms_are_the_orbits_of_the_theory(interval, momentum):
    found = followed("refresh", interval, momentum)[1]
    signal = theory.BinarySignal(theory.GroupLaw("grpo", None), (0.9, 0.1))
    point = theory.attracting_fixed_point(signal, np.full(2, 0.5), 1.0, np.full(2, 0.5))
    gap = float(np.log(point.policy[0] / point.policy[1]))
    orbit = theory.two_cycle(lambda x: float(theory.gap_drift(np.asarray(x), signal, 0.0, 1.0)), gap, 3.0, 2000)
    ratio = found.cycle.learning_rate / found.threshold.learning_rate
    inside = (ratio > 1.001) & (ratio < orbit.ratio.max())
    assert inside.sum() > 5
    expected = np.interp(ratio[inside], orbit.ratio, orbit.amplitude**2) ** 0.5
    np.testing.assert_allclose(found.cycle.swing[inside], expected, rtol=1e-4)
    near = slice(1, 8)
    slope = np.polynomial.Polynomial.fit(orbit.amplitude[near] ** 2, orbit.ratio[near], 2).deriv()(0.0)
    assert found.slope == pytest.approx(1 / slope, rel=1e-2)


@pytest.mark.parametrize(("model", "interval", "momentum"), [("refresh", 8, 0.0), ("refresh", 8, 0.9), ("lag", 8, 0.0)])
def test_the_fixed_point_loses_its_stability_at_the_exact_threshold(model, interval, momentum):
    trained, found = followed(model, interval, momentum)
    point = find_fixed_point(trained, "mean_field", 1.0)
    exact = theory.exact(model, interval, momentum)
    rate = exact.kappa / measure_stiffness(trained, "mean_field", 1.0, point).largest
    first = found.bifurcations[0]
    assert first.learning_rate == pytest.approx(rate, rel=1e-6)
    assert (first.of, first.kind) == ("fixed_point", exact.bifurcation)
    np.testing.assert_array_equal(
        found.fixed_point.learning_rate < rate * (1 - 1e-9), found.fixed_point.radius < 1 - 1e-9
    )
    np.testing.assert_allclose(found.fixed_point.reward, point.expected_reward, atol=1e-10)


@pytest.mark.parametrize(("model", "interval", "momentum"), [("lag", 8, 0.0), ("pipeline", 4, 0.5)])
def test_circles_have_the_range_of_long_runs(model, interval, momentum):
    trained, found = followed(model, interval, momentum)
    assert (found.bifurcations[0].kind, found.cycle) == ("neimark_sacker", None)
    assert found.criticality == "supercritical"
    rate = found.circle.learning_rate[3]
    curve = late(trained, rate, momentum, interval, 30_000, 8000)
    np.testing.assert_allclose(found.circle.reward[3], [curve.min(), curve.max()], atol=1e-5)
    assert np.all(np.diff(found.circle.swing) > 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stiffening(Bandit):
    """One parameter, logit gap theta + theta^3/2: the pull to the middle grows faster than the distance."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array

    def log_policy(self, theta):
        gap = theta[0] + 0.5 * theta[0] ** 3
        return jax.nn.log_softmax(jnp.stack([gap, 0.0 * gap]))[None]


def test_a_cycle_that_is_born_backwards_is_called_subcritical():
    """Equal arms: the drift is -p(1-p) gap gap', so that +-A is an orbit at ratio 1/(1 + 7 A^2/4) to leading order."""
    even = RewardLaw(jnp.array([0.0, 1.0]), jnp.full((1, 2, 2), 0.5))
    bandit = Stiffening(even, jnp.array([0.1]), jnp.log(jnp.full((1, 2), 0.5)))
    found = branches(learner("dr_grpo", bandit), "mean_field", Hyper(1.0, 0.0, 4, 1.0))
    assert found.criticality == "subcritical"
    assert found.slope == pytest.approx(-4 / 7, rel=1e-2)
    assert np.all(found.cycle.learning_rate[1:4] < found.threshold.learning_rate)
    assert not found.cycle.stable[1:4].any()


def test_a_flip_from_step_to_step_within_a_block_leaves_a_cycle_below_the_threshold():
    """Estimator `ratio`: the block's start is no other phase's, so that the cycle crosses the fixed point. Below the
    threshold small displacements decay and large ones cycle."""
    trained = learner("grpo", two_arm(), estimator=ESTIMATORS["ratio"]())
    found = branches(trained, "mean_field", Hyper(1.0, 0.0, 8, 1.0))
    ratio = found.cycle.learning_rate / found.threshold.learning_rate
    assert (found.criticality, found.bifurcations[0].kind) == ("transcritical", "flip")
    fold = next(b for b in found.bifurcations if b.kind == "fold")
    assert fold.learning_rate / found.threshold.learning_rate == pytest.approx(ratio.min(), abs=2e-3)
    inside = np.flatnonzero((ratio < 0.995) & found.cycle.stable)
    i = int(inside[np.argmax(found.cycle.swing[inside])])
    theta = find_fixed_point(trained, "mean_field", 1.0).theta
    start = theta + np.array([[0.005], [-0.3], [0.3]]) * np.array([1.0, -1.0])
    rates = cells([found.cycle.learning_rate[i]] * 3, 0.0, 8)
    late = mean_curves(trained, rates, steps=16_000, initial=start)[:, -8:]
    seen = np.stack([late.min(axis=1), late.max(axis=1)], axis=1)
    np.testing.assert_allclose(seen[0], found.fixed_point.reward[0], atol=1e-9)
    assert min(abs(one - found.cycle.reward[i]).max() for one in seen[1:]) < 1e-9


def test_what_cannot_be_followed_says_why():
    adam = learner("grpo", two_arm(), optimizer=Optimizer("adam"), group_size=8)
    found = branches(adam, "finite_group", Hyper(0.01, 0.0, 4, 1.0))
    assert found.fixed_point is None
    assert "second moments" in found.reason
    vertex = branches(learner("grpo", two_arm((1.0, 0.0))), "mean_field", Hyper(0.1, 0.0, 4, 0.1))
    assert vertex.fixed_point is None
    assert "vertex" in vertex.reason
