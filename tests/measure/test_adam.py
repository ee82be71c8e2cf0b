"""Adaptive optimisers: the threshold with the second moment held, what noisy runs do instead, and the mean curve.

How good the predictions are (two arms, mean-only, Adam, beta_2 = .99 unless said):

- held second moment: the Floquet threshold is that of the preconditioned closed form to 1e-8. It scales as 1/sqrt(G).
- noisy runs are *not* unstable there. Their second moment includes their own fluctuation; at the held threshold the
  response after one period is -0.21 (N = 1) or -0.48 (N = 4), not -1. The self-consistent second moment predicts -0.24
  and -0.51, the second moment to 2 %, the spread of the parameters to 3 %. At twice the held threshold the second
  moment is off by 12 %: what is neglected is of order 1 - beta_2 over the margin to the stability boundary.
"""

import by_hand
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner, nightly_but

from bandit_lab import theory
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import Hyper, Optimizer, optimizer_names
from bandit_lab.measure import find_fixed_point
from bandit_lab.measure.frozen_moment import FrozenMomentState, freeze_second_moment, sampled_moment
from bandit_lab.measure.period_jacobian import floquet, floquet_threshold
from bandit_lab.simulation import drift_of
from experiments.shared.measure.adaptive import noisy_state
from experiments.shared.measure.response import mean_response
from experiments.shared.theory.adaptive import adam_mean_curve, adaptive_threshold, noise_second_moment

SUCCESS, KL_WEIGHT, BETA2 = (0.8, 0.3), 0.5, 0.99
FIVE = k_arm((0.85, 0.7, 0.45, 0.3, 0.1), reference_logits=(0.0, 0.3, -0.2, 0.1, 0.4))
ALONG = np.array([1.0, -1.0]) / np.sqrt(2)


def subject_of(size, optimizer="adam", bandit=None, staleness="refresh", **options):
    return learner(
        "dr_grpo",
        two_arm(SUCCESS) if bandit is None else bandit,
        staleness,
        optimizer=Optimizer(optimizer, tuple(options.items())),
        group_size=size,
    )


def predicted_split(size, bandit=None, kl_weight=KL_WEIGHT):
    """(Split, covariance [K, K]) of the frozen estimator at the fixed point, from the theory alone."""
    bandit = two_arm(SUCCESS) if bandit is None else bandit
    success, reference = (np.asarray(x)[0] for x in (bandit.law.means, np.exp(bandit.reference_log_policy)))
    signal = theory.BinarySignal(theory.GroupLaw("dr_grpo", size), tuple(success))
    point = theory.attracting_fixed_point(signal, reference, kl_weight)
    noise = theory.binary_covariance(signal.law, signal.means, point.policy)
    return theory.stiffness_split(signal, point.policy, kl_weight, "frozen"), noise


SETTINGS = [("five", "refresh", 4, 0.9)]
MORE = [("five", "lag", 3, 0.9), ("two", "refresh", 1, 0.0), ("two", "pipeline", 3, 0.5)]
SETTINGS += [pytest.param(*s, marks=pytest.mark.nightly) for s in MORE]


@pytest.mark.parametrize(("bandit", "model", "interval", "beta1"), SETTINGS)
@pytest.mark.usefixtures("compiled_quickly")
def test_held_threshold_is_the_preconditioned_closed_form(bandit, model, interval, beta1):
    """G = 8, unequal arms: second moments to 1e-9, the threshold to 1e-8; eps = 1e-3 counts."""
    bandit = FIVE if bandit == "five" else two_arm(SUCCESS)
    subject = subject_of(8, bandit=bandit, staleness=model, eps=1e-3)
    split, noise = predicted_split(8, bandit, 1.0)
    moment = noise_second_moment(noise)
    seen = floquet(subject, "finite_group", Hyper(0.01, beta1, interval, 1.0))
    np.testing.assert_allclose(seen.second_moment[0], moment, rtol=1e-9)
    assert seen.moment_source == "exact"
    threshold = floquet_threshold(subject, "finite_group", beta1, interval, 1.0)
    expected = adaptive_threshold(split, moment, model, interval, beta1, 1e-3)
    assert threshold.learning_rate == pytest.approx(expected.kappa, rel=1e-8)
    assert threshold.kind == expected.bifurcation


def test_an_infinite_group_has_no_second_moment():
    threshold = floquet_threshold(subject_of(8), "mean_field", 0.9, 4, KL_WEIGHT)
    assert threshold.learning_rate is None
    assert "no gradient noise" in threshold.reason


def test_roles_of_the_leaves():
    """First moments move, second moments are held, counters stand far out; nothing is known of any optimiser's name."""
    expected = {
        "adam": ["fixed", "moves", "second_moment"],
        "rmsprop": ["second_moment", "moves"],
        "sgd": ["moves"],
        "novograd": ["fixed", "moves", "second_moment"],
        "amsgrad": ["fixed", "moves", "second_moment", "second_moment"],
        "adabelief": ["fixed", "moves", "second_moment"],
        "lion": ["fixed", "moves"],
    }
    for name, roles in expected.items():
        second_moment, fixed = freeze_second_moment(Optimizer(name), 0.1, 0.9, 3)
        assert list(second_moment.roles) == roles, name
        assert [int(x) for x in fixed] == [2**30] * roles.count("fixed")


@pytest.mark.usefixtures("compiled_quickly")
def test_weight_decay_moves_the_fixed_point():
    """AdamW at rest: g = w theta (sqrt(E[g^2]) + eps), with E[g^2] = covariance (theory) + squared mean, to 1e-9.

    Planted: the covariance alone, as if the mean gradient vanished there, misses by more than 1e-6.
    """
    decay, subject = 0.2, subject_of(16, "adamw", weight_decay=0.2)
    rest = floquet(subject, "finite_group", Hyper(1e-3, 0.9, 2, KL_WEIGHT)).theta
    policy = np.exp(rest - np.logaddexp(*rest))
    noise = theory.binary_covariance(theory.GroupLaw("dr_grpo", 16), np.array(SUCCESS), policy)
    mean = np.asarray(drift_of(subject, "finite_group")(rest, rest, KL_WEIGHT))
    pull = decay * rest * (np.sqrt(np.diag(noise) + mean**2) + 1e-8)
    np.testing.assert_allclose(mean, pull, atol=1e-9)
    assert np.abs(mean - decay * rest * np.sqrt(np.diag(noise))).max() > 1e-6
    start = find_fixed_point(subject, "finite_group", KL_WEIGHT).theta
    assert np.ptp(start) - np.ptp(rest) > 0.03


WARN = ("optimistic_adam",)  # deprecated: optax warns


QUIET = [n for n in optimizer_names() if n not in WARN]


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but(("lion", "rmsprop"), QUIET))  # a reason, and multipliers
@pytest.mark.usefixtures("compiled_quickly")
def test_every_optimiser_gives_multipliers_or_a_reason(name):
    """With multipliers comes a threshold at which one of them has modulus 1."""
    subject = learner("dr_grpo", two_arm(SUCCESS), optimizer=Optimizer(name), group_size=16)
    linearised = floquet(subject, "finite_group", Hyper(1e-3, 0.9, 2, KL_WEIGHT))
    held = (
        linearised.second_moment if linearised.moment_source == "sampled" else None
    )  # sampling it again takes seconds
    limit = floquet_threshold(subject, "finite_group", 0.9, 2, KL_WEIGHT, second_moment=held)
    assert (linearised.reason is None) == (len(linearised.multipliers) > 0)
    if linearised.reason is None:
        assert limit.learning_rate > 0
        assert abs(limit.multiplier) == pytest.approx(1, abs=1e-8)
        assert linearised.moment_error < 0.02
    else:
        assert limit.learning_rate is None


@pytest.mark.parametrize(
    ("size", "interval", "beta1", "factor"),
    [
        (64, 4, 0.0, 1.0),
        pytest.param(256, 4, 0.0, 1.0, marks=pytest.mark.nightly),
        pytest.param(64, 1, 0.0, 1.0, marks=pytest.mark.nightly),
        pytest.param(256, 4, 0.9, 1.0, marks=pytest.mark.nightly),
        pytest.param(256, 4, 0.9, 2.0, marks=pytest.mark.nightly),
        pytest.param(256, 4, 0.0, 2.0, marks=pytest.mark.nightly),
    ],
)
def test_noisy_adam_responds_as_the_self_consistent_state_does(size, interval, beta1, factor):
    """At and beyond the held threshold: response after one period within 0.05 + 5 standard errors of the prediction,
    second moment (at the threshold) within 8 %, spread within 8 %. 1,024 seeds, seed 11; false alarm < 1e-6. At twice
    the threshold the prediction of the second moment is not good to 8 % (12 % off); its error is printed, not judged.

    Planted: the second moment held at the group noise alone (the naive prediction) is rejected by all three.
    """
    subject = subject_of(size, b2=BETA2)
    threshold = floquet_threshold(subject, "finite_group", beta1, interval, KL_WEIGHT).learning_rate
    hyper = Hyper(factor * threshold, beta1, interval, KL_WEIGHT)
    state = noisy_state(subject, "finite_group", hyper)
    plain = floquet(subject, "finite_group", hyper)
    burn_in = 600 // interval
    seen = mean_response(subject, hyper, plain.theta, 0.05 * ALONG, burn_in=burn_in, periods=4, seeds=1024, seed=11)
    off = seen.second_moment[0] / state.second_moment[0].mean() - 1
    print(f"G = {size}, N = {interval}, beta_1 = {beta1}, {factor} x threshold: second moment off by {off:.1%}")
    assert factor > 1 or abs(off) <= 0.08
    assert seen.second_moment[0] > 1.5 * plain.second_moment[0].mean()
    assert seen.spread == pytest.approx(np.sqrt(ALONG @ state.covariance @ ALONG), rel=0.08)

    def first_response(moment):
        split, _ = predicted_split(size)
        scale = 1 / (np.sqrt(moment[0][0]) + 1e-8)
        stiffness = scale * (ALONG @ split.total @ ALONG)
        loop = theory.LinearLoop(0.0, stiffness, beta1, "refresh", "ema")
        return loop.map(hyper.learning_rate, interval)[0, 0]

    allowed = 0.05 + 5 * seen.error[1]
    if beta1 == 0:
        assert abs(seen.value[1] - first_response(state.second_moment)) < allowed
        assert abs(seen.value[1] - first_response(plain.second_moment)) > allowed
        assert seen.value[1] > -0.95
    assert abs(seen.value[4]) < 1


def mean_curve(size, steps):
    law, uniform = theory.GroupLaw("dr_grpo", size), np.full(2, 0.5)
    return adam_mean_curve(law, SUCCESS, uniform, KL_WEIGHT, 0.01, steps, 0.9, BETA2)


def test_predicted_mean_curve_is_that_of_the_moments_of_every_batch():
    """Adam fed with the mean and E[g^2] over every batch of two answers, 60 steps: to 1e-12. Planted: G = 3."""
    chances = np.stack([1 - np.array(SUCCESS), SUCCESS], axis=-1)[None]
    policy, reference = by_hand.softmax_of_arms(2), np.log(np.full((1, 2), 0.5))
    hand = by_hand.Setting(policy, np.array([0.0, 1.0]), chances, reference, "dr_grpo", group_size=2)
    theta, m, v, path = np.zeros(2), 0.0, 0.0, [np.zeros(2)]
    for t in range(1, 61):
        mean, covariance = by_hand.moments(hand, theta, theta, KL_WEIGHT)
        m, v = 0.9 * m + 0.1 * mean, BETA2 * v + (1 - BETA2) * (mean**2 + np.diag(covariance))
        theta = theta + 0.01 * m / (1 - 0.9**t) / (np.sqrt(v / (1 - BETA2**t)) + 1e-8)
        path.append(theta)
    expected = by_hand.expected_reward(hand, np.array(path))
    np.testing.assert_allclose(mean_curve(2, 60), expected, rtol=0, atol=1e-12)
    assert np.abs(mean_curve(3, 60) - expected).max() > 1e-4


def test_error_of_a_sampled_second_moment_is_that_of_the_mean_over_chains():
    """v = .99 v + .01 g^2 of 40 standard normals, seed 0: the largest stated error over the spread of the 40 values.

    It is 1 to 2.7 (false alarm 1e-3, by simulation); without the root of 8 chains 2.8 and more.
    """

    def step(gradient, state):
        return FrozenMomentState((), (0.99 * state.second_moment[0] + 0.01 * gradient**2,), ())

    start = FrozenMomentState((), (jnp.ones(40),), ())
    seen = sampled_moment(step, start, lambda key: jax.random.normal(key, 40), jax.random.key(0))
    assert np.mean(seen.values[0]) == pytest.approx(1, abs=0.01)
    assert 1 < seen.relative_error / np.std(seen.values[0], ddof=1) < 2.7


@pytest.mark.nightly
def test_sampled_second_moment_states_its_error():
    """Adamax keeps a decaying maximum, which no average gives: measured at frozen parameters, stated error < 1 %.

    Checked against a second seed: |z| <= 5 (false alarm 6e-7).
    """
    subject, hyper = subject_of(16, "adamax"), Hyper(1e-3, 0.9, 2, KL_WEIGHT)
    first, second = (floquet(subject, "finite_group", hyper, seed=s) for s in (0, 1))
    assert first.moment_source == "sampled"
    assert 0 < first.moment_error < 0.01
    a, b = first.second_moment[0], second.second_moment[0]
    assert np.all(np.abs(a / b - 1) < 5 * np.hypot(first.moment_error, second.moment_error))
