"""Thresholds of any distribution of ages: closed forms, and what bounds them."""

import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.grpo import DrawnAges
from bandit_lab.grpo.staleness.ages import ages
from bandit_lab.theory.random_ages import averaged_threshold, geometric_weights

CONVENTIONS = ("heavy_ball", "nesterov", "ema")


@pytest.mark.parametrize("count", [1, 2, 4, 8, 32])
def test_uniform_ages_have_their_closed_form(count):
    kappa = theory.averaged_ages_threshold(np.full(count, 1 / count), 0.0).kappa
    np.testing.assert_allclose(kappa, 2 * count * np.sin(np.pi / (2 * count)) ** 2, rtol=1e-12)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_constant_age_is_model_b_and_geometric_ages_have_their_polynomial(convention, momentum):
    for age in (0, 1, 2, 7):
        alone = np.eye(age + 1)[age]
        expected = theory.exact("lag", age, momentum, convention)
        threshold = theory.averaged_ages_threshold(alone, momentum, convention)
        np.testing.assert_allclose(threshold.kappa, expected.kappa, rtol=1e-10)
        assert theory.drawn_ages_threshold(alone, momentum, 1, convention) == threshold.kappa
    expected = averaged_threshold(1.5, momentum, convention).kappa
    threshold = theory.averaged_ages_threshold(geometric_weights(1.5, 120), momentum, convention).kappa
    np.testing.assert_allclose(threshold, expected, rtol=1e-9)


def laws(count, seed):
    """Random shares of ages up to 15, and a momentum."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield (
            random.dirichlet(np.full(int(random.integers(2, 17)), 0.5)),
            float(random.choice([0, 0.2, 0.5, 0.8, 0.95])),
        )


def test_mean_age_and_largest_age_bound_every_law():
    """300 random laws (seed 1); both bounds are met by a constant age. In turn they do not hold: model A, N = 2."""
    for shares, momentum in laws(300, 1):
        exact = theory.averaged_ages_threshold(shares, momentum).kappa
        assert exact >= theory.safe_by_mean_age(shares, momentum) * (1 - 1e-12)
        assert exact >= theory.safe_by_largest_age(len(shares) - 1, momentum) * (1 - 1e-12)
    assert theory.averaged_ages_threshold([0, 1], 0.3).kappa == pytest.approx(theory.safe_by_mean_age([0, 1], 0.3))
    assert theory.exact("refresh", 2, 0.0).kappa < theory.safe_by_mean_age([0.5, 0.5], 0.0)


def test_symmetric_ages_are_the_constant_age_of_their_mean_over_their_coherence():
    """kappa = kappa_B(mean)/E cos(w (a - mean)) at w = pi/(2 mean + 1), momentum 0: 50 random symmetric laws."""
    random = np.random.default_rng(2)
    for _ in range(50):
        half = random.dirichlet(np.ones(int(random.integers(1, 5))))
        shares = np.concatenate((half, half[::-1])) / 2
        mean, age = (len(shares) - 1) / 2, np.arange(len(shares))
        angle = np.pi / (2 * mean + 1)
        coherence = float(shares @ np.cos(angle * (age - mean)))
        assert coherence > 0
        kappa = theory.averaged_ages_threshold(shares, 0.0).kappa
        np.testing.assert_allclose(kappa, 2 * np.sin(angle / 2) / coherence, rtol=1e-9)


def test_mixed_is_up_to_two_and_a_half_times_as_stable_as_in_turn_without_momentum_and_may_be_less_with_it():
    np.testing.assert_allclose(theory.in_turn(64, 0.0), np.pi**2 / 4, rtol=1e-3)
    assert theory.in_turn(32, 0.9) == pytest.approx(0.732, abs=1e-3)


@pytest.mark.parametrize("draws", [1, 8, 64])
@pytest.mark.parametrize("decay", [0.5, 0.9])
def test_geometric_ages_of_many_draws_have_their_closed_form(draws, decay):
    shares = geometric_weights(decay / (1 - decay), int(60 / (1 - decay)))
    root = np.sqrt((1 - decay) ** 4 + 16 * decay * (1 - decay**2) / draws)
    expected = draws / (4 * decay) * (root - (1 - decay) ** 2)
    np.testing.assert_allclose(theory.drawn_ages_threshold(shares, 0.0, draws), expected, rtol=1e-9)


def test_laws_and_counts_become_shares(tmp_path):
    assert ages().shares == (0.5, 0.5)
    assert ages(law="uniform", maximum=3).shares == (0.25,) * 4
    assert ages(weights=[0.25, 0.75, 0.0]).shares == (0.25, 0.75)
    for law in ("geometric", "poisson"):
        rule = ages(law=law, mean=2.5)
        assert rule.mean_age == pytest.approx(2.5, abs=1e-6)
        variance = np.arange(len(rule.shares)) ** 2 @ np.array(rule.shares) - 2.5**2
        assert variance == pytest.approx(2.5 * 3.5 if law == "geometric" else 2.5, rel=1e-4)
    cut = ages(law="truncated", mean=2.0, maximum=2).shares
    np.testing.assert_allclose(cut, np.array([1, 2 / 3, 4 / 9]) / (1 + 2 / 3 + 4 / 9))
    table, listed = tmp_path / "ages.csv", tmp_path / "ages.json"
    table.write_text("age,count\n0,10\n2,10\n0,20\n")  # an age of two runs, one behind the other
    listed.write_text("[30, 0, 10]")
    assert ages(counts=str(table)).shares == ages(counts=str(listed)).shares == (0.75, 0.0, 0.25)
    listed.write_text('{"2": 10, "0": 30}')
    assert ages(counts=str(listed)).shares == (0.75, 0.0, 0.25)
    assert isinstance(ages(draws=4), DrawnAges)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"weights": [0.5, 0.6]}, "staleness.weights"),
        ({"law": "gamma"}, "staleness.law"),
        ({"counts": "nowhere.csv"}, "staleness.counts"),
    ],
)
def test_what_is_no_distribution_is_named(options, key):
    with pytest.raises(ValueError, match=f"^{key}: expected "):
        ages(**options)


def test_beyond_its_threshold_a_law_may_be_stable_again():
    """Geometric ages up to 10, mean 5.4 before they are cut off: a window of 15 %, then stable up to 1.8 times."""
    shares = (5.4 / 6.4) ** np.arange(11)
    shares /= shares.sum()
    threshold = theory.averaged_ages_threshold(shares, 0.0).kappa
    loop = theory.LinearLoop(0.0, 1.0, 0.0, "ages", shares=tuple(shares))
    radii = [theory.spectral_radius(loop, factor * threshold, 1) for factor in (0.98, 1.05, 1.25, 1.7, 1.9)]
    assert [radius < 1 for radius in radii] == [True, False, True, True, False]
