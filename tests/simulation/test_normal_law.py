"""Normal rewards in an infinite group, against `scipy.integrate.quad` with breakpoints and the normal law itself."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm
from settings import thinned

from bandit_lab import theory
from bandit_lab.bandits.gaussian import gaussian
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, Learner
from bandit_lab.grpo.advantage.none import NoBaseline
from bandit_lab.measure import find_fixed_point, measure_stiffness
from bandit_lab.simulation import check_drift, drift_of

MEANS, STDS = np.array([0.7, 0.4, 0.3]), np.array([0.3, 0.2, 0.4])
BANDIT = gaussian(MEANS.tolist(), STDS.tolist())
THETA, BEHAVIOUR = np.array([0.9, -0.1, 0.2]), np.array([-0.3, 0.4, 0.1])  # ratios beyond every clip


def by_hand(name, policy):
    """(advantage of a reward, where it jumps or changes its sign) in an infinite group, from the definitions."""
    mean = policy @ MEANS
    std = np.sqrt(policy @ (STDS**2 + MEANS**2) - mean**2)
    median = brentq(lambda r: policy @ norm.cdf((r - MEANS) / STDS) - 0.5, -5, 5, xtol=1e-15)
    return {
        "sign": (lambda r: np.sign(r - 0.5), 0.5),
        "median": (lambda r: r - median, median),
        "none": (lambda r: r, 0.0),
        "dr_grpo": (lambda r: r - mean, mean),
        "rloo": (lambda r: r - mean, mean),
        "grpo": (lambda r: (r - mean) / std, mean),
        "dapo": (lambda r: (r - mean) / std, mean),
        "tempered": (lambda r: (r - mean) / std**0.5, mean),
    }[name]


def weight(name, ratio, advantage):
    """Factor of an action, from the papers' formulas with the default clips."""
    low, high = {"clipped": (0.8, 1.2), "clip_higher": (0.8, 1.28)}.get(name, (0, np.inf))
    outside = (advantage > 0 and ratio > high) or (advantage < 0 and ratio < low)
    return 0.0 if outside else 1.0 if name in ("frozen", "uncorrected") else ratio


def integral(function, arm, cut):
    """Mean of a function of the reward of an arm."""
    density = lambda r: function(r) * norm.pdf(r, MEANS[arm], STDS[arm])  # noqa: E731
    far = MEANS[arm] - 9 * STDS[arm], MEANS[arm] + 9 * STDS[arm]
    return quad(density, *far, points=[cut], epsabs=1e-12, epsrel=1e-11, limit=200)[0]


NAMES = [name for name in ADVANTAGES if name != "batch_std"]


@pytest.mark.parametrize(("advantage", "estimator"), thinned(NAMES, ["frozen", "ratio", "clipped", "clip_higher"]))
def test_the_mean_field_is_the_integral(advantage, estimator):
    """Allowed 1e-9. A step that sixteen nodes integrate is off by more than 1e-2."""
    old, policy = softmax(BEHAVIOUR), softmax(THETA)
    rule, cut = by_hand(advantage, old)
    ratio = policy / old
    mean = np.array([
        integral(lambda r, k=k: rule(r) * weight(estimator, ratio[k], rule(r)), k, cut) for k in range(3)
    ])  # fmt: skip
    signal, at = old * mean, old if estimator == "frozen" else policy
    learner = Learner(BANDIT, ADVANTAGES[advantage](), ESTIMATORS[estimator]())
    update = drift_of(learner, "mean_field")(jnp.asarray(THETA), jnp.asarray(BEHAVIOUR), jnp.zeros(()))
    np.testing.assert_allclose(update, signal - at * signal.sum(), atol=1e-9)


@pytest.mark.slow
def test_derivatives_of_a_median_are_those_of_the_integral():
    """First by central differences of the drift, 1e-7; second (the median is solved for) by those of the first."""
    drift = drift_of(Learner(BANDIT, ADVANTAGES["median"]()), "mean_field")
    one = jax.jit(lambda x: drift(x, x, 0.5))
    slope, curve, at, step = jax.jit(jax.jacfwd(one)), jax.jacfwd(jax.jacfwd(one)), jnp.asarray(THETA), 1e-5
    for function, derivative in ((one, slope(at)), (slope, curve(at))):
        seen = np.stack([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in np.eye(3)], -1)
        np.testing.assert_allclose(derivative, seen, atol=1e-7)


def test_threshold_and_policy_of_sign_by_the_normal_distribution_function():
    """Mean advantage of an arm: 1 - 2 Phi((threshold - mean)/std), a bandit with these fixed rewards, mean-only."""
    point = find_fixed_point(Learner(BANDIT, ADVANTAGES["sign"]()), "mean_field", 0.5)
    expected = softmax((1 - 2 * norm.cdf((0.5 - MEANS) / STDS)) / 0.5)
    np.testing.assert_allclose(point.policy[0], expected, atol=1e-9)
    stiffness = measure_stiffness(Learner(BANDIT, ADVANTAGES["sign"]()), "mean_field", 0.5, point).relaxation[0]
    fisher = 0.5 * np.linalg.eigvalsh(np.diag(expected) - np.outer(expected, expected))[-1]
    assert stiffness == pytest.approx(fisher, rel=1e-6)
    assert theory.exact("refresh", 8, 0.0).kappa / stiffness == pytest.approx(1.747, abs=5e-4)
    narrow = Learner(gaussian((0.7, 0.4), (1.0, 1.0)), ADVANTAGES["sign"](threshold=0.6))
    np.testing.assert_allclose(find_fixed_point(narrow, "mean_field", 0.3).policy[0], [0.689, 0.311], atol=5e-4)


@dataclass(frozen=True)
class Step(NoBaseline):
    """A user's own step."""

    def advantages(self, values, shares, size):
        return jnp.where(values > 0.6, 1.0, -0.5)


def test_a_step_that_nobody_declared_is_refused_in_one_line():
    with pytest.raises(
        ValueError, match=r"^advantage: expected one that 16 nodes integrate .* got 'Step, whose mean"
    ) as e:
        check_drift(Learner(BANDIT, Step()), "mean_field")
    assert "\n" not in str(e.value)
    with pytest.raises(ValueError, match="got 'Step"):
        find_fixed_point(Learner(BANDIT, Step()), "mean_field", 0.5)
