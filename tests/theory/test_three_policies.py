"""Three policies: the map against updates carried out one by one, and the closed forms against the map."""

from dataclasses import replace

import numpy as np
import pytest

from bandit_lab import theory

RNG = np.random.default_rng(11)
CURRENT = RNG.normal(size=(3, 3)) * 0.1 + np.diag([0.9, 0.6, 0.3])
PROXIMAL = RNG.normal(size=(3, 3)) * 0.2 - np.diag([0.3, 0.2, 0.1])
BEHAVIOUR = RNG.normal(size=(3, 3)) * 0.2 + np.diag([0.5, 0.2, 0.4])


def carried_out(loop, rate, interval, steps, start, proximal_interval):
    """Plain simulation; all policies before time 0 are the start."""
    path, velocity = [np.asarray(start, float)], np.zeros(loop.size)
    scale = 1 - loop.momentum if loop.convention == "ema" else 1.0
    for t in range(steps):
        block = t - t % max(interval, 1)
        acts = {"refresh": block, "lag": t - interval, "pipeline": block - interval}[loop.model]
        felt = loop.fresh @ path[-1] + loop.stale @ path[max(acts, 0)]
        push = -rate * scale * (felt + loop.proximal @ path[t - t % proximal_interval])
        velocity = loop.momentum * velocity + push
        path.append(path[-1] + (push + loop.momentum * velocity if loop.convention == "nesterov" else velocity))
    return np.array(path)


@pytest.mark.parametrize("convention", ["heavy_ball", "ema", "nesterov"])
@pytest.mark.parametrize("model", ["refresh", "lag", "pipeline"])
@pytest.mark.parametrize(("interval", "proximal_interval"), [(1, 1), (4, 2), (2, 3), (3, 6)])
def test_the_map_is_the_updates_one_by_one(model, convention, interval, proximal_interval):
    """Three maps, to 1e-11. Planted: another interval of the proximal policy is another path."""
    loop = theory.ThreePolicies(CURRENT, BEHAVIOUR, 0.8, model, convention, (1.0,), PROXIMAL, proximal_interval)
    start = np.array([1.0, -0.5, 0.3])
    matrix = loop.map(0.2, interval)
    state = np.concatenate([start, np.zeros(3), np.tile(start, matrix.shape[0] // 3 - 2)])
    steps = 3 * loop.steps_per_map(interval)
    path = carried_out(loop, 0.2, interval, steps, start, proximal_interval)
    found = np.linalg.matrix_power(matrix, 3) @ state
    np.testing.assert_allclose(found[:3], path[-1], rtol=1e-11, atol=1e-13)
    other = carried_out(loop, 0.2, interval, steps, start, proximal_interval + 1)
    assert np.max(np.abs(other[-1] - path[-1])) > 1e-6
    rates = np.array([0.1, 0.2])
    np.testing.assert_array_equal(loop.map(rates, interval)[1], matrix)


@pytest.mark.parametrize("model", ["refresh", "lag", "pipeline"])
def test_two_policies_are_a_special_case(model):
    """No proximal share; a snapshot at every update, whose share is the current one's; one that is the behaviour's."""
    pair = theory.LinearLoop(CURRENT, BEHAVIOUR, 0.7, model)
    nothing = theory.ThreePolicies(CURRENT, BEHAVIOUR, 0.7, model, proximal=0 * PROXIMAL)
    np.testing.assert_allclose(nothing.map(0.3, 3), pair.map(0.3, 3), atol=1e-14)
    current = theory.ThreePolicies(CURRENT, BEHAVIOUR, 0.7, model, proximal=PROXIMAL)
    np.testing.assert_allclose(current.map(0.3, 3), replace(pair, fresh=CURRENT + PROXIMAL).map(0.3, 3), atol=1e-14)
    if model == "refresh":
        same = theory.ThreePolicies(CURRENT, BEHAVIOUR, 0.7, model, proximal=PROXIMAL, proximal_interval=3)
        np.testing.assert_allclose(same.map(0.3, 3), replace(pair, stale=BEHAVIOUR + PROXIMAL).map(0.3, 3), atol=1e-14)


@pytest.mark.parametrize(
    ("current", "behaviour", "proximal", "updates"), [(0.3, 0.8, -0.2, 3), (0.3, 0.8, 0.3, 3), (0.5, 0.7, -0.6, 5)]
)
def test_threshold_of_answers_of_the_block_before(current, behaviour, proximal, updates):
    """Closed against the scan of the map, to 1e-12, whatever the proximal share is; none where b < c."""
    loop = theory.ThreePolicies(current, behaviour, 0.0, "pipeline", proximal=proximal, proximal_interval=updates)
    found = theory.first_unstable_learning_rate(loop, updates)
    assert found.bifurcation == "neimark_sacker"
    assert theory.next_block_threshold(current, behaviour, updates) == pytest.approx(found.value, rel=1e-12)
    assert theory.next_block_threshold(behaviour, current, updates) is None


@pytest.mark.parametrize(("proximal", "stable"), [(-0.3, True), (-0.15, True), (-0.05, False)])
def test_long_blocks_are_stable_where_both_old_shares_are_less_than_the_current_one(proximal, stable):
    """c = .4, b = .5: the block's multiplier tends to -(p + b)/c. The proximal share counts as an old one."""
    loop = theory.ThreePolicies(0.4, 0.5, 0.0, proximal=proximal, proximal_interval=400)
    assert theory.multipliers(loop, 0.5, 400)[0] == pytest.approx(-(proximal + 0.5) / 0.4, rel=1e-12)
    assert (theory.spectral_radius(loop, 0.5, 400) < 1) == stable


def test_shares_add_up_and_the_interpolated_policy_splits_the_proximal_one():
    signal = theory.BinarySignal(theory.GroupLaw("grpo"), (0.9, 0.5, 0.1))
    even = np.full(3, 1 / 3)
    policy = theory.settled_point(signal, even, 0.5, even).policy
    total = theory.stiffness_split(signal, policy, 0.5).total
    in_, nothing = theory.proximal_shares(signal, policy, 0.5)
    assert np.all(nothing == 0)
    out, share = theory.proximal_shares(signal, policy, 0.5, weighted=False)
    for alpha in (0.0, 0.5, 1.0):
        mixed, none = theory.proximal_shares(signal, policy, 0.5, False, alpha)
        np.testing.assert_allclose(mixed.total, total, atol=1e-15)
        np.testing.assert_allclose(mixed.fresh, out.fresh + alpha * share, atol=1e-15)
        assert np.all(none == 0)
    np.testing.assert_allclose(out.total + share, total, atol=1e-15)
    np.testing.assert_allclose(in_.total, total, atol=1e-15)
    uncorrected = theory.stiffness_split(signal, policy, 0.5, "uncorrected")
    np.testing.assert_allclose(out.stale, uncorrected.stale, atol=1e-15)  # a proximal policy of age 0 is `uncorrected`
