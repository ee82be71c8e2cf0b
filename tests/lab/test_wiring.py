"""Where theory meets a learner: the formula and automatic differentiation of the drift must give one linear loop."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from settings import cells, nightly_but

from bandit_lab import theory
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Learner, Optimizer, Ratio
from bandit_lab.grpo.estimator.tpo import TPO
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.fixed_point import LinearTheory, linearise, measured_linear, noise_covariance, signal_of
from bandit_lab.lab.sweep.jobs import predict_rows
from bandit_lab.loop import RateCrossing

GROUPS = {"bandit": "two_arm", "advantage": "grpo", "estimator": "frozen", "staleness": "refresh", "optimizer": "sgd"}


def settings(**changes) -> PredictSettings:
    chosen = PredictSettings(**{group: {"name": name} for group, name in GROUPS.items()})
    for key, value in changes.items():
        setattr(chosen, key, {"name": value} if key in GROUPS and isinstance(value, str) else value)
    return chosen


FIVE = {"name": "k_arm", "rewards": [0.85, 0.7, 0.45, 0.3, 0.1], "reference_logits": [0.0, 0.3, -0.2, 0.1, 0.4]}


LONG_KNOWN = ("grpo", "dr_grpo", "rloo", "dapo")
CASES = [
    (advantage, estimator)
    for advantage in theory.ADVANTAGES
    for estimator in ("frozen", "uncorrected", "ratio", "clipped")
    if advantage in LONG_KNOWN or estimator == "uncorrected"  # in which everything is felt that an advantage does
]


DYNAMICS = ("mean_field", "finite_group")
ONE_EACH = [(*case, DYNAMICS[place % 2]) for place, case in enumerate(CASES)]


@pytest.mark.parametrize(
    ("advantage", "estimator", "dynamics"),
    nightly_but(ONE_EACH, [(*case, dynamics) for case in CASES for dynamics in DYNAMICS]),
)
def test_formula_and_differentiation_agree(advantage, estimator, dynamics):
    chosen = settings(bandit=FIVE, advantage=advantage, estimator=estimator, group_size=6)
    learner = build.build_learner(chosen, 1)
    formula = linearise(learner, dynamics, 0.8)
    seen = measured_linear(learner, dynamics, 0.8)
    assert formula.closed_form
    assert not seen.closed_form
    np.testing.assert_allclose(formula.policy, seen.policy, atol=1e-9)
    np.testing.assert_allclose(formula.spectrum, seen.spectrum, rtol=1e-8)
    for part in ("fresh", "stale"):
        eigenvalues = [np.sort(np.linalg.eigvals(getattr(linear, part))) for linear in (formula, seen)]
        np.testing.assert_allclose(*eigenvalues, atol=1e-8 * formula.largest)
    for model in ("refresh", "pipeline"):
        loops = [theory.LinearLoop(linear.fresh, linear.stale, 0.5, model) for linear in (formula, seen)]
        radii = [theory.spectral_radius(loop, 1.0 / formula.largest, 3) for loop in loops]
        assert radii[0] == pytest.approx(radii[1], rel=1e-8)


def test_a_parameter_that_does_nothing_does_not_change_the_stiffness():
    """One logit and a dead parameter: D - 1 directions change the policy, but not those orthogonal to all-ones."""
    prompt = {"name": "contextual", "contexts": 1, "arms": 2, "spread": 0.0, "high": 0.9, "low": 0.1}
    one, two = (settings(bandit=prompt | {"features": [[[1.0, *dead], [0.0, *dead]]]}) for dead in ([], [0.0]))
    alone, beside = (measured_linear(build.build_learner(s, 1), "mean_field", 1.0) for s in (one, two))
    np.testing.assert_allclose(beside.spectrum, alone.spectrum, rtol=1e-9)


def test_options_of_an_advantage_reach_the_theory():
    """A power of the std, a threshold that tells 0 from 1 and one that does not, rewards that are not 0 and 1."""

    def signal(advantage, bandit="two_arm"):
        chosen = settings(advantage=advantage, bandit=bandit)
        return signal_of(build.build_learner(chosen, 1), "mean_field")

    assert signal({"name": "tempered", "power": 1.5}).law.power == 1.5
    assert signal({"name": "tempered"}).law.power == 0.5
    assert signal({"name": "sign", "threshold": 0.3}).law.advantage == "sign"
    assert signal({"name": "sign", "threshold": 1.0}) is None
    fixed = {"name": "k_arm", "rewards": [1.3, 0.2, -0.4], "kind": "fixed"}
    assert signal({"name": "tempered", "power": 0.7}, fixed).power == 0.7
    assert signal("none", fixed).mean_advantage(np.ones(3) / 3) == pytest.approx(1.1 / 3)
    assert signal("median", fixed) is None


OPTIMISERS = {"heavy_ball": "sgd", "ema": "sgd_ema"}


def linear(model="refresh", convention="heavy_ball", stale=0.3, fresh=0.0) -> LinearTheory:
    optimizer = Optimizer(OPTIMISERS.get(convention, convention))
    learner = Learner(two_arm(), staleness=STALENESS[model](), optimizer=optimizer)
    parts = np.array([[fresh]]), np.array([[stale]])
    return LinearTheory(learner, "mean_field", 1.0, np.ones((1, 2)) / 2, 0.5, *parts)


@pytest.mark.parametrize("convention", theory.CONVENTIONS)
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("interval", [1, 4, 64])
def test_onset_of_the_oscillator_is_its_critical_damping(interval, momentum, convention):
    rate = linear(convention=convention).rate("oscillator_onset", interval, momentum).value
    if momentum == 0:
        assert rate * 0.3 * interval == pytest.approx(1.0, rel=1e-12)
        return
    osc = theory.oscillator(rate, momentum, 0.3, float(interval), convention)
    assert osc.damping_ratio == pytest.approx(1.0, rel=1e-9)
    below = theory.oscillator(0.9 * rate, momentum, 0.3, float(interval), convention)
    assert below.regime == "overdamped"


@pytest.mark.parametrize("model", theory.MODELS)
def test_closed_form_and_block_map_agree_on_thresholds(model):
    """The same loop with a trace of fresh stiffness goes through the block map instead of the closed form."""
    stale, mixed = linear(model), linear(model, fresh=1e-12)
    assert stale.wholly_stale
    assert not mixed.wholly_stale
    for interval in (2, 5):
        assert mixed.rate("threshold", interval, 0.7).value == pytest.approx(
            stale.rate("threshold", interval, 0.7).value, rel=1e-6
        )
        assert mixed.rate("onset", interval, 0.7).value == pytest.approx(
            stale.rate("onset", interval, 0.7).value, rel=1e-3
        )


def test_noise_is_that_of_the_average_over_prompts():
    one, four = settings(prompts=1), settings(prompts=4)
    policy = np.array([0.8, 0.2])
    covariances = [noise_covariance(build.build_learner(s, 1), policy)[0] for s in (one, four)]
    np.testing.assert_allclose(covariances[0], 4 * covariances[1], rtol=1e-14)


def test_noise_without_a_baseline_is_the_exact_one_at_any_rewards():
    """Arms that pay 1 or 0 for certain, once as numbers and once as chances: two formulas, one covariance."""
    policy = np.array([0.7, 0.3])
    numbers = {"name": "k_arm", "rewards": [1.0, 0.0], "kind": "fixed"}
    variances = []
    for bandit in (numbers, {"name": "two_arm", "rewards": [1.0, 0.0]}):
        chosen = settings(advantage="none", bandit=bandit, group_size=5)
        variances.append(noise_covariance(build.build_learner(chosen, 1), policy)[0])
    np.testing.assert_allclose(variances[0], variances[1], rtol=1e-12)


def test_noise_of_an_estimator_that_weighs_on_policy_is_not_that_of_plain_gradients():
    """The noise of half the gradient is not that of the gradient, and tpo weighs the actions of a group together."""

    class Half(Ratio):
        def weight(self, ratio, advantage):
            return 0.5 * super().weight(ratio, advantage)

    policy, chosen = np.array([0.8, 0.2]), settings(group_size=8)
    learner = build.build_learner(chosen, 1)
    for estimator in ("frozen", "uncorrected", "ratio", "clipped", "clip_higher", "cispo", "gspo"):
        plain = settings(estimator=estimator)
        assert noise_covariance(build.build_learner(plain, 1), policy)[1] is None
    for estimator in (Half(), TPO()):
        covariance, reason = noise_covariance(replace(learner, estimator=estimator), policy)
        assert covariance is None
        assert type(estimator).__name__ in reason


@pytest.mark.parametrize("model", theory.MODELS)
def test_a_complex_stiffness_has_a_closed_threshold_and_rings_at_once(model):
    """Two coupled directions and a stiffer real one: the pair loses stability first; no onset is read off a scan."""
    stale = np.array([[0.3, -0.1, 0.0], [0.1, 0.3, 0.0], [0.0, 0.0, 0.31]])
    turning = replace(linear(model), fresh=0 * stale, stale=stale, policies=np.ones((1, 4)) / 4, _loops={})
    np.testing.assert_allclose(turning.spectrum, [0.31, 0.3 + 0.1j, 0.3 - 0.1j])
    for interval, momentum in ((1, 0.0), (4, 0.9)):
        threshold = turning.rate("threshold", interval, momentum)
        scanned = theory.first_unstable_learning_rate(theory.LinearLoop(0 * stale, stale, momentum, model), interval)
        assert threshold.value == pytest.approx(scanned.value, rel=1e-9)
        onset = turning.rate("onset", interval, momentum)
        assert onset.value == 0
        assert "complex" in onset.reason
    equilibrium = SimpleNamespace(linear=turning)
    rows = predict_rows({1.0: equilibrium}, cells(1.0, 0.9, [1, 4]), lambda *_: None)
    assert [onset.value for onset in rows.onset] == [0, 0]


@pytest.mark.parametrize(("share", "rings"), [(0.5, True), (0.9996, True), (1.0005, True), (1.002, False)])
def test_an_onset_at_the_threshold_is_one_and_one_beyond_it_is_none(share, rings):
    """As at a flip: both are the same learning rate but for rounding."""
    known = {"threshold": RateCrossing(0.5, "flip"), "onset": RateCrossing(0.5 * share)}
    equilibrium = SimpleNamespace(linear=SimpleNamespace(rate=lambda name, *_: known.get(name, RateCrossing(1.0))))
    (onset,) = predict_rows({1.0: equilibrium}, cells(1.0, 0.9, [1])).onset
    assert (onset.value is not None) is rings
