"""Group factors of reference, fixed points, and stiffness by differences of the drift written out again here."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from bandit_lab.theory.fixed_points import (
    attracting_fixed_point,
    critical_kl_weight,
    fixed_points,
    mean_drift,
)
from bandit_lab.theory.group_law import ADVANTAGES, GroupLaw, silent_rate
from bandit_lab.theory.stiffness import (
    ESTIMATORS,
    BinarySignal,
    MomentSignal,
    fisher,
    largest_stiffness,
    reward_hessian,
    stiffness_split,
)

UNIFORM = np.array([0.5, 0.5])
FIVE, FIVE_REFERENCE = (0.9, 0.7, 0.45, 0.2, 0.05), np.array([0.1, 0.15, 0.3, 0.25, 0.2])


@pytest.mark.parametrize("rule", ADVANTAGES)
def test_mean_advantage_is_a_sum_over_successes_and_in_an_infinite_group_its_limit(rule):
    """A member succeeds with chance p whatever k is of the others; from 2,001 members to infinity 2 % are left."""
    for p in (0.2, 0.7):
        for size in (2, 5, 2001):
            law = GroupLaw(rule, size)
            up, down = law.table()
            assert up.shape == down.shape == (size + 1,)
            others = stats.binom.pmf(np.arange(size), size - 1, p)
            expected = others @ (p * up[1:] + (1 - p) * down[:-1])
            assert law.mean_advantage(p) == pytest.approx(expected, abs=1e-12)
        assert GroupLaw(rule, None).mean_advantage(p) == pytest.approx(expected, abs=0.02)


def test_groups_that_are_used_are_binomial_and_not_silent_under_dapo():
    """Of several chances at once: rows of the pmf, for `dapo` without its ends and over what is left of it."""
    success = np.array([0.2, 0.5, 0.9])
    whole = stats.binom.pmf(np.arange(7), 6, success[:, None])
    np.testing.assert_allclose(GroupLaw("grpo", 6).success_weights(success), whole, rtol=1e-12)
    used = whole[:, 1:-1] / whole[:, 1:-1].sum(axis=1, keepdims=True)
    weights = GroupLaw("dapo", 6).success_weights(success)
    np.testing.assert_allclose(weights, np.pad(used, ((0, 0), (1, 1))), rtol=1e-12)


def test_published_group_factors():
    table = {4: (0.808, 0.663, 0.373, 0.172), 16: (0.967, 0.938, 0.712, 0.371), 64: (0.992, 0.987, 0.945, 0.670)}
    for size, values in table.items():
        np.testing.assert_allclose(GroupLaw("grpo", size).group_factor([0.5, 0.8, 0.95, 0.99]), values, atol=6e-4)
    for size in (200, 400, 800):
        expansion = 1 - 1 / (8 * size * 0.2 * 0.8)
        assert abs(GroupLaw("grpo", size).group_factor(0.2) - expansion) < 2.0 / size**2
    ratio = GroupLaw("grpo", 8, ddof=1).factor(0.3) / GroupLaw("grpo", 8).factor(0.3)
    assert ratio == pytest.approx(math.sqrt(7 / 8), rel=1e-13)
    dropped = GroupLaw("dapo", 8).factor(0.1) / GroupLaw("grpo", 8).factor(0.1)
    assert dropped == pytest.approx(1 / (1 - silent_rate(8, 0.1)), rel=1e-12)
    assert GroupLaw("dr_grpo", 8).factor(0.1) == pytest.approx(7 / 8)
    assert GroupLaw("rloo", 8).factor(0.1) == pytest.approx(1.0)


def test_large_groups_do_not_lose_digits():
    assert GroupLaw("grpo", 100_000).group_factor(0.3) == pytest.approx(1 - 1 / (8e5 * 0.21), abs=1e-9)
    tiny = GroupLaw("grpo", 16).factor(1 - 1e-17, 1e-17)
    assert tiny == pytest.approx(math.sqrt(15), rel=1e-9)


def test_default_setting():
    point = fixed_points(BinarySignal(GroupLaw("grpo"), (0.9, 0.1)), UNIFORM, 1.0)
    assert len(point) == 1
    assert point[0].attracts
    assert math.log(point[0].policy[0] / point[0].policy[1]) == pytest.approx(2.0264, abs=5e-5)
    split = stiffness_split(BinarySignal(GroupLaw("grpo"), (0.9, 0.1)), point[0].policy, 1.0)
    assert largest_stiffness(split) == pytest.approx(0.1382, abs=5e-5)


def test_two_deterministic_arms_mean_only():
    for beta in (0.5, 1.0, 3.0):
        signal = BinarySignal(GroupLaw("dr_grpo"), (1.0, 0.0))
        (point,) = fixed_points(signal, UNIFORM, beta)
        p = 1 / (1 + math.exp(-1 / beta))
        assert point.policy[0] == pytest.approx(p, rel=1e-13)
        assert largest_stiffness(stiffness_split(signal, point.policy, beta)) == pytest.approx(2 * beta * p * (1 - p))


def test_critical_kl_weight_is_a_saddle_node():
    signal = BinarySignal(GroupLaw("grpo"), (1.0, 0.0))
    critical = critical_kl_weight(signal, UNIFORM)
    assert critical == pytest.approx(1.5089, abs=5e-5)
    assert fixed_points(signal, UNIFORM, 0.9999 * critical) == []
    below, above = fixed_points(signal, UNIFORM, 1.001 * critical)
    assert below.attracts
    assert not above.attracts
    assert below.tilt < 2.3994 < above.tilt
    assert critical_kl_weight(BinarySignal(GroupLaw("grpo"), (0.9, 0.1)), UNIFORM) is None
    assert critical_kl_weight(BinarySignal(GroupLaw("grpo", 8), (1.0, 0.0)), UNIFORM) is None
    assert critical_kl_weight(BinarySignal(GroupLaw("dapo", 8), (1.0, 0.0)), UNIFORM) > 0.5


@pytest.mark.parametrize("power", [0.1, 0.5, 2.0])
def test_saddle_node_of_a_power_of_the_std(power):
    """Two certain arms: the least of (2 cosh(x/2))^power / x over the gap x, by a dense grid; below it nothing."""
    signal = BinarySignal(GroupLaw("tempered", power=power), (1.0, 0.0))
    gap = np.geomspace(0.1, 60, 200_001)
    least = np.exp(np.min(power * np.logaddexp(gap / 2, -gap / 2) - np.log(gap)))
    assert critical_kl_weight(signal, UNIFORM) == pytest.approx(least, rel=1e-7)
    assert fixed_points(signal, UNIFORM, 0.999 * least) == []
    assert fixed_points(signal, UNIFORM, 1.01 * least)[0].attracts


def test_forward_kl_gradient_has_no_saddle_node():
    """With the k3 gradient sqrt(pq) = beta (p - 1/2) has one solution at every beta: two deterministic arms."""
    signal = BinarySignal(GroupLaw("grpo"), (1.0, 0.0))
    assert critical_kl_weight(signal, UNIFORM, "k3") is None
    for beta in (0.05, 0.5, 1.0, 2.0):
        (point,) = fixed_points(signal, UNIFORM, beta, "k3")
        p = point.policy[0]
        assert math.sqrt(p * (1 - p)) == pytest.approx(beta * (p - 0.5), rel=1e-9)
        assert point.attracts


def test_which_fixed_point_attracts():
    signal = BinarySignal(GroupLaw("grpo"), (1.0, 0.0))
    below, above = fixed_points(signal, UNIFORM, 1.6)
    inside = np.array([above.policy[0] - 0.01, above.policy[1] + 0.01])
    outside = np.array([above.policy[0] + 0.01, above.policy[1] - 0.01])
    assert attracting_fixed_point(signal, UNIFORM, 1.6).tilt == below.tilt
    assert attracting_fixed_point(signal, UNIFORM, 1.6, inside).tilt == below.tilt
    assert attracting_fixed_point(signal, UNIFORM, 1.6, outside) is None
    assert attracting_fixed_point(signal, UNIFORM, 1.4) is None
    assert fixed_points(signal, UNIFORM, 0.0) == []


def drift(signal, reference, beta, new, old, estimator, kl):
    """Mean drift near theta_old: all but two estimators weigh by a ratio, which no clip reaches there."""
    if estimator == "frozen":
        new = old
    policy, rollout = softmax(new), softmax(old)
    weights = rollout * (1 - reference / policy)
    pull = fisher(policy) @ (new - np.log(reference)) if kl == "exact" else weights - weights.sum() * policy
    factor = signal.factor(rollout)
    if estimator not in ("frozen", "uncorrected"):
        return factor * fisher(policy) @ signal.means - beta * pull
    reward = factor * fisher(rollout) @ signal.means + signal.mean_advantage(rollout) * (rollout - policy)
    return reward - beta * pull


SIGNALS = [
    BinarySignal(GroupLaw("grpo"), FIVE),
    BinarySignal(GroupLaw("dapo", 6), FIVE),
    BinarySignal(GroupLaw("median", 5), FIVE),
    BinarySignal(GroupLaw("sign"), FIVE),
    MomentSignal((1.3, 0.2, -0.4, 0.9, 0.1)),
    MomentSignal((1.3, 0.2, -0.4, 0.9, 0.1), advantage="none"),
    MomentSignal((1.3, 0.2, -0.4, 0.9, 0.1), (0.1, 0.5, 0.0, 0.2, 0.3), "tempered", power=0.7),
    MomentSignal((1.3, 0.2, -0.4, 0.9, 0.1), (0.1, 0.5, 0.0, 0.2, 0.3), eps=0.05),
]


@pytest.mark.parametrize("kl", ["exact", "k3"])
@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: f"{type(s).__name__}-{getattr(s, 'law', s.label)}")
def test_split_is_the_jacobian_of_the_drift(signal, kl):
    beta = 1.2
    if kl == "k3" and signal.reweights_actions:
        with pytest.raises(ValueError, match="kl_estimator"):
            fixed_points(signal, FIVE_REFERENCE, beta, kl)
        return
    points = fixed_points(signal, FIVE_REFERENCE, beta, kl)
    assert points
    for point in points:
        theta, step = np.log(point.policy), 1e-6
        for estimator in ESTIMATORS:
            assert np.abs(drift(signal, FIVE_REFERENCE, beta, theta, theta, estimator, kl)).max() < 1e-10
            split = stiffness_split(signal, point.policy, beta, estimator, kl)
            for part, moves in ((split.fresh, (1, 0)), (split.stale, (0, 1))):
                columns = [
                    (drift(signal, FIVE_REFERENCE, beta, theta + moves[0] * h, theta + moves[1] * h, estimator, kl)
                     - drift(signal, FIVE_REFERENCE, beta, theta - moves[0] * h, theta - moves[1] * h, estimator, kl))
                    / (2 * step)
                    for h in step * np.eye(5)
                ]  # fmt: skip
                np.testing.assert_allclose(part, -np.array(columns).T, atol=3e-8)
        assert np.abs(mean_drift(signal, FIVE_REFERENCE, beta, theta, kl)).max() < 1e-10


def test_k_arm_stiffness_is_symmetric_for_binary_and_not_for_other_rewards():
    policy = np.array([0.2, 0.3, 0.1, 0.3, 0.1])
    binary = stiffness_split(SIGNALS[0], policy, 1.0).total
    other = stiffness_split(MomentSignal((1.3, 0.2, -0.4, 0.9, 0.1)), policy, 1.0).total
    np.testing.assert_allclose(binary, binary.T, atol=1e-14)
    assert np.abs(other - other.T).max() > 1e-3


def test_reward_hessian_against_differences():
    theta, rewards, step = np.array([0.3, -0.2, 0.9]), np.array([0.9, 0.2, -0.5]), 1e-5
    gradient = lambda t: fisher(softmax(t)) @ rewards  # noqa: E731
    numeric = [(gradient(theta + h) - gradient(theta - h)) / (2 * step) for h in step * np.eye(3)]
    np.testing.assert_allclose(reward_hessian(softmax(theta), rewards), numeric, atol=1e-9)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: GroupLaw("ppo"), "advantage"),
        (lambda: BinarySignal(GroupLaw(), (1.2, 0.1)), "rewards"),
        (lambda: fixed_points(SIGNALS[0], UNIFORM, 1.0), "reference"),
    ],
)
def test_bad_problems_are_named(build, name):
    with pytest.raises(ValueError, match=name):
        build()
