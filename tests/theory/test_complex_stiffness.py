"""Thresholds of a complex stiffness: against eigenvalues, closed forms, limits and one problem worked out elsewhere."""

import math

import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.stability import first_unstable_learning_rate

MODELS = ("refresh", "lag", "pipeline")


def turned(angle, modulus=1.0):
    """A real matrix [2, 2] whose eigenvalues are modulus e^{+-i angle}, with axes that are not orthogonal."""
    real, imaginary = modulus * math.cos(angle), modulus * math.sin(angle)
    skew = np.array([[1.0, 0.4], [0.0, 0.7]])
    return skew @ np.array([[real, -imaginary], [imaginary, real]]) @ np.linalg.inv(skew)


@pytest.mark.parametrize("model", MODELS)
def test_the_marginal_curve_matches_bisected_eigenvalues(model):
    """40 random settings of every model, all conventions: within 1e-10, and a kind that is a complex pair."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        interval, momentum = int(rng.integers(1, 17)), float(rng.choice([0.0, rng.uniform(0, 0.98)]))
        angle, convention = rng.uniform(0.02, 1.4), str(rng.choice(["heavy_ball", "ema", "nesterov"]))
        modulus = 10 ** rng.uniform(-2, 1)
        expected = theory.exact(model, interval, momentum, convention, angle)
        assert theory.exact(model, interval, momentum, convention, -angle) == expected
        loop = LinearLoop(np.zeros((2, 2)), turned(angle, modulus), momentum, model, convention)
        threshold = first_unstable_learning_rate(loop, interval, 24)
        assert threshold.value * modulus == pytest.approx(expected.kappa, rel=1e-10), (interval, momentum, angle)
        assert threshold.bifurcation in (
            "neimark_sacker",
            "flip",
            "fold",
        )  # of a real map the pair may pass a real place
        assert expected.bifurcation == "neimark_sacker"


@pytest.mark.parametrize("angle", [1e-9, 0.1, 0.7, 1.5])
def test_closed_forms_of_a_complex_stiffness(angle):
    for interval in (1, 2, 5, 64):
        refresh = theory.exact("refresh", interval, 0.0, angle=angle).kappa
        assert refresh == pytest.approx(2 * math.cos(angle) / interval, rel=1e-9)
        lag = theory.exact("lag", interval, 0.0, angle=angle).kappa
        assert lag == pytest.approx(2 * math.sin((math.pi / 2 - angle) / (2 * interval + 1)), rel=1e-9)
    for mu in (0.0, 0.5, 0.9, 0.99):
        low, high = (1 - mu) * math.cos(angle), (1 + mu) * math.sin(angle)
        ellipse = 2 * (1 + mu) * (1 - mu) ** 2 * math.cos(angle) / (low**2 + high**2)
        assert theory.exact("refresh", 1, mu, angle=angle).kappa == pytest.approx(ellipse, rel=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_complex_stiffness_has_no_least_factor_over_the_law(model):
    """Near momentum 1 the threshold is N (1 - mu)/tan^2(phi) of the law for every model; at angle 0 the real one."""
    for angle in (0.1, 0.4, 1.2):
        kappa, mu = theory.exact(model, 4, 1 - 1e-6, angle=angle).kappa, 1 - 1e-6
        over_law = kappa * math.cos(angle) / theory.leading_order(4, mu)
        assert over_law == pytest.approx(4 * (1 - mu) / math.tan(angle) ** 2, rel=2e-3)
    for mu in (0.0, 0.9):
        small, real = (theory.exact(model, 4, mu, angle=angle).kappa for angle in (1e-7, 0.0))
        assert small == pytest.approx(real, rel=1e-4)
    for bad in (math.pi / 2, -2.0):
        with pytest.raises(ValueError, match="angle"):
            theory.exact(model, 4, 0.5, angle=bad)


def test_three_fixed_arms_of_an_independent_calculation():
    """Rewards -.93, .67, -.33, reference logits 2.05, -2.9, 1.21, KL weight .72, std-normalised: exact over law."""
    reference = np.exp([2.05, -2.9, 1.21]) / np.exp([2.05, -2.9, 1.21]).sum()
    signal = theory.MomentSignal((-0.93, 0.67, -0.33))
    point = theory.attracting_fixed_point(signal, reference, 0.72, np.full(3, 1 / 3))
    stiffness = theory.stiffness_split(signal, point.policy, 0.72).spectrum()
    np.testing.assert_allclose(sorted(stiffness.imag), [-0.0580, 0.0580], atol=5e-5)
    np.testing.assert_allclose(stiffness.real, 0.2313, atol=5e-5)
    angle = float(np.angle(stiffness[0]))
    expected = {
        ("lag", 1, 0.0): 0.829, ("lag", 1, 0.9): 0.463, ("lag", 1, 0.97): 0.260, ("lag", 4, 0.9): 0.698,
        ("refresh", 1, 0.0): 1.88, ("refresh", 2, 0.9): 1.40, ("refresh", 2, 0.97): 0.665,
        ("pipeline", 4, 0.9): 0.550, ("pipeline", 4, 0.97): 0.398,
    }  # fmt: skip
    for (model, interval, momentum), over_law in expected.items():
        kappa = theory.exact(model, interval, momentum, angle=angle).kappa
        ratio = kappa * math.cos(angle) / theory.leading_order(interval, momentum)
        half_a_digit = 0.00501 if over_law > 1 else 0.000501
        assert ratio == pytest.approx(over_law, abs=half_a_digit), (model, interval, momentum)
