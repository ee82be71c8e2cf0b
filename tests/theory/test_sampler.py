"""Two arms whose answers another law draws: the closed forms against the drift, against runs, against known numbers."""

from dataclasses import replace

import numpy as np
import pytest
from settings import cells

from bandit_lab import theory
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import (
    ADVANTAGES,
    CORRECTIONS,
    Learner,
    LogitNoise,
    Masked,
    NoCorrection,
    OwnLaw,
    Temperature,
    TopK,
    TopP,
    Truncated,
)
from bandit_lab.measure import find_fixed_point
from bandit_lab.measure.fixed_point import critical_kl_weight
from bandit_lab.measure.stiffness import fresh_and_stale
from bandit_lab.simulation import run

IMPORTANCE = CORRECTIONS.build("importance", {})


def arms(advantage="dr_grpo", size=None, success=(1.0, 0.0), reference=0.0, **acting):
    law = theory.GroupLaw(advantage, size)
    return theory.SampledTwoArms(theory.BinarySignal(law, success), theory.ActingLaw(**acting), reference)


def learner(advantage="dr_grpo", size=None, success=(1.0, 0.0), reference=0.0, **rules):
    bandit = two_arm(success, reference_logits=(reference, 0.0))
    return Learner(bandit, advantage=ADVANTAGES[advantage](), group_size=size or 64, **rules)


def gap_of(policy):
    return float(np.log(policy[0] / policy[1]))


NOISY = {"success": (0.9, 0.2), "reference": 0.3}
CASES = {
    "hot, std": (
        {"advantage": "grpo", **NOISY}, {"tau": 1.3}, {"sampler": Temperature(1.3)}, 1.6),
    "cold, this G": (
        {"advantage": "grpo", "size": 8, **NOISY}, {"tau": 0.7}, {"sampler": Temperature(0.7)}, 0.7),
    "noise": (
        {"advantage": "dr_grpo", **NOISY}, {"xi": 0.8}, {"sampler": LogitNoise((0.5, -0.3))}, 0.4),
    "second arm better": (
        {"advantage": "rloo", "size": 5, "success": (0.1, 0.7)}, {"tau": 1.2}, {"sampler": Temperature(1.2)}, 0.5),
    "importance": (
        {"advantage": "grpo", **NOISY}, {"tau": 0.7, "correction": "importance"},
        {"sampler": Temperature(0.7), "correction": IMPORTANCE}, 1.2),
    "truncated": (
        {"advantage": "grpo", "size": 6, **NOISY}, {"tau": 0.6, "correction": "tis", "high": 1.1},
        {"sampler": Temperature(0.6), "correction": Truncated(1.1)}, 0.8),
    "masked": (
        {"advantage": "grpo", **NOISY}, {"tau": 0.7, "correction": "icepop", "low": 0.8, "high": 3.0},
        {"sampler": Temperature(0.7), "correction": Masked(0.8, 3.0)}, 1.4),
}  # fmt: skip


def dynamics_of(problem):
    return "mean_field" if problem.get("size") is None else "finite_group"


@pytest.mark.parametrize("name", CASES)
def test_fixed_point_and_stiffness_are_those_of_the_drift(name):
    """To 1e-8. Planted: without the sampler, or without the correction, the fixed point is another."""
    problem, acting, rules, kl_weight = CASES[name]
    two, trained = arms(**problem, **acting), learner(**problem, **rules)
    point = find_fixed_point(trained, dynamics_of(problem), kl_weight)
    gap = two.rest(kl_weight)
    assert gap == pytest.approx(gap_of(point.policy[0]), abs=1e-8)
    fresh, stale = fresh_and_stale(trained, dynamics_of(problem), kl_weight, point)
    np.testing.assert_allclose(two.stiffness(gap, kl_weight), (fresh + stale)[0, 0], rtol=1e-7)
    for planted in ({"sampler": OwnLaw()}, {"correction": NoCorrection()}):
        other = replace(trained, **planted)
        if other != trained:
            assert abs(gap_of(find_fixed_point(other, dynamics_of(problem), kl_weight).policy[0]) - gap) > 1e-2


@pytest.mark.parametrize(
    ("advantage", "tau", "correction", "expected"),
    [
        ("dr_grpo", 1.1, "none", 0.2471), ("dr_grpo", 1.25, "none", 0.5294), ("dr_grpo", 2.0, "none", 0.9351),
        ("grpo", 0.7, "none", 0.8101), ("grpo", 1.0, "none", 1.5089), ("grpo", 1.3, "none", 1.8162),
        ("grpo", 0.7, "importance", 2.1555), ("grpo", 1.3, "importance", 1.1607),
    ],
)  # fmt: skip
def test_critical_weights_of_two_fixed_arms(advantage, tau, correction, expected):
    """Against the reference numbers, and bracketed by fixed points of the drift a thousandth beside it."""
    critical = arms(advantage, tau=tau, correction=correction).critical_kl_weight()
    assert critical == pytest.approx(expected, abs=1e-4)
    trained = learner(advantage, sampler=Temperature(tau), correction=CORRECTIONS.build(correction, {}))
    assert [find_fixed_point(trained, "mean_field", critical * factor).exists for factor in (0.999, 1.001)] == [
        False,
        True,
    ]


def test_a_hot_sampler_gives_mean_only_training_a_critical_weight():
    """None without it; near tau = 1 that of the asymptote; importance weights take it away again."""
    for tau in (0.7, 1.0):
        assert arms(tau=tau).critical_kl_weight() is None
    assert arms(tau=1.25, correction="importance").critical_kl_weight() is None
    assert arms(tau=1.1).critical_kl_weight() == pytest.approx(np.e * (1 - 1 / 1.1), rel=1e-3)
    assert arms(tau=1.25).rest(0.52) is None
    assert arms(tau=1.25).rest(0.54) is not None


def test_importance_weights_leave_the_std_of_the_sampler():
    """Two fixed arms with the std: beta_c is that of the policy's own answers over tau, to 1e-9. Of noisy arms not."""
    own = arms("grpo").critical_kl_weight()
    for tau in (0.5, 0.8, 1.4):
        repaired = arms("grpo", tau=tau, correction="importance")
        assert repaired.critical_kl_weight() == pytest.approx(own / tau, rel=1e-9)


def test_noisy_arms_collapse_under_a_hot_sampler_too():
    """Success probabilities inside (0, 1) have an interior fixed point at every KL weight; not at tau = 1.25."""
    assert arms("grpo", success=(0.9, 0.2)).critical_kl_weight() is None
    critical = arms("grpo", success=(0.9, 0.2), tau=1.25).critical_kl_weight()
    trained = learner("grpo", success=(0.9, 0.2), sampler=Temperature(1.25))
    assert critical_kl_weight(trained, "mean_field", 0.3, 1e-5) == pytest.approx(critical, rel=2e-5)


SLIDING = {
    "mask": ({"sampler": Temperature(0.7), "correction": Masked(0.5, 2.0)}, 0.5, 1.8022380),
    "nucleus": ({"sampler": TopP(0.9)}, 0.4, float(np.log(9))),
}


@pytest.mark.parametrize("name", SLIDING)
def test_runs_slide_along_a_jump(name):
    """The drift jumps across 0 there: no stiffness is given, and a run at a small learning rate stays beside it."""
    rules, kl_weight, gap = SLIDING[name]
    trained = learner(**rules)
    point = find_fixed_point(trained, "mean_field", kl_weight)
    assert point.slides
    assert not point.exists
    assert "jumps across 0" in point.reason
    assert gap_of(point.policy[0]) == pytest.approx(gap, abs=1e-5)
    curves = run(trained, "mean_field", cells(0.05, 0, 1, kl_weight), steps=4000, dtype=np.float64, policies=True)
    assert gap_of(curves.policies[0, 0, 0]) == pytest.approx(gap, abs=0.02)
    if name == "mask":
        two = arms(tau=0.7, correction="icepop", low=0.5, high=2.0)
        assert two.rest(kl_weight) == pytest.approx(gap, abs=1e-6)
        law = 1 / (1 + np.exp(gap)) / (1 / (1 + np.exp(gap / 0.7)))
        assert law == pytest.approx(2.0, abs=1e-6)


def test_a_tie_at_the_start_is_no_place_where_runs_rest():
    """Five equal arms, the four likeliest are drawn: runs leave the tie, and rest where two others tie."""
    bandit = k_arm((0.172, 0.681, 0.34, 0.794, 0.67), reference_logits=(-0.1, 0.59, 0.84, 0.4, -0.22))
    trained = Learner(bandit, advantage=ADVANTAGES["dr_grpo"](), sampler=TopK(4))
    point = find_fixed_point(trained, "mean_field", 1.78)
    curves = run(trained, "mean_field", cells(0.02, 0, 1, 1.78), steps=20_000, dtype=np.float64, policies=True)
    assert np.abs(curves.policies[0, 0, 0] - 0.2).max() > 0.05
    np.testing.assert_allclose(point.policy[0], curves.policies[0, 0, 0], atol=2e-3)


MANY = {
    "hot, mean-only": ("dr_grpo", None, 9, {"tau": 1.25}, {"sampler": Temperature(1.25)}, 0.5),
    "cold, std, weights": (
        "grpo", 8, 3, {"tau": 0.7, "correction": "importance"},
        {"sampler": Temperature(0.7), "correction": IMPORTANCE}, 1.1),
    "noise": ("rloo", 6, 4, {"xi": 0.7}, {"sampler": LogitNoise((0.7, 0, 0, 0, 0))}, 0.6),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_one_good_arm_among_many_is_two_arms(name):
    """Log-odds at rest to 1e-8, stiffness along the gap to 1e-7 of the drift's. Planted: two arms with no other clock,
    or no other reference, are not these."""
    advantage, size, others, acting, rules, kl_weight = MANY[name]
    success = (0.9, 0.2)
    many = theory.one_good_arm(theory.GroupLaw(advantage, size), others, theory.ActingLaw(**acting), success)
    bandit = k_arm((success[0], *(success[1],) * others))
    trained = Learner(bandit, advantage=ADVANTAGES[advantage](), group_size=size or 64, **rules)
    dynamics = "mean_field" if size is None else "finite_group"
    point = find_fixed_point(trained, dynamics, kl_weight)
    rest_gap, gap = float(np.log(point.policy[0, 0] / point.policy[0, 1:].sum())), many.rest(kl_weight)
    assert gap == pytest.approx(rest_gap, abs=1e-8)
    assert abs(arms(advantage, size, success, **acting).rest(kl_weight) - rest_gap) > 0.1
    fresh, stale = fresh_and_stale(trained, dynamics, kl_weight, point)
    along = point.basis.T @ np.array([1.0, *(-1 / others,) * others])
    measured = along @ (fresh + stale) @ along / (along @ along)
    np.testing.assert_allclose(many.stiffness(gap, kl_weight) * (others + 1) / (2 * others), measured, rtol=1e-7)
    assert others == 1 or abs((others + 1) / (2 * others) - 1) > 0.1


def test_the_mean_flow_depends_on_the_start():
    """Above the critical weight a start beyond the repelling point runs to the vertex."""
    two = arms(tau=1.25)
    held = two.rest(0.6)
    assert two.rest(0.6, 0.1) == pytest.approx(held, abs=1e-12)
    assert two.rest(0.6, held + 0.5) == pytest.approx(held, abs=1e-9)
    assert two.rest(0.6, 12.0) is None
