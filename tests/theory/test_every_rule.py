"""The closed forms of every advantage with its options, against sums over every batch by hand."""

import by_hand
import numpy as np
import pytest
from by_hand_settings import VARIED

from bandit_lab.theory import BinarySignal, GroupLaw, MomentSignal, stiffness_split
from bandit_lab.theory.fixed_points import attracting_fixed_point, mean_drift
from bandit_lab.theory.gradient_noise import binary_covariance, leading_covariance, reward_atoms
from bandit_lab.theory.group_law import ADVANTAGES
from bandit_lab.theory.stiffness import MOMENT_ADVANTAGES, fisher
from experiments.shared.theory.contextual import contextual_curve, evenly_trained

SUCCESS, THETA = np.array([0.8, 0.35, 0.6]), np.array([0.7, -0.2, 0.1])
LOG_REFERENCE = by_hand.log_softmax(np.array([[0.0, 0.4, -0.3]]))
BINARY = np.stack([1 - SUCCESS, SUCCESS], axis=-1)[None]
KNOWN = ("eps", "ddof", "power")
"""Options of a `GroupLaw`; a threshold between 0 and 1 is that of `sign` without one."""


def options(rule):
    return {key: value for key, value in VARIED["advantage"].get(rule, {}).items() if key in KNOWN}


EVERY = [(rule, {}) for rule in ADVANTAGES]
EVERY += [(rule, {key: value}) for rule in ADVANTAGES for key, value in options(rule).items()]


def by_hand_setting(rule, chosen, size=3, values=(0.0, 1.0), chances=BINARY, **rules):
    rules = {"advantage": rule, "options": {"advantage": chosen}, "group_size": size or 2, **rules}
    return by_hand.Setting(by_hand.softmax_of_arms(3), np.array(values), chances, LOG_REFERENCE, **rules)


def policy_at(theta):
    return np.exp(by_hand.log_softmax(theta))


def test_every_option_of_a_group_law_is_varied():
    taken = set(GroupLaw.__dataclass_fields__) - {"advantage", "group_size"}
    assert taken == set(KNOWN)
    assert taken == {key for _, chosen in EVERY for key in chosen}


@pytest.mark.parametrize("size", [2, 3, None])
@pytest.mark.parametrize(("rule", "chosen"), EVERY)
def test_factor_slope_and_mean_advantage_are_those_of_every_group(rule, chosen, size):
    """Three Bernoulli arms. The mean update is factor F r; its change with the policy is the slope's, by central
    differences; the mean advantage is what `uncorrected` adds off policy. Planted: the option at its default."""
    law, hand, infinite = GroupLaw(rule, size, **chosen), by_hand_setting(rule, chosen, size), size is None
    policy = policy_at(THETA)
    signal = BinarySignal(law, tuple(SUCCESS))
    np.testing.assert_allclose(
        signal.factor(policy) * (fisher(policy) @ SUCCESS),
        by_hand.mean_update(hand, THETA, THETA, 0.0, infinite),
        atol=1e-13,
    )
    ahead, behind = (signal.factor(policy_at(THETA + h * np.eye(3)[0])) for h in (1e-5, -1e-5))
    if not (rule == "median" and infinite):  # a step function of the policy
        assert signal.gradient(policy)[0] == pytest.approx((ahead - behind) / 2e-5, abs=1e-8)
    other = THETA + np.array([0.3, -0.4, 0.2])
    off_policy = by_hand_setting(rule, chosen, size, estimator="uncorrected")
    pull = by_hand.mean_update(off_policy, other, THETA, 0.0, infinite)
    if rule != "dapo" or infinite:
        frozen = signal.factor(policy) * (fisher(policy) @ SUCCESS)
        expected = frozen + signal.mean_advantage(policy) * (policy - policy_at(other))
        np.testing.assert_allclose(pull, expected, atol=1e-13)
    if chosen and not (infinite and "ddof" in chosen):
        default = by_hand.mean_update(by_hand_setting(rule, {}, size), THETA, THETA, 0.0, infinite)
        assert np.max(np.abs(default - signal.factor(policy) * (fisher(policy) @ SUCCESS))) > 1e-3


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("rule", "chosen"), EVERY)
def test_covariance_of_a_group_is_that_of_every_group(rule, chosen, size):
    """Without a KL term, and with the k3 loss, whose slope per action is 1 - reference/policy."""
    policy, hand = policy_at(THETA), by_hand_setting(rule, chosen, size, kl_estimator="k3")
    for weight in (0.0, 0.8):
        penalty = weight * (1 - np.exp(LOG_REFERENCE[0]) / policy)
        covariance = binary_covariance(GroupLaw(rule, size, **chosen), SUCCESS, policy, penalty)
        np.testing.assert_allclose(covariance, by_hand.moments(hand, THETA, THETA, weight)[1], atol=1e-13)


VALUES, GRADED = (-0.4, 0.5, 1.3), np.eye(3)[None][:, [2, 0, 1]] * 0.7 + 0.1


@pytest.mark.parametrize("rule", MOMENT_ADVANTAGES)
def test_the_signal_of_graded_rewards_is_that_of_infinite_groups(rule):
    """Three values with noise: factor, slope and mean advantage, with options; to 1e-12, the slope to 1e-8."""
    chosen = {key: value for key, value in options(rule).items() if key != "ddof"}
    hand = by_hand_setting(rule, chosen, None, VALUES, GRADED)
    means = GRADED[0] @ np.array(VALUES)
    variances = GRADED[0] @ np.array(VALUES) ** 2 - means**2
    signal, policy = MomentSignal(tuple(means), tuple(variances), rule, **chosen), policy_at(THETA)
    np.testing.assert_allclose(
        signal.factor(policy) * (fisher(policy) @ means), by_hand.mean_update(hand, THETA, THETA, 0.0, True), atol=1e-12
    )
    ahead, behind = (signal.factor(policy_at(THETA + h * np.eye(3)[0])) for h in (1e-5, -1e-5))
    assert signal.gradient(policy)[0] == pytest.approx((ahead - behind) / 2e-5, abs=1e-8)
    assert signal.mean_advantage(policy) == pytest.approx(policy @ means if rule == "none" else 0.0)


@pytest.mark.parametrize("rule", ["grpo", "dapo", "dr_grpo", "rloo", "none", "tempered"])
def test_the_leading_noise_is_that_of_the_influence_of_one_action(rule):
    """G Cov -> Cov[psi], psi = d(mean update of an infinite group) along a change of its law: by finite differences
    of the estimate in the shares of (arm, value) pairs, with options; to 1e-6."""
    chosen = {key: value for key, value in options(rule).items() if key != "ddof"}
    policy = policy_at(THETA)
    share = (policy[:, None] * GRADED[0]).ravel()
    arms, rewards = np.repeat(np.arange(3), 3), np.tile(VALUES, 3)
    score = np.eye(3)[arms] - policy

    def estimate(share):
        advantage = by_hand.ADVANTAGES[rule](rewards[None], share[None], None, **chosen)[0]
        return (share * advantage) @ score

    h = 1e-6
    psi = np.array([
        (estimate(share + h * (one - share)) - estimate(share - h * (one - share))) / (2 * h) for one in np.eye(9)
    ])  # fmt: skip
    expected = psi.T @ (share[:, None] * psi)
    outcomes = [list(zip(VALUES, row, strict=True)) for row in GRADED[0].tolist()]
    covariance = leading_covariance(rule, reward_atoms(policy, outcomes), **chosen)
    np.testing.assert_allclose(covariance, expected, atol=1e-6)


@pytest.mark.parametrize("kl_estimator", ["exact", "k3"])
@pytest.mark.parametrize("estimator", ["frozen", "uncorrected", "ratio", "clipped"])
@pytest.mark.parametrize(("rule", "size"), [("grpo", 2), ("grpo", None), ("rloo", 2), ("none", 2), ("tempered", None)])
def test_the_split_of_the_stiffness_is_that_of_the_mean_update(rule, size, estimator, kl_estimator):
    """At the fixed point, with options, in every direction that changes the policy: central differences, 1e-7."""
    chosen, infinite, kl_weight = options(rule), size is None, 0.8
    signal = BinarySignal(GroupLaw(rule, size, **chosen), tuple(SUCCESS))
    reference = np.exp(LOG_REFERENCE[0])
    point = attracting_fixed_point(signal, reference, kl_weight, kl_estimator=kl_estimator)
    hand, theta = (
        by_hand_setting(rule, chosen, size, estimator=estimator, kl_estimator=kl_estimator),
        np.log(point.policy),
    )
    np.testing.assert_allclose(by_hand.mean_update(hand, theta, theta, kl_weight, infinite), 0, atol=1e-10)
    if kl_estimator == "exact":
        moved = by_hand.mean_update(hand, THETA, THETA, kl_weight, infinite)
        np.testing.assert_allclose(mean_drift(signal, reference, kl_weight, THETA), moved, atol=1e-12)
    split, h = stiffness_split(signal, point.policy, kl_weight, estimator, kl_estimator), 1e-5
    for part, fresh in ((split.fresh, True), (split.stale, False)):
        columns = []
        for one in np.eye(3) * h:
            ahead, behind = (
                by_hand.mean_update(hand, theta + s * one * fresh, theta + s * one * (not fresh), kl_weight, infinite)
                for s in (1, -1)
            )
            columns.append((behind - ahead) / (2 * h))
        np.testing.assert_allclose(part, np.stack(columns, axis=1), atol=1e-7)


@pytest.mark.parametrize("rule", ["grpo", "dr_grpo", "rloo", "tempered"])
def test_curves_of_many_prompts_are_the_limit_of_small_steps_by_hand(rule):
    """Two prompts with options of the law, G = 2 and infinite: Richardson's extrapolation of two step sizes, 1e-4."""
    features = np.random.default_rng(3).normal(size=(2, 2, 3))
    base, success = by_hand.log_softmax(np.array([[0.3, -0.2], [-0.5, 0.4]])), np.array([[0.85, 0.3], [0.4, 0.95]])
    for size in (2, None):
        law = GroupLaw(rule, size, **options(rule))
        curve = contextual_curve(np.array([0.0, 1.0]), evenly_trained(base, features, success), law)[-1].mean()
        ends = []
        for steps in (20, 40):
            hand = by_hand.Setting(
                by_hand.log_linear(features, base), np.array([0.0, 1.0]), np.stack([1 - success, success], -1), base,
                advantage=rule, options={"advantage": options(rule)}, group_size=2,
            )  # fmt: skip
            path = by_hand.mean_run(hand, np.zeros(3), steps, 1 / steps, 0.0, 1, 0.0, size is None)
            ends.append(by_hand.expected_reward(hand, path[-1:])[0])
        assert curve == pytest.approx(2 * ends[1] - ends[0], abs=2e-4)
