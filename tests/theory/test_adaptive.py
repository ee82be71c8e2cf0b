"""Adam-like optimisers: preconditioned stiffness, weight decay, and the second moment that noise adds to itself."""

import numpy as np
import pytest
from scipy.special import softmax

from bandit_lab.theory.fixed_points import fixed_points, mean_drift
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.stiffness import BinarySignal, Split, stiffness_split
from experiments.shared.theory.adaptive import (
    adaptive_threshold,
    decayed_fixed_point,
    noise_second_moment,
    precondition,
    self_consistent_moment,
)

FIVE, REFERENCE = (0.9, 0.7, 0.45, 0.2, 0.05), np.array([0.1, 0.15, 0.3, 0.25, 0.2])


def setting(success=FIVE, reference=REFERENCE, size=16, advantage="grpo"):
    law = GroupLaw(advantage, size)
    signal = BinarySignal(law, success)
    point = fixed_points(signal, reference, 1.0)[0]
    noise = binary_covariance(law, signal.means, point.policy)
    return signal, point.policy, noise, stiffness_split(signal, point.policy, 1.0)


def test_preconditioned_spectrum_is_that_of_the_product():
    _, _, noise, split = setting()
    moment = noise_second_moment(noise)
    product = np.linalg.eigvals(np.diag(1 / (np.sqrt(moment) + 1e-3)) @ split.total).real
    scaled = precondition(split, moment, 1e-3)
    eigenvalues = np.linalg.eigvals(scaled.fresh + scaled.stale).real
    np.testing.assert_allclose(np.sort(eigenvalues), np.sort(product)[1:], rtol=1e-10)
    assert np.sort(product)[0] == pytest.approx(0.0, abs=1e-12)
    decayed = precondition(split, moment, 1e-3, weight_decay=0.3)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(decayed.fresh + decayed.stale).real), np.sort(product) + 0.3)


def test_weight_decay_moves_the_fixed_point():
    signal, policy, _, _ = setting((0.9, 0.1), np.array([0.5, 0.5]), size=64)
    logits = decayed_fixed_point(signal, np.array([0.5, 0.5]), 1.0, 0.05, np.log(policy) - np.log(policy).mean())
    drift = mean_drift(signal, np.array([0.5, 0.5]), 1.0, logits)
    spread = np.sqrt(np.diag(binary_covariance(signal.law, signal.means, softmax(logits))) + drift**2)
    np.testing.assert_allclose(drift / spread, 0.05 * logits, rtol=1e-5)
    assert softmax(logits)[0] < policy[0]
    with pytest.raises(ValueError, match="signal"):
        decayed_fixed_point(BinarySignal(GroupLaw(), (0.9, 0.1)), np.array([0.5, 0.5]), 1.0, 0.05, logits)


@pytest.mark.parametrize(("factor", "inflation"), [(1.0, (3 + np.sqrt(5)) / 2), (2.0, None)])
def test_self_consistent_moment_has_no_threshold(factor, inflation):
    """N = 1, beta_1 = 0: v/C = 2/(2 - y) with y sqrt(2/(2 - y)) = eta K/sqrt(C), (3 + sqrt 5)/2 at the held threshold.

    Frozen, N = 4: v/C = 1 + y/(N (2 - y)) with y = eta N K/sqrt(v), from the covariance at block starts.
    """
    _, _, noise, split = setting((0.9, 0.1), np.array([0.5, 0.5]), size=64)
    for interval in (1, 4):
        held = adaptive_threshold(split, noise_second_moment(noise), "refresh", interval, 0.0, 0.0).kappa
        moment = self_consistent_moment(split, noise, factor * held, interval, "refresh", 0.0, 0.0)
        ratio = moment[0] / noise[0, 0]
        y = 2 * factor / np.sqrt(ratio)  # the held threshold is at eta N K/sqrt(C) = 2
        assert 0 < y < 2
        assert ratio == pytest.approx(1 + y / (interval * (2 - y)), rel=1e-6)
        if interval == 1 and inflation is not None:
            assert ratio == pytest.approx(inflation, rel=1e-6)


@pytest.mark.parametrize(("fresh", "interval"), [(0.0, 1), (0.3, 1), (1.0, 1), (1.0, 4)])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_self_consistent_moment_feels_the_fresh_part_as_well(fresh, interval, factor):
    """On-policy only the sum of the parts counts, and a wholly fresh gradient knows of no blocks: v/C = 2/(2 - y)."""
    _, _, noise, split = setting((0.9, 0.1), np.array([0.5, 0.5]), size=64)
    parts = Split(fresh * split.total, (1 - fresh) * split.total)
    on_policy = adaptive_threshold(split, noise_second_moment(noise), "refresh", 1, 0.0, 0.0).kappa
    moment = self_consistent_moment(parts, noise, factor * on_policy, interval, "refresh", 0.0, 0.0)
    ratio = moment / np.diag(noise)
    y = 2 * factor / np.sqrt(ratio)  # that threshold is at eta K/sqrt(C) = 2
    np.testing.assert_allclose(ratio, 2 / (2 - y), rtol=1e-6)
