"""Critical KL weights of many answers under a hot sampler: against two arms, and against the update's drift."""

import numpy as np
import pytest
from settings import cells

from bandit_lab import theory
from bandit_lab.bandits import k_arm
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import ADVANTAGES, Learner, Temperature
from bandit_lab.measure.fixed_point import critical_kl_weight, find_fixed_point
from bandit_lab.simulation import run

THREE, UNEVEN = (1.0, 0.816, 0.0), np.array([0.5, 0.2, 0.3])
TOKENS = (1.0, 0.2, 0.3, 0.0)


def even(arms):
    return np.full(arms, 1 / arms)


def learner(bandit, tau, **rules):
    return Learner(bandit, advantage=ADVANTAGES["dr_grpo"](), sampler=Temperature(tau), **rules)


@pytest.mark.parametrize("tau", [1.05, 1.25, 2.0])
def test_two_arms_and_one_good_arm_are_special_cases(tau):
    """Closed on a line, there; to 1e-8."""
    signal = theory.BinarySignal(theory.GroupLaw("dr_grpo"), (1.0, 0.0))
    pair = theory.SampledTwoArms(signal, theory.ActingLaw(tau)).critical_kl_weight()
    assert theory.critical_collapse((1, 0), even(2), tau).kl_weight == pytest.approx(pair, rel=1e-8)
    many = theory.one_good_arm(theory.GroupLaw("dr_grpo"), 9, theory.ActingLaw(tau)).critical_kl_weight()
    assert theory.critical_collapse((1, *[0] * 9), even(10), tau).kl_weight == pytest.approx(many, rel=1e-8)


CASES = {
    "three arms": (k_arm(THREE, kind="fixed"), 2.0, (THREE, even(3), 2.0)),
    "another reference": (
        k_arm(THREE, kind="fixed", reference_logits=tuple(np.log(UNEVEN))), 1.5, (THREE, UNEVEN, 1.5)),
    "two tokens": (sequence(2, 2, TOKENS), 1.5, (TOKENS, even(4), 1.5, theory.sequence_choices(2, 2), 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_critical_weight_is_where_the_mean_update_leaves_the_interior(name):
    """By bracketing the flow of the simulated drift, to 2e-4 (it brackets to 1e-4). Planted: 1 % more temperature."""
    bandit, tau, arguments = CASES[name]
    predicted = theory.critical_collapse(*arguments).kl_weight
    assert critical_kl_weight(learner(bandit, tau), "mean_field", 0.8 * predicted) == pytest.approx(predicted, rel=2e-4)
    other = theory.critical_collapse(*arguments[:2], 1.01 * tau, *arguments[3:]).kl_weight
    assert abs(other / predicted - 1) > 2e-3


def test_the_worst_arm_is_lost_and_the_others_go_on_sharing():
    """Between the weights of `extinctions` the update, run for 3,000 steps, rests where two arms would, to 1e-6.

    Below the last it goes to the vertex, above the first it stays inside: both planted, they are other ends.
    """
    (first, lost), (last, second) = theory.extinctions(THREE, even(3), 2.0)
    assert (lost, second) == (2, 1)
    assert first > 3 * last
    trained, grid = learner(k_arm(THREE, kind="fixed"), 2.0), np.array([1.1 * first, 0.6, 0.9 * last])
    setting = cells(1.0, [0.0] * 3, [1] * 3)._replace(kl_weight=grid)
    ends = run(trained, "mean_field", setting, steps=30_000, dtype=np.float64, policies=True).policies
    above, between, below = np.asarray(ends).reshape(3, 3)
    assert above.min() > 0.05
    assert between[2] < 1e-6
    pair = find_fixed_point(learner(k_arm(THREE[:2], kind="fixed"), 2.0), "mean_field", 0.6)
    np.testing.assert_allclose(between[:2], np.ravel(pair.policy), atol=1e-6)
    assert below[0] > 0.999


def test_no_fixed_point_is_below_the_bound_of_an_arm_and_the_fold_is_near_it():
    """Twelve random bandits, seed 3: at the fold the bound is at most the weight, and more than 0.9 of it."""
    draw = np.random.default_rng(3)
    for _ in range(12):
        arms, tau = int(draw.integers(2, 6)), draw.uniform(1.1, 2.5)
        means, reference = draw.uniform(size=arms), draw.dirichlet(np.full(arms, 5.0))
        fold = theory.critical_collapse(means, reference, tau)
        cold, drawn = 1 - 1 / tau, fold.policy ** (1 / tau)
        lifted = reference * np.exp(fold.policy @ np.log(fold.policy / reference))
        bound = np.e * cold * (drawn @ means / drawn.sum() - means) * lifted**-cold / drawn.sum()
        assert 0.9 < bound.max() / fold.kl_weight <= 1 + 1e-9
        assert int(np.argmax(bound)) == fold.lost
        uniform = theory.critical_collapse(means, even(arms), tau)
        assert uniform.kl_weight < theory.collapse_asymptote(means, even(arms), tau)


def test_limit_of_temperatures_near_one():
    """At tau = 1.05 within 1 % of e (1 - 1/tau) times what the rewards and the reference say, whatever the length."""
    for means, reference, more in (
        ((1.0, 0.4, 0.0), UNEVEN, ()),
        ((1.0, 0.0, 0.0, 0.0), even(4), (theory.sequence_choices(2, 2), 2)),
        ((1.0, *[0.0] * 7), even(8), (theory.sequence_choices(2, 3), 2)),
    ):
        limit = theory.collapse_asymptote(means, reference, 1.05)
        assert theory.critical_collapse(means, reference, 1.05, *more).kl_weight == pytest.approx(limit, rel=0.01)
