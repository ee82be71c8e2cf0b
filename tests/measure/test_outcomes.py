"""Outcome codes: each planted fate gets its name; the boundary that sampled runs show."""

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.lab.sweep.sampled import CEILING_SHARE, classify
from bandit_lab.measure import classify_mean, classify_runs, find_fixed_point, sampled_boundary, share_of_lost
from bandit_lab.measure.onset import fit_poles, stiffest_mode
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import Summary, run


def lost(codes):
    """Share of runs that lost the fixed point, of codes [C, S]."""
    return share_of_lost(np.stack([np.bincount(row, minlength=len(Outcome)) for row in codes]))


def test_codes_by_hand():
    """One run per rule; fixed point at 0.8 with stationary std 0.01."""
    rows = {
        Outcome.CONVERGED: (0.8, 0.01, 0.02, 0.9, True),
        Outcome.OSCILLATING: (0.8, 0.01, 0.08, 0.9, True),
        Outcome.UNSTABLE: (0.75, 0.2, 0.15, 0.9, True),
        Outcome.UNDECIDED: (0.6, 0.05, -0.1, 0.7, True),
        Outcome.COLLAPSED: (0.9, 0.0, 0.1, 0.99999, True),
        Outcome.NON_FINITE: (np.nan, np.nan, np.nan, np.nan, False),
    }
    columns = [np.array(column)[None] for column in zip(*rows.values(), strict=True)]
    mean, std, over, top, finite = columns
    summary = Summary(mean, std, over, top, np.zeros_like(mean), finite)
    codes = classify_runs(summary, np.array([0.8]), np.array([0.88]), np.array([0.01]))
    assert codes[0].tolist() == [int(outcome) for outcome in rows]
    assert lost(codes)[0] == pytest.approx(3 / 6)


def test_a_cycle_about_the_fixed_point_is_not_settled():
    """Its mean is that of the fixed point: only the standard deviation of the last half shows it. Within 4 standard
    deviations a run has settled, beyond them it cycles, or, if it never crossed the fixed point, is undecided."""
    std, over = np.array([0.039, 0.041, 0.041]), np.array([0.06, 0.06, 0.03])
    mean, top = np.full(3, 0.8), np.full(3, 0.9)
    summary = Summary(*(x[None] for x in (mean, std, over, top, np.zeros(3), np.full(3, True))))
    codes = classify_runs(summary, np.array([0.8]), np.array([0.88]), np.array([0.01]))
    assert codes[0].tolist() == [Outcome.OSCILLATING, Outcome.UNSTABLE, Outcome.UNDECIDED]
    assert lost(codes)[0] == pytest.approx(1 / 3)


def test_a_sweeps_run_cycles_beyond_two_standard_deviations_or_near_the_vertex():
    """A sweep holds the fluctuation to 2 scales, the mean to 4, both to half of the way to the best arm."""
    std, mean = np.array([0.019, 0.021, 0.01, 0.01]), np.array([0.8, 0.8, 0.839, 0.841])
    rest = np.full(4, 0.06), np.full(4, 0.9), np.zeros(4), np.full(4, True)
    summary = Summary(*(x[None] for x in (mean, std, *rest)))
    place = np.array([0.8]), np.array([0.88]), np.array([0.01])
    far = [Outcome.OSCILLATING, Outcome.UNSTABLE, Outcome.OSCILLATING, Outcome.UNSTABLE]
    assert classify(summary, *place, 1.0)[0].tolist() == far
    near = 0.8 + 0.02 / CEILING_SHARE  # the ceiling is .02 above the fixed point
    assert classify(summary, *place, near)[0].tolist() == [Outcome.OSCILLATING, *[Outcome.UNSTABLE] * 3]
    assert classify(summary, *place, 0.8 + 0.015 / CEILING_SHARE)[0].tolist() == [Outcome.UNSTABLE] * 4


def test_the_projector_on_the_stiffest_mode_is_blind_to_the_others():
    """A stiffness that is not symmetric. Planted: its right eigenvector in the place of the left one."""
    matrix, basis = np.array([[2.0, 1.0], [0.3, 1.0]]), np.linalg.qr(np.arange(6.0).reshape(3, 2) ** 2)[0]
    direction, projector = stiffest_mode(matrix, basis)
    values, right = np.linalg.eig(matrix)
    other = basis @ right[:, np.argmin(values)]
    assert projector @ direction == pytest.approx(1)
    assert projector @ other == pytest.approx(0, abs=1e-12)
    repelled = np.array([[1.0, 0.2], [0.0, -3.0]])  # the largest stiffness, not the largest in size
    np.testing.assert_allclose(stiffest_mode(repelled, np.eye(2))[1], [1, 0.05])


def test_mean_codes():
    codes = classify_mean([-0.1, -0.1, -0.1, 0.1, np.nan, 0.0], [0.5, 0.5 + 0.1j, -0.5, 0.5, 0.5, 0.5])
    names = ["CONVERGED", "OSCILLATING", "OSCILLATING", "UNSTABLE", "NON_FINITE", "UNDECIDED"]
    assert codes.tolist() == [int(Outcome[name]) for name in names]


def test_sampled_boundary_is_interpolated_on_the_log():
    rates = np.array([1.0, 10.0, 100.0])
    lost = np.array([[0.0, 0.25, 0.75], [0.0, 0.0, 0.1], [0.9, 1.0, 1.0]])
    boundary = sampled_boundary(rates, lost)
    assert boundary[0] == pytest.approx(10**1.5)
    assert np.all(np.isnan(boundary[1:]))


def test_runs_on_both_sides_of_the_boundary():
    """Model A, N = 4, mu = 0: kappa N = 0.3 settles; at kappa N = 2.4 the fixed point is lost. 128 seeds each."""
    trained = learner("grpo", two_arm(), group_size=256)
    point = find_fixed_point(trained, "finite_group", 1.0)
    grid = cells(np.array([0.3, 2.4]) / (4 * 0.14), 0.0, 4)
    middle, top = np.full(2, point.expected_reward), np.full(2, point.policy.max())
    runs = run(trained, "sampled", grid, steps=400, seeds=128, reference=middle)
    codes = classify_runs(runs.summary, middle, top, np.array([0.008, 0.008]))
    assert np.mean(np.isin(codes[0], (Outcome.CONVERGED, Outcome.OSCILLATING))) > 0.95
    assert lost(codes)[1] > 0.95


@pytest.mark.parametrize("poles", [(0.9, 0.4), (0.97, 0.96), (0.6 + 0.5j, 0.6 - 0.5j), (-0.9, 0.3), (0.7,)])
def test_poles_of_a_known_series_are_recovered(poles):
    """Rounding noise of 1e-11 added; one pole is not turned into two, and its partner is not invented."""
    times = np.arange(60)
    series = sum((1.0 + i) * np.power(complex(z), times) for i, z in enumerate(poles)).real
    series = series / np.abs(series[0]) + 1e-11 * np.random.default_rng(0).standard_normal(60)
    fitted = fit_poles(series, 2)
    expected = np.array(sorted(poles, key=lambda z: (-abs(z), np.imag(z))))
    assert len(fitted) == len(poles)
    np.testing.assert_allclose(np.sort_complex(fitted), np.sort_complex(expected.astype(complex)), atol=1e-5)
