"""Fresh and stale stiffness together: islands of instability in the refresh interval, and very long blocks."""

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab import theory
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Ratio
from bandit_lab.measure import find_fixed_point, fresh_and_stale, generic_direction
from bandit_lab.simulation import trajectories
from experiments.shared.measure.boundaries import refresh_interval_boundary
from experiments.shared.theory.long_block import settle, success_recurrence

MOMENTUM = 0.9


def disfavoured(chance):
    """Two certain arms, the good one with this reference (and initial) probability; std-normalised, unclipped ratio."""
    gap = float(np.log(chance / (1 - chance)))
    bandit = two_arm((1.0, 0.0), reference_logits=(gap, 0.0), initial_logits=(gap, 0.0))
    return learner(bandit=bandit, estimator=Ratio())


def at_fixed_point(subject, kl_weight, kappa_fresh):
    """(fixed point, learning rate at which eta lambda_fresh = kappa_fresh, fresh, stale)."""
    point = find_fixed_point(subject, "mean_field", kl_weight)
    fresh, stale = (part[0, 0] for part in fresh_and_stale(subject, "mean_field", kl_weight, point))
    return point, kappa_fresh / fresh, fresh, stale


def simulated(subject, kl_weight, point, rate, intervals):
    """Which intervals make a displaced run of the nonlinear update grow [M]."""
    grid = cells(rate, MOMENTUM, 1, kl_weight)
    direction = generic_direction(point.basis)
    first, rates = refresh_interval_boundary(subject, "mean_field", grid, point.theta[None], direction, intervals)
    assert first[0] == (intervals[np.argmax(rates[0] > 0)] if (rates[0] > 0).any() else 0)
    return rates[0] > 0


def runs_of(flags, intervals):
    """Maximal runs [(first, last)] of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return [(int(intervals[a]), int(intervals[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


@pytest.mark.parametrize(
    ("kl_weight", "kappa", "expected"),
    [
        (2.0, 0.01, [(28, 48)]),
        (2.5, 0.03, [(15, 24)]),
        (3.0, 0.01, [(34, 37)]),
        (2.0, 0.1, [(4, 12), (26, 32), (47, 50)]),
    ],
)
def test_islands_with_a_reference_that_disfavours_the_good_arm(kl_weight, kappa, expected):
    """p_ref = .009, p* < 1/2: predicted islands up to N = 100 are those of displaced nonlinear runs, all of them."""
    subject = disfavoured(0.009)
    point, rate, fresh, stale = at_fixed_point(subject, kl_weight, kappa)
    assert point.policy[0, 0] < 0.5
    assert 0.7 < stale / fresh < 1
    assert theory.islands(theory.LinearLoop(fresh, stale, MOMENTUM), rate, 400) == expected
    intervals = np.arange(1, 101)
    assert runs_of(simulated(subject, kl_weight, point, rate, intervals), intervals) == expected


def long_blocks(subject, kl_weight, blocks, length=200, rate=1.0, start=None):
    """Success probability [blocks + 1] at block starts, no momentum; many relaxation times per block."""
    initial = None if start is None else np.array([np.log(start / (1 - start)), 0.0])
    grid = cells(rate, 0.0, length, kl_weight)
    rewards = trajectories(subject, "mean_field", grid, steps=blocks * length, dtype=np.float64, initial=initial)
    return rewards[0, 0, ::length]


@pytest.mark.parametrize("kl_weight", [1.2, 2.5])
def test_long_blocks_follow_the_recurrence(kl_weight):
    """Every block maps the success probability by the recurrence of arXiv 2503.06639: 1e-8 over 12 blocks."""
    seen = long_blocks(disfavoured(0.009), kl_weight, 12, length=2000)
    np.testing.assert_allclose(seen[1:], success_recurrence(seen[:-1], 0.009, kl_weight), atol=1e-8)


def test_period_two_and_runaway():
    """p_ref = .009: KL weight 1.2 alternates between .0699 and .1926; 0.5 runs to the vertex; 2.5 settles."""
    subject = disfavoured(0.009)
    cycle = np.sort(long_blocks(subject, 1.2, 300, start=0.072)[-2:])
    np.testing.assert_allclose(cycle, [0.0699, 0.1926], atol=1e-4)
    signal, reference = theory.BinarySignal(theory.GroupLaw("grpo"), (1.0, 0.0)), np.array([0.009, 0.991])
    predicted = settle(signal, reference, 1.2, reference)
    assert predicted.kind == "period_2"
    np.testing.assert_allclose(cycle, np.sort(predicted.cycle[:, 0]), atol=1e-6)
    assert settle(signal, reference, 0.5, reference).kind == "runaway"
    assert long_blocks(subject, 0.5, 5, length=2000)[-1] > 1 - 1e-3
    assert settle(signal, reference, 2.5, reference).kind == "fixed_point"
    settled = long_blocks(subject, 2.5, 120)
    assert abs(settled[-1] - settled[-2]) < 1e-9
