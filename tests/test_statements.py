"""Sentences of docs/results.md that are easily said too broadly: each with what limits it, computed."""

from pathlib import Path

import jax
import numpy as np
import pytest
from settings import learner

from bandit_lab import theory
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES
from bandit_lab.simulation import drift_of

ROOT = Path(__file__).parents[1]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
RESULTS = " ".join((ROOT / "docs/results.md").read_text(encoding="utf-8").split())


def test_importance_ratios_take_the_threshold_away_only_where_their_stale_part_is_smaller():
    """Rewards 1 and 0, the good arm .9 % of the reference, KL weight 1.2: stale .2449 over fresh .2397."""
    reference, signal = np.array([0.009, 0.991]), theory.BinarySignal(theory.GroupLaw("grpo"), (1.0, 0.0))
    point = theory.settled_point(signal, reference, 1.2, reference)
    fresh, stale = theory.stiffness_split(signal, point.policy, 1.2, "ratio").reduced()
    assert fresh[0, 0] == pytest.approx(0.2397, abs=5e-5)
    assert stale[0, 0] == pytest.approx(0.2449, abs=5e-5)
    first = theory.first_unstable_refresh_interval(theory.LinearLoop(fresh, stale), 0.1)
    assert first.value == 188
    assert "unstable from N = 188" in RESULTS
    mean_only = theory.BinarySignal(theory.GroupLaw("dr_grpo"), (1.0, 0.0))  # without the std nothing is stale
    point = theory.settled_point(mean_only, reference, 1.2, reference)
    np.testing.assert_allclose(theory.stiffness_split(mean_only, point.policy, 1.2, "ratio").stale, 0, atol=1e-15)


def test_group_size_is_a_temperature_alone_where_the_mean_gradient_does_not_know_it(compiled_quickly):
    """Leave-one-out, no baseline, and the sign: the exact mean at G = 3 and 8 is one; no other rule has that."""
    theta, weight, free = np.array([0.7, -0.2]), 0.0, set()
    for name in ADVANTAGES:
        drifts = []
        for size in (3, 8):
            trained = learner(name, two_arm((0.8, 0.3)), group_size=size)
            drifts.append(np.asarray(jax.jit(drift_of(trained, "finite_group"))(theta, theta, weight)))
        distance = np.max(np.abs(drifts[0] - drifts[1])) / np.max(np.abs(drifts[0]))
        assert distance < 1e-12 or distance > 1e-2, name
        free |= {name} if distance < 1e-12 else set()
    assert free == {"rloo", "none", "sign"}
    assert "`rloo`, `none` and `sign`" in RESULTS


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_on_policy_the_law_is_careful_by_a_factor_that_momentum_sets(momentum):
    over_law = theory.exact("refresh", 1, momentum).kappa / theory.leading_order(1, momentum)
    assert over_law == pytest.approx(2 * (1 + momentum) / (1 - momentum), rel=1e-12)
    assert "2 (1 + mu)/(1 - mu)" in RESULTS


def test_careful_close_and_unsafe_are_words_for_real_stiffness():
    """Momentum 0.97, N = 2. Real: 2 and more (A), 1 to pi/2 (B), 2/3 to 1 (C). At 20 degrees: below half for all."""

    def over_law(model, angle):
        kappa = theory.exact(model, 2, 0.97, angle=angle).kappa
        return kappa * np.cos(angle) / theory.leading_order(2, 0.97)

    for model, least, most in (("refresh", 2, 5.7), ("lag", 1, np.pi / 2), ("pipeline", 2 / 3, 1)):
        assert least <= over_law(model, 0.0) <= most
        assert over_law(model, np.radians(20)) < 0.5
    assert all("for real stiffness" in page for page in (README, RESULTS))
