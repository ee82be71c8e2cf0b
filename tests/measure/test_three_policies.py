"""Three real policies: exact thresholds of the theory against runs of the update from a small displacement."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ESTIMATORS, STALENESS, Hyper, Learner, WithProximal, init
from bandit_lab.measure import find_fixed_point, floquet_threshold
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.rollout import rollout

SUCCESS, BETA, TOLERANCE = (0.9, 0.5, 0.1), 0.5, 1e-6
BANDIT = k_arm(SUCCESS, reference_logits=(0.0, 0.3, -0.2))
CASES = [("lag", 4, 2, 0.0), ("lag", 2, 3, 0.8), ("pipeline", 2, 2, 0.9), ("refresh", 6, 3, 0.5)]
WAITS, READ, ORDER = 900, 24, 4
"""Periods until the other modes have died out, and those that are read."""


def learner(model, interval, proximal_interval, **options):
    rule = WithProximal(STALENESS.build(model, {}), proximal_interval)
    return Learner(BANDIT, estimator=ESTIMATORS.build("decoupled", options), staleness=rule, horizon=interval)


def predicted(model, interval, proximal_interval, momentum, **options):
    """Threshold from settings alone."""
    reference = np.exp(np.asarray(BANDIT.reference_log_policy[0]))
    signal = theory.BinarySignal(theory.GroupLaw("grpo"), SUCCESS)
    policy = theory.settled_point(signal, reference, BETA, reference).policy
    split, share = theory.proximal_shares(signal, policy, BETA, **options)
    parts = [theory.reduce_matrix(part) for part in (*split, share)]
    loop = theory.ThreePolicies(*parts[:2], momentum, model, proximal=parts[2], proximal_interval=proximal_interval)
    return theory.first_unstable_learning_rate(loop, interval)


@partial(jax.jit, static_argnames="every")
def readings(trained, hyper, theta, every):
    """[READ] one coordinate of a displaced run, a period apart, after WAITS periods."""
    gradient = DYNAMICS["mean_field"](trained)
    start = init(trained, hyper, theta)
    waited = rollout(trained, gradient, hyper, jax.random.key(0), start, WAITS, every).state
    seen = lambda stride: stride.after.theta[0] - stride.after.theta[1]  # noqa: E731
    return rollout(trained, gradient, hyper, jax.random.key(0), waited, READ, every, observe=seen).seen


def growth(trained, rate, momentum, interval, theta):
    """log of the dominant multiplier's modulus, from what a displaced run shows: a linear recurrence of order four."""
    hyper = Hyper(jnp.asarray(rate), jnp.asarray(momentum), jnp.int32(interval), jnp.asarray(BETA))
    start = theta + 3e-8 * np.array([1.0, -0.4, -0.6])
    every = int(trained.staleness.period(interval))
    rest = theta[0] - theta[1]
    x = np.asarray(readings(trained, hyper, jnp.asarray(start), every)) - rest
    columns = np.stack([x[ORDER - 1 - i : READ - 1 - i] for i in range(ORDER)], 1)
    step = np.linalg.lstsq(columns, x[ORDER:], rcond=1e-6)[0]
    return float(np.log(np.abs(np.roots([1, *-step])).max()))


def measured(trained, momentum, interval, near):
    """Learning rate at which the displacement neither grows nor decays: a secant between 1e-4 below and above."""
    theta = find_fixed_point(trained, "mean_field", BETA).theta
    ends = near * np.array([1 - 1e-4, 1 + 1e-4])
    low, high = (growth(trained, rate, momentum, interval, theta) for rate in ends)
    assert low < 0 < high
    return float(ends[0] - low * (ends[1] - ends[0]) / (high - low))


@pytest.mark.parametrize(("model", "interval", "proximal_interval", "momentum"), CASES)
def test_threshold_without_behaviour_weights_is_that_of_displaced_runs(model, interval, proximal_interval, momentum):
    """To 1e-6. Planted: a proximal policy refreshed one update later, or weights, have other thresholds."""
    case = model, interval, proximal_interval
    found = predicted(*case, momentum, weighted=False)
    trained = learner(*case, weighted=False)
    assert measured(trained, momentum, interval, found.value) == pytest.approx(found.value, rel=TOLERANCE)
    older = predicted(model, interval, proximal_interval + 1, momentum, weighted=False)
    for other in (older, predicted(*case, momentum)):
        assert abs(other.value / found.value - 1) > 100 * TOLERANCE


@pytest.mark.parametrize(("model", "interval", "proximal_interval", "momentum"), CASES)
def test_with_behaviour_weights_the_proximal_policy_has_no_share(model, interval, proximal_interval, momentum):
    """The multipliers of the update itself: the same threshold as `ratio`, to 1e-9, for two proximal intervals."""
    ratio = Learner(
        BANDIT, estimator=ESTIMATORS.build("ratio", {}), staleness=STALENESS.build(model, {}), horizon=interval
    )
    expected = floquet_threshold(ratio, "mean_field", momentum, interval, BETA).learning_rate
    for updates in (proximal_interval, 2 * proximal_interval):
        trained = learner(model, interval, updates)
        found = floquet_threshold(trained, "mean_field", momentum, interval, BETA).learning_rate
        assert found == pytest.approx(expected, rel=1e-9)
        assert predicted(model, interval, updates, momentum).value == pytest.approx(expected, rel=1e-9)
