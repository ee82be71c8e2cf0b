"""Floquet multipliers of the real update against the closed forms, for optimisers, staleness models and estimators."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import optax
import pytest
from settings import learner

from bandit_lab import theory
from bandit_lab.bandits import BANDITS as REGISTERED, k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner, Optimizer, weighs_groups
from bandit_lab.measure import find_fixed_point, fresh_and_stale, measure_stiffness
from bandit_lab.measure.period_jacobian import Floquet, floquet, floquet_threshold

pytestmark = pytest.mark.usefixtures("compiled_quickly")

CONVENTIONS = {"sgd": "heavy_ball", "sgd_ema": "ema", "nesterov": "nesterov"}
FIVE = k_arm((0.85, 0.7, 0.45, 0.3, 0.1), reference_logits=(0.0, 0.3, -0.2, 0.1, 0.4))
BANDITS = {"two": two_arm(), "five": FIVE}
POINTS = [(1, 0.0), (2, 0.544), (8, 0.9), (64, 0.95)]
LAGS = [(1, 0.0), (8, 0.9)]  # every lag is a program of its own

COVERING = [
    ("five", "finite_group", "refresh", "nesterov"),
    ("two", "finite_group", "lag", "nesterov"),
    ("five", "mean_field", "pipeline", "sgd_ema"),
]
ALL = [
    (bandit, dynamics, model, optimizer)
    for bandit in BANDITS
    for dynamics in ("mean_field", "finite_group")
    for model in ("refresh", "lag", "pipeline")
    for optimizer in CONVENTIONS
]


def subject_of(bandit, model="refresh", optimizer="sgd", size=8, estimator="frozen", **options):
    return learner(
        bandit=BANDITS[bandit],
        staleness=model,
        estimator=ESTIMATORS[estimator](),
        optimizer=optimizer if not isinstance(optimizer, str) else Optimizer(optimizer),
        group_size=size,
        **options,
    )


@cache
def largest_stiffness(bandit, dynamics):
    """At the fixed point; neither the staleness model nor the optimiser moves it."""
    subject = subject_of(bandit)
    return measure_stiffness(subject, dynamics, 1.0, find_fixed_point(subject, dynamics, 1.0)).largest


@pytest.mark.parametrize(
    "setting", [s if s in COVERING else pytest.param(s, marks=pytest.mark.nightly) for s in ALL], ids="-".join
)
def test_thresholds_are_the_closed_forms(setting):
    """Threshold to 1e-8 (found: 1e-13) and kind, at four settings of interval and momentum."""
    bandit, dynamics, model, optimizer = setting
    subject = subject_of(bandit, model, optimizer)
    stiffness = largest_stiffness(bandit, dynamics)
    for interval, momentum in LAGS if model == "lag" else POINTS:
        threshold = floquet_threshold(subject, dynamics, momentum, interval, 1.0)
        expected = theory.exact(model, interval, momentum, CONVENTIONS[optimizer])
        assert threshold.learning_rate * stiffness == pytest.approx(expected.kappa, rel=1e-8)
        assert threshold.kind == expected.bifurcation
        assert abs(threshold.multiplier) == pytest.approx(1, abs=1e-9)


def test_a_threshold_far_above_one_is_found():
    """Equal arms and a weak pull: a stiffness of 2 beta p (1 - p) = 0.005."""
    threshold = floquet_threshold(learner(bandit=two_arm((0.5, 0.5))), "mean_field", 0.5, 1, 0.01)
    assert threshold.learning_rate == pytest.approx(theory.exact("refresh", 1, 0.5).kappa / 0.005, rel=1e-8)


def test_all_multipliers_of_a_mixed_split():
    """Five arms, importance ratio: fresh and stale stiffness do not commute. Every multiplier to 1e-10."""
    subject = subject_of("five", estimator="ratio")
    point = find_fixed_point(subject, "finite_group", 1.0)
    fresh, stale = fresh_and_stale(subject, "finite_group", 1.0, point)
    assert np.abs(fresh @ stale - stale @ fresh).max() > 1e-5
    multipliers = floquet(subject, "finite_group", Hyper(2.0, 0.8, 6, 1.0)).multipliers
    expected = theory.multipliers(theory.LinearLoop(fresh, stale, 0.8, "refresh"), 2.0, 6)
    assert len(multipliers) == len(expected) + 4  # the snapshot itself is overwritten: zeros
    np.testing.assert_allclose(np.sort_complex(multipliers[:8]), np.sort_complex(expected), rtol=0, atol=1e-10)
    np.testing.assert_allclose(multipliers[8:], 0, atol=1e-12)


VARIANTS = [
    *((name, "grpo", "clipped", "exact") for name in REGISTERED),
    *(("k_arm", name, "ratio", "exact") for name in ADVANTAGES),
    *(("k_arm", "grpo", name, "exact") for name in ESTIMATORS),
    ("two_arm", "grpo", "uncorrected", "k3"),
]
SOME = {("proxy", "grpo", "clipped", "exact"), ("k_arm", "dapo", "ratio", "exact")}


@pytest.mark.parametrize(
    "variant", [v if v in SOME else pytest.param(v, marks=pytest.mark.nightly) for v in VARIANTS], ids="-".join
)
def test_every_bandit_advantage_and_estimator(variant):
    """Dominant multiplier of the update against the linear loop of its fresh and stale stiffness, 1e-9, G = 4.

    The registries are read, so that a new name is covered. Where no finite group can be summed over: G = infinity.
    """
    bandit, advantage, estimator, kl = variant
    made_bandit = FIVE if bandit == "k_arm" else REGISTERED[bandit]()
    subject = learner(
        advantage, made_bandit, "pipeline", estimator=ESTIMATORS[estimator](), group_size=4, kl_estimator=kl
    )
    summed = made_bandit.exact_law and not weighs_groups(subject)
    dynamics = "finite_group" if summed else "mean_field"
    point = find_fixed_point(subject, dynamics, 1.0)
    fresh, stale = fresh_and_stale(subject, dynamics, 1.0, point)
    linearised = floquet(subject, dynamics, Hyper(1.0, 0.7, 5, 1.0))
    loop = theory.LinearLoop(fresh, stale, 0.7, "pipeline")
    assert linearised.reason is None
    np.testing.assert_allclose(linearised.theta, point.theta, atol=1e-8)
    assert linearised.radius == pytest.approx(theory.spectral_radius(loop, 1.0, 5), abs=1e-9)


@dataclass(frozen=True)
class Chained:
    """A duck-typed optimiser: clipping, heavy ball and a learning rate that a schedule brings down to a tenth."""

    steps: int = 100
    convention: str = "heavy_ball"
    elementwise = False

    def build(self, learning_rate, momentum):
        schedule = optax.linear_schedule(-learning_rate, -0.1 * learning_rate, self.steps)
        return optax.chain(
            optax.clip_by_global_norm(10.0), optax.trace(decay=momentum), optax.scale_by_schedule(schedule)
        )


def test_chains_and_schedules_stand_at_their_frozen_value():
    """Frozen after all steps the threshold is ten times that of the schedule's start; half way 1/0.55 times it."""
    plain = floquet_threshold(subject_of("two"), "mean_field", 0.9, 4, 1.0).learning_rate
    for count, factor in ((2**30, 0.1), (0, 1.0), (50, 0.55)):
        threshold = floquet_threshold(subject_of("two", optimizer=Chained()), "mean_field", 0.9, 4, 1.0, count=count)
        assert threshold.learning_rate * factor == pytest.approx(plain, rel=1e-6)  # the schedule computes in float32


def test_a_repelling_fixed_point_has_threshold_zero_and_a_stable_one_none():
    """In range: everything stable says so; a threshold that lies below the range is no number either."""
    threshold = floquet_threshold(subject_of("two"), "mean_field", 0.0, 1, 1.0).learning_rate
    quiet = floquet_threshold(subject_of("two"), "mean_field", 0.0, 1, 1.0, low=1e-3 * threshold, high=0.9 * threshold)
    assert quiet.learning_rate is None
    assert "stable up to" in quiet.reason
    late = floquet_threshold(subject_of("two"), "mean_field", 0.0, 1, 1.0, low=2 * threshold, high=9 * threshold)
    assert late.learning_rate == 0.0
    assert "already" in late.reason


def test_no_fixed_point_no_multipliers():
    subject = Learner(two_arm((1.0, 0.0)), staleness=STALENESS["refresh"]())
    linearised = floquet(subject, "mean_field", Hyper(0.1, 0.0, 4, 0.5))
    assert linearised.theta is None
    assert np.isnan(linearised.radius)
    assert "vertex" in linearised.reason
    assert floquet_threshold(subject, "mean_field", 0.0, 4, 0.5).learning_rate is None


@pytest.mark.parametrize(
    ("multiplier", "cycle"),
    [(0.9 * np.exp(0.25j * np.pi), 24.0), (-0.5 + 0j, 6.0), (0.5 + 0j, np.inf), (None, np.nan)],
)
def test_one_oscillation_is_a_turn_of_the_largest_multiplier(multiplier, cycle):
    """Periods of three steps: an eighth of a turn each, half a turn, none; and no multiplier at all."""
    multipliers = np.array([] if multiplier is None else [multiplier])
    linearised = Floquet(multipliers, 3, None, (), None, 0.0, None)
    assert linearised.cycle == pytest.approx(cycle, nan_ok=True)
    growth = np.nan if multiplier is None else np.log(abs(multiplier)) / 3
    assert linearised.growth == pytest.approx(growth, nan_ok=True)


@dataclass(frozen=True)
class Decayed:
    """Descent with a weight decay that the learning rate does not scale: its fixed point moves with the rate."""

    decay: float = 0.05
    convention: str = "heavy_ball"
    elementwise = True

    def build(self, learning_rate, momentum):
        return optax.chain(optax.scale(-learning_rate), optax.add_decayed_weights(-self.decay))


def test_a_fixed_point_that_moves_with_the_learning_rate_is_solved_at_every_rate():
    """On policy the update is flipped, factor -1, at the threshold; a block that is made there anew agrees."""
    subject = subject_of("two", optimizer=Decayed())
    threshold = floquet_threshold(subject, "mean_field", 0.0, 1, 1.0, low=1.0, high=30.0)
    there, slower = (
        floquet(subject, "mean_field", Hyper(threshold.learning_rate * x, 0.0, 1, 1.0)) for x in (1.0, 0.1)
    )
    assert threshold.multiplier.real == pytest.approx(-1, abs=1e-9)
    assert there.multipliers[0] == pytest.approx(-1, abs=1e-9)
    assert np.abs(there.theta - slower.theta).max() > 0.1
