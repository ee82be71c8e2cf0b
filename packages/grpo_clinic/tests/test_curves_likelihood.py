"""The likelihood of a fit against dense matrices and against a density that is maximised by itself."""

from types import SimpleNamespace

import numpy as np
import pytest
from grpo_clinic.fitting import SHAPES, engine, intervals, likelihood
from scipy import optimize, stats

TIME = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 9.0, 10.0])
"""Steps with a gap of two and one of three intervals."""


def _covariance(rho):
    """Of AR(1) noise of unit variance that is seen at these steps only, rho >= 0."""
    return rho ** np.abs(TIME[:, None] - TIME)


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("rising", [True, False])
def test_differences_are_generalised_least_squares(rho, rising):
    """Plateau, amplitude, residual sum, inverse matrix and determinants of X' V^-1 X and V; the deviance."""
    y = np.random.default_rng(1).normal(size=TIME.size)
    growth = np.stack((-np.exp(-TIME / 3), -np.exp(-TIME / 6)))
    inverse = np.linalg.inv(_covariance(rho))
    solution = likelihood.solve(TIME, y, growth if rising else None, np.ones_like(y), np.array([rho]))
    expected = []
    for m, g in enumerate(growth if rising else growth[:1]):
        design = np.stack((np.ones_like(TIME), g), axis=-1)[:, : 2 if rising else 1]
        square = design.T @ inverse @ design
        best = np.linalg.solve(square, design.T @ inverse @ y)
        rest = y - design @ best
        spread = np.zeros((2, 2))
        spread[: best.size, : best.size] = np.linalg.inv(square)
        numbers = [*[*best, 0.0][:2], rest @ inverse @ rest, spread[0, 0], spread[0, 1], spread[1, 1]]
        got = [getattr(solution, name)[0, m] for name in ("plateau", "amplitude", "squares", "v11", "v12", "v22")]
        np.testing.assert_allclose(got, numbers, rtol=1e-9, atol=1e-12)
        assert solution.log_determinant[0, m] == pytest.approx(np.linalg.slogdet(square)[1], abs=1e-9)
        expected.append((numbers[2], solution.log_determinant[0, m]))
    volume = np.linalg.slogdet(_covariance(rho))[1]
    assert solution.log_volume[0] == pytest.approx(volume, abs=1e-9)
    lowest = [volume + min(expected)[1] + 5.0 * np.log(square) for square, _ in expected]
    np.testing.assert_allclose(solution.deviance(5.0)[0], lowest, rtol=1e-9)


def test_the_robust_likelihood_is_huber_s_density_at_its_likeliest_scale():
    """Without outliers that of a normal; with two of them the largest over scales, found by a search (1e-8)."""
    drawn = np.random.default_rng(2).normal(size=30)
    plain, outliers = np.clip(drawn, -2, 2), np.concatenate((drawn[:28], [9.0, -7.0]))
    likelihoods = [likelihood.robust_log_likelihood(one, 0.7) for one in (plain, outliers)]
    assert likelihoods[0] == pytest.approx(stats.norm.logpdf(plain, scale=np.sqrt(np.mean(plain**2))).sum() - 0.35)

    def cost(log_scale):
        z = np.abs(outliers) / np.exp(log_scale)
        return np.sum(np.where(z < 2.5, z**2 / 2, 2.5 * z - 2.5**2 / 2) + log_scale + np.log(2 * np.pi) / 2)

    assert likelihoods[1] == pytest.approx(-optimize.minimize_scalar(cost, bounds=(-3, 3), method="bounded").fun - 0.35)


def test_the_likelihood_of_a_fit_is_one_of_rewards_in_their_own_unit():
    """Rewards a thousand times as small: a density a thousand times as large, at every point."""
    drawn = np.random.default_rng(3).normal(size=TIME.size)
    one, small = (engine.fit(SHAPES["constant"], TIME, scale * drawn).log_likelihood for scale in (1.0, 1e-3))
    assert small - one == pytest.approx(TIME.size * np.log(1000))


def test_weights_are_one_up_to_two_and_a_half_robust_deviations():
    """The middle of 101 even points is 0, half of them lie within 25: a deviation of 25 * 1.4826."""
    values = np.arange(-50.0, 51.0)
    far = np.append(values, [400.0, -400.0])
    weights = likelihood.robust_weights(far)
    spread = 1.4826 * np.median(np.abs(far))
    np.testing.assert_allclose(weights, np.minimum(1, 2.5 * spread / np.maximum(np.abs(far), 1)))
    assert (weights[:101] == 1).all()
    assert (weights[101:] < 0.3).all()


@pytest.mark.parametrize("shapes", [0, 1, 2])
def test_the_quantile_counts_plateau_amplitude_and_shapes(shapes):
    """t (1 + p/n): p = 2 + shapes, n = freedom + p."""
    surface = SimpleNamespace(shape=SimpleNamespace(size=shapes), freedom=10)
    expected = stats.t.ppf(0.95, 10) * (1 + (2 + shapes) / (12 + shapes))
    assert intervals.quantile(surface, 0.9) == pytest.approx(expected, rel=1e-9)
