"""Simulated mean-field curves against the closed-form trajectories: orders, limits and the two slow starts."""

import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.measure import find_fixed_point, measure_stiffness
from bandit_lab.simulation import run
from bandit_lab.theory import oscillator, response
from experiments.shared.theory.release import discrete_response
from experiments.shared.theory.two_arm import mean_only_law, sinh_law


def mean_curve(advantage, rewards, rate, steps, momentum=0.0, kl_weight=0.0, start=(0.0, 0.0)):
    """Expected reward [steps + 1] of the mean field, float64, N = 1."""
    trained = learner(advantage, two_arm(rewards, initial_logits=start))
    return run(trained, "mean_field", cells(rate, momentum, 1, kl_weight), steps=steps, dtype=np.float64).reward_mean[0]


@pytest.mark.parametrize(("advantage", "law"), [("grpo", sinh_law), ("dr_grpo", mean_only_law)])
def test_two_arm_curves_converge_to_the_exact_laws_with_order_one(advantage, law):
    """Rewards 1 and 0 from a gap of -2 up to time 8: the error falls linearly with the step (declared order 1.00 +-
    0.05), and Richardson's extrapolation of the two finest runs leaves less than 1e-6."""
    rates, errors, curves = np.array([0.02, 0.01, 0.005]), [], []
    exact = np.asarray(law(np.linspace(0, 8, 41), -2.0))
    for rate in rates:
        stride = round(0.2 / rate)
        curve = mean_curve(advantage, (1.0, 0.0), rate, 40 * stride, start=(-1.0, 1.0))[::stride]
        curves.append(curve)
        errors.append(np.max(np.abs(curve - exact)))
    order = np.polyfit(np.log(rates), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.05)
    assert np.max(np.abs(2 * curves[2] - curves[1] - exact)) < 1e-6 * 25
    third = 8 / 3 * curves[2] - 2 * curves[1] + curves[0] / 3
    assert np.max(np.abs(third - exact)) < 1e-6
    # The planted defect: the one-logit rate, half of it, is far away.
    assert np.max(np.abs(np.asarray(law(np.linspace(0, 8, 41), -2.0, logits=1)) - exact)) > 0.1


@pytest.mark.parametrize(("rate", "momentum", "regime"), [(0.02, 0.5, "overdamped"), (0.05, 0.95, "oscillatory")])
def test_near_the_fixed_point_the_mean_curve_is_the_oscillators(rate, momentum, regime):
    """From rest, displaced by 1e-4 logits, N = 1. The discrete response is exact up to nonlinearity (declared 1e-4);
    the continuous oscillator approaches it with order 1 as eta -> s^2 eta, 1 - mu -> s (1 - mu) at fixed damping ratio.
    """
    trained = learner("grpo", two_arm())
    point = find_fixed_point(trained, "mean_field", 1.0)
    stiffness = measure_stiffness(trained, "mean_field", 1.0, point).largest
    start = (point.theta + 1e-4 * np.array([0.5, -0.5]))[None]
    scales, errors = np.array([0.4, 0.2, 0.1]), []
    for scale in scales:
        eta, mu, steps = rate * scale**2, 1 - scale * (1 - momentum), round(400 / scale)
        grid = cells(eta, mu)
        curve = run(trained, "mean_field", grid, steps=steps, dtype=np.float64, initial=start).reward_mean[0]
        displaced = (curve - point.expected_reward) / (curve[0] - point.expected_reward)
        exact = np.asarray(discrete_response(steps, eta * stiffness, mu))
        assert np.max(np.abs(displaced - exact)) < 1e-4
        osc = oscillator(eta, mu, stiffness, 0.0, mass="symmetric")
        assert osc.regime == regime
        predicted = np.asarray(response(osc, jnp.arange(steps + 1.0), 1.0, 0.0))
        errors.append(np.max(np.abs(displaced - predicted)))
    assert np.polyfit(np.log(scales), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.1)
