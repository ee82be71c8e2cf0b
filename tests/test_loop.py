"""The loop that differentiates a rule and an optimiser, against closed forms of `theory` and displaced runs.

One table: staleness rule x optimiser x estimator x sampler x 2, 3, 5 arms, three intervals each. The theory builds its
maps from the definition of each rule and knows no learner; a displaced run knows no matrix. Rules and optimisers of a
user's own are held against maps that are written out here.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from settings import cells, own

from bandit_lab import theory
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ESTIMATORS, OPTIMIZERS, SAMPLERS, STALENESS, Lag, Learner, MixedAges, Optimizer
from bandit_lab.loop import LARGEST_MAP, LinearRule, Reason, loop_of, response_of, unstable_intervals
from bandit_lab.measure import find_fixed_point, fresh_and_stale, generic_direction, growth_rate
from bandit_lab.simulation import check_drift

ARMS = {2: (0.9, 0.1), 3: (0.85, 0.5, 0.2), 5: (0.85, 0.7, 0.45, 0.3, 0.1)}
LOGITS = (0.0, 0.3, -0.2, 0.1, 0.4)
WEIGHTS = (0.5, 0.2, 0.3)
RULES = [name for name, rule in ((name, STALENESS[name]()) for name in own(STALENESS)) if not rule.drawn]
INTERVALS = {"ages": (1, 2, 4)}
MOMENTUM = {"sgd": 0.5, "sgd_ema": 0.9, "nesterov": 0.7}
EVERY = list(product(RULES, OPTIMIZERS, ESTIMATORS, SAMPLERS, ARMS))
KEPT = EVERY[::23]
"""23 divides the length of no axis: every value of each, and every pair of two, stands in it."""


def intervals(rule):
    return INTERVALS.get(rule, (1, 3, 8))


def staleness(name):
    return MixedAges(WEIGHTS) if name == "ages" else STALENESS[name]()


@cache
def rest(estimator, sampler, arms):
    """(learner, dynamics, fixed point, fresh, stale) on policy, or why there is none."""
    bandit = k_arm(ARMS[arms], reference_logits=LOGITS[:arms])
    options = {"estimator": ESTIMATORS[estimator](), "sampler": SAMPLERS[sampler](), "group_size": 4}
    try:
        trained, dynamics = Learner(bandit, **options), "finite_group"
        check_drift(trained, dynamics)
    except ValueError:
        dynamics = "mean_field"
    try:
        trained = Learner(bandit, **options)
        point = find_fixed_point(trained, dynamics, 1.5)
        return point.reason or (trained, dynamics, point, *fresh_and_stale(trained, dynamics, 1.5, point))
    except ValueError as error:
        return str(error)


def theirs(rule, optimizer, fresh, stale, momentum, interval):
    """The theory's loop, and its interval."""
    shares = WEIGHTS if rule == "ages" else (1.0,)
    convention = {"sgd": "heavy_ball", "sgd_ema": "ema"}.get(optimizer, optimizer)
    return theory.LinearLoop(fresh, stale, momentum, rule, convention, shares), interval


def learner_of(rule, optimizer, interval=1, trained=None):
    trained, model = Learner(two_arm()) if trained is None else trained, staleness(rule)
    changes = {
        "staleness": model,
        "optimizer": Optimizer(optimizer),
        "horizon": model.horizon_for(interval),
    }
    return replace(trained, **changes)


def nearly(one, other, allowed):
    """The same number, or 0 both, or none both."""
    assert (one is None) == (other is None)
    assert one is None or one == pytest.approx(other, rel=allowed, abs=1e-300)


def compared(loop, other, interval, allowed):
    """Threshold and its kind, onset, multiplier and spread."""
    exact = theory.first_unstable_learning_rate(other, interval)
    nearly(loop.threshold.value, exact.value, allowed)
    if not exact.value:
        return
    rate, noise = 0.6 * exact.value, np.eye(other.size) + 0.2
    assert loop.threshold.kind == exact.bifurcation.replace("fold", "flip")
    nearly(loop.onset.value, theory.first_oscillating_learning_rate(other, interval).value, allowed)
    radius = theory.spectral_radius(other, rate, interval)
    assert abs(loop.multipliers(rate)[0]) == pytest.approx(radius, rel=allowed)
    spread, expected = loop.spread(rate, noise), theory.stationary_covariance(other, rate, interval, noise)
    assert (spread.average is None) == (expected.average is None)
    if spread.average is not None:
        scale = 10 * allowed * np.abs(expected.average).max()
        np.testing.assert_allclose(spread.average / np.mean(loop.rule.noise), expected.average, rtol=0, atol=scale)


@pytest.mark.parametrize(
    ("rule", "optimizer", "estimator", "sampler", "arms"),
    [pytest.param(*one, marks=() if one in KEPT else pytest.mark.nightly) for one in EVERY],
)
def test_the_loop_is_the_theorys(rule, optimizer, estimator, sampler, arms):
    point = rest(estimator, sampler, arms)
    if isinstance(point, str):
        pytest.skip(point)
    trained, _, _, fresh, stale = point
    momentum = MOMENTUM[optimizer]
    for interval in intervals(rule):
        other = theirs(rule, optimizer, fresh, stale, momentum, interval)
        loop, reason = loop_of(learner_of(rule, optimizer, interval, trained), fresh, stale, momentum, interval)
        assert reason is None
        compared(loop, *other, 1e-9)


SMOOTH, ALONE = ("exact", "temperature", "logit_noise"), [name for name in ESTIMATORS if name not in ("tpo", "gspo")]
"""Samplers and estimators whose runs XLA compiles as one program of many lanes."""
GROWN = [
    ("refresh", "sgd", "ratio", "exact", 2),
    ("lag", "nesterov", "frozen", "temperature", 3),
    ("pipeline", "sgd_ema", "uncorrected", "exact", 5),
    ("ages", "sgd", "cispo", "exact", 3),
]


def near_threshold(loop, interval, momentum):
    """Two learning rates on either side of it, at which a run of `growth_rate` stays small: it grows e-fold at most."""
    steps, apart = 150 * (interval + 1 / (1 - momentum)), 5e-4
    growth = np.log(abs(loop.multipliers((1 + apart) * loop.threshold.value)[0])) / loop.rule.period
    apart *= min(1.0, 1 / (growth * steps))
    return loop.threshold.value * np.array([1 - apart, 1 + apart])


@pytest.mark.parametrize(
    "setting",
    [pytest.param(one, marks=() if one == GROWN[0] else pytest.mark.slow) for one in GROWN]
    + [
        pytest.param(one, marks=pytest.mark.nightly)
        for one in KEPT
        if one not in GROWN and one[3] in SMOOTH and one[2] in ALONE
    ],
)
def test_a_displaced_run_grows_as_the_largest_multiplier(setting):
    """On both sides of the threshold, a two-thousandth off it or less; a reading is good to 2e-4 per step."""
    rule, optimizer, estimator, sampler, arms = setting
    rest_point = rest(estimator, sampler, arms)
    if isinstance(rest_point, str):
        pytest.skip(rest_point)
    trained, dynamics, point, fresh, stale = rest_point
    momentum = MOMENTUM[optimizer]
    subject = learner_of(rule, optimizer, float(max(intervals(rule))), trained)
    loops = {n: loop_of(subject, fresh, stale, momentum, n)[0] for n in intervals(rule)}
    bounded = {n: loop for n, loop in loops.items() if loop.threshold.value}
    if not bounded:
        pytest.skip("stable at every learning rate, or repelled at every one")
    rates = np.concatenate([near_threshold(loop, n, momentum) for n, loop in bounded.items()])
    every = np.repeat(list(bounded), 2)
    grid = cells(rates, momentum, every, 1.5)
    theta = np.tile(point.theta, (len(rates), 1))
    seen = growth_rate(subject, dynamics, grid, theta, generic_direction(point.basis))
    expected = [
        np.log(abs(bounded[n].multipliers(r)[0])) / bounded[n].rule.period for n, r in zip(every, rates, strict=True)
    ]
    assert all((g > 0) == (place % 2 == 1) for place, g in enumerate(expected))
    np.testing.assert_allclose(seen, expected, atol=2e-4)


def drawn_matrices(generator):
    size = int(generator.integers(1, 5))
    fresh, stale = (generator.normal(size=(size, size)) for _ in range(2))
    fresh, stale = fresh @ fresh.T / size, generator.choice([0.3, 1.0]) * stale @ stale.T / size + 0.05 * np.eye(size)
    turned = 0.2 * np.triu(generator.normal(size=(size, size)), 1) if generator.random() < 0.3 else 0.0
    return fresh * generator.choice([0.0, 0.3, 1.0]), stale + turned


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_random_stiffness_matrices(seed):
    """40 a seed: symmetric or not, wholly stale or mixed, in all conventions. Found: 1e-13.

    Planted: one step more of age, in the theory's loop alone, is seen.
    """
    generator = np.random.default_rng(seed)
    for _ in range(40):
        fresh, stale = drawn_matrices(generator)
        rule, optimizer = (
            str(generator.choice(["refresh", "lag", "pipeline", "ages"])),
            str(generator.choice(list(OPTIMIZERS))),
        )
        momentum, interval = float(generator.choice([0.0, 0.3, 0.5, 0.9])), int(generator.choice([1, 2, 3, 5, 8]))
        loop, _ = loop_of(learner_of(rule, optimizer), fresh, stale, momentum, interval)
        other, _ = theirs(rule, optimizer, fresh, stale, momentum, interval)
        compared(loop, other, interval, 1e-9)
        if loop.threshold.value:
            with pytest.raises(AssertionError):
                compared(loop, other, interval + 1, 1e-9)


def test_another_modes_momentum_does_not_hide_the_mode_that_rings():
    """Three arms, uncorrected, pipeline: the stiffer mode's multiplier meets the softer mode's one of momentum at
    .0069566, is real again at .006966, and meets its own momentum's at .0069667.

    Planted: to look at the two largest multipliers alone, at a step of 5 %, gives .0078886.
    """
    subject = Learner(k_arm(ARMS[3]), estimator=ESTIMATORS["uncorrected"](), staleness=STALENESS["pipeline"]())
    point = find_fixed_point(subject, "mean_field", 1.0)
    fresh, stale = fresh_and_stale(subject, "mean_field", 1.0, point)
    loop, _ = loop_of(replace(subject, horizon=24), fresh, stale, 0.9, 12)
    other = theory.LinearLoop(fresh, stale, 0.9, "pipeline", "heavy_ball", (1.0,))
    assert loop.onset.value == pytest.approx(theory.first_oscillating_learning_rate(other, 12).value, rel=1e-10)
    complex_ones = [int(np.sum(loop.multipliers(loop.onset.value * x).imag != 0)) for x in (0.999999, 1.000001, 1.0015)]
    assert complex_ones == [0, 2, 2]
    late = loop.multipliers(0.0075)
    assert np.all(late[:2].imag == 0)
    assert np.all(late[2:4].imag != 0)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_ages_in_equal_shares_have_the_closed_form_at_every_length(momentum):
    """Ages 0 to N - 1, N from 2 to 40: at N = 12 and 16 an angle of the scan is a root to rounding."""
    stiffness = 0.14512
    for length in range(2, 41):
        parts = np.zeros((1, 1)), np.full((1, 1), stiffness)
        loop, _ = loop_of(learner_of("refresh", "sgd"), *parts, momentum, length)
        shares = np.full(length, 1 / length)
        value = replace(loop, rule=LinearRule.of_ages(shares)).threshold.value
        assert value * stiffness == pytest.approx(theory.averaged_ages_threshold(shares, momentum).kappa, rel=1e-10)


@pytest.mark.parametrize("model", ["refresh", "lag", "pipeline"])
@pytest.mark.parametrize(
    ("optimizer", "convention"), [("sgd", "heavy_ball"), ("sgd_ema", "ema"), ("nesterov", "nesterov")]
)
def test_one_stiffness_has_the_closed_forms(model, optimizer, convention):
    """To 1e-11, hundreds of steps of lag included; the law and the oscillator from the optimiser's own matrices."""
    for momentum, interval in product((0.0, 0.5, 0.97), (1, 2, 8, 40, 300)):
        loop, _ = loop_of(learner_of(model, optimizer), np.zeros((1, 1)), np.ones((1, 1)), momentum, interval)
        exact = theory.exact(model, interval, momentum, convention)
        assert loop.threshold.value == pytest.approx(exact.kappa, rel=1e-11)
        assert loop.threshold.kind == exact.bifurcation
        assert loop.onset.value == pytest.approx(
            theory.oscillation_onset(model, interval, momentum, convention), rel=1e-10
        )
        assert loop.undelayed.value == pytest.approx(theory.exact("refresh", 1, momentum, convention).kappa, rel=1e-11)
        law, inertia, ahead = loop.optimizer.inertia
        assert law / interval == pytest.approx(theory.leading_order(interval, momentum, convention), rel=1e-12)
        expected = theory.oscillator(0.3, momentum, 1.0, interval, convention)
        assert (inertia / 0.3, law / 0.3 - interval + ahead) == pytest.approx(
            (expected.mass, expected.damping), rel=1e-12
        )


@pytest.mark.parametrize("interval", [1, 2, 3, 8])
def test_a_cycle_counts_the_turns_within_a_period(interval):
    """As the theory counts them; a wholly fresh mode that changes sign at every step does so at every interval."""
    for share in (0.9, 1.0):
        parts = np.full((1, 1), share), np.full((1, 1), 1 - share)
        loop, _ = loop_of(learner_of("refresh", "sgd"), *parts, 0.3, interval)
        other, _ = theirs("refresh", "sgd", *parts, 0.3, interval)
        for rate in (0.02, 0.3, 1.5, 2.4):
            nearly(loop.cycle(rate), theory.period(other, rate, interval), 1e-9)
    assert loop.cycle(0.02) is None
    assert loop.cycle(2.4) == pytest.approx(2, rel=1e-9)
    for stiffness in ([0.4, 2.15], [2.15, 0.4]):  # under momentum all that ring decay alike: the stiffest is told
        parts, stiffest = (np.diag(stiffness), np.zeros((2, 2))), np.arccos((1.9 - 2.15) / (2 * np.sqrt(0.9)))
        loop, _ = loop_of(learner_of("refresh", "sgd"), *parts, 0.9, interval)
        assert loop.cycle(1.0) == pytest.approx(2 * np.pi / stiffest, rel=1e-9)
        assert theory.period(theirs("refresh", "sgd", *parts, 0.9, interval)[0], 1.0, interval) == pytest.approx(
            loop.cycle(1.0), rel=1e-9
        )


@pytest.mark.parametrize("draws_made", [1, 4])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_mean_square_of_drawn_ages_is_that_of_the_kronecker_square(draws_made, momentum):
    """The moment operator sum_k q_k A_k S A_k^T of one draw, written out; several draws by the theory's integral."""
    shares = (0.2, 0.3, 0.5)
    subject = Learner(two_arm(), staleness=STALENESS.build("ages", {"weights": list(shares), "draws": draws_made}))
    loop, _ = loop_of(subject, np.zeros((1, 1)), np.ones((1, 1)), momentum, 1)
    assert loop.draws == draws_made
    mean_square = loop.mean_square.value
    assert mean_square == pytest.approx(theory.drawn_ages_threshold(shares, momentum, draws_made), rel=1e-10)
    if draws_made == 1:
        square = np.zeros((16, 16))
        for age, share in enumerate(shares):
            step = np.eye(4, k=-1)
            step[:3] = 0.0
            step[2, 0] = 1.0
            step[1, 1], step[1, [0, 2, 3][age]] = momentum, step[1, [0, 2, 3][age]] - mean_square
            step[0] = step[1]
            step[0, 0] += 1
            square += share * np.kron(step, step)
        assert np.abs(np.linalg.eigvals(square)).max() == pytest.approx(1, abs=1e-9)


@dataclass(frozen=True)
class Late(Lag):
    """A refresh that is two steps late: the policy of the block's start acts from its third step on."""

    model = "late"
    smallest_interval = 1

    def period(self, interval):
        return interval

    def horizon_for(self, interval):
        return int(2 * interval)

    def behaviour(self, state, theta, step, interval, key=None):
        age = jnp.where(step % interval < 2, step % interval + interval, step % interval)
        return super().behaviour(state, theta, step, jnp.minimum(age, 2 * interval), key)


def test_an_onset_where_the_stale_stiffness_is_singular():
    """One step old, no momentum: x' = x - eta (F x + S y), y' = x. A multiplier falls to 0, where others always are, at
    1/eta an eigenvalue of F on what S does not feel. Before, no step was short enough to tell it from those.
    """
    fresh, felt = np.array([[0.36, 0.05, 0.04], [0.05, 0.34, 0.01], [0.04, 0.01, 0.40]]), np.array([[0.02, 0.03, 0.05]])
    loop, _ = loop_of(learner_of("pipeline", "sgd", 1), fresh, -felt.T @ felt, 0.0, 1)
    unfelt = np.linalg.svd(felt)[2][1:]
    assert loop.onset.value == pytest.approx(1 / np.linalg.eigvalsh(unfelt @ fresh @ unfelt.T)[-1], rel=1e-10)


def test_a_rule_of_ones_own_has_threshold_onset_and_spread():
    """The map over a block of 4 from the definition: ages 4, 5, 2, 3."""
    subject = Learner(two_arm(), staleness=Late(), optimizer=Optimizer("sgd"))
    loop, _ = loop_of(subject, np.zeros((1, 1)), np.ones((1, 1)), 0.5, 4)

    def one(age, kappa):
        step = np.eye(10, k=-1)
        step[:3] = 0.0
        step[2, 0] = 1.0
        place = 0 if age == 0 else age + 1
        step[1, 1] = 0.5
        step[1, place] -= kappa
        step[0] = step[1]
        step[0, 0] += 1
        return step

    def block(kappa):
        total = np.eye(10)
        for age in (4, 5, 2, 3):
            total = one(age, kappa) @ total
        return total

    assert np.abs(np.linalg.eigvals(block(loop.threshold.value))).max() == pytest.approx(1, abs=1e-10)
    assert np.abs(np.linalg.eigvals(block(0.99 * loop.threshold.value))).max() < 1
    tops = [np.linalg.eigvals(block(loop.onset.value * x)) for x in (0.999, 1.001)]
    tops = [top[np.argmax(np.abs(top))] for top in tops]
    assert tops[0].imag == 0
    assert tops[1].imag != 0
    kappa, state, average = 0.5 * loop.threshold.value, np.zeros((10, 10)), 0.0
    for at in range(4000):
        average = average + state[0, 0] / 4 if at >= 3996 else 0.0
        step = one((4, 5, 2, 3)[at % 4], kappa)
        state = step @ state @ step.T
        state[:2, :2] += kappa**2
    assert loop.spread(kappa, np.eye(1)).average[0, 0] == pytest.approx(average, rel=1e-9)


@dataclass(frozen=True)
class QuasiHyperbolic:
    """x' = x - eta ((1 - nu) g + nu v), v = mu v + (1 - mu) g."""

    share: float = 0.7
    convention: str = "quasi_hyperbolic"

    def build(self, learning_rate, momentum):
        ema = optax.ema(momentum, debias=False)

        def update(gradient, state, params=None):
            mean, state = ema.update(gradient, state)
            return -learning_rate * ((1 - self.share) * gradient + self.share * mean), state

        return optax.GradientTransformation(ema.init, update)


def test_an_optimiser_of_ones_own_has_threshold_law_and_spread():
    """On policy the pole at -1: eta K ((1 - nu) + nu (1 - mu)/(1 + mu)) = 2. Its mean step is that of eta."""
    mu, share = 0.8, 0.7
    subject = Learner(two_arm(), optimizer=QuasiHyperbolic(share))
    loop, _ = loop_of(subject, np.zeros((1, 1)), np.ones((1, 1)), mu, 1)
    assert loop.threshold.value == pytest.approx(2 / (1 - share + share * (1 - mu) / (1 + mu)), rel=1e-12)
    assert loop.optimizer.inertia[0] == pytest.approx(1, rel=1e-12)
    kappa, state = 0.4, np.zeros((2, 2))
    step = np.array([[1 - kappa * (1 - share + share * (1 - mu)), -kappa * share * mu], [1 - mu, mu]])
    kick = np.array([kappa * (1 - share + share * (1 - mu)), -(1 - mu)])
    for _ in range(3000):
        state = step @ state @ step.T + np.outer(kick, kick)
    assert loop.spread(kappa, np.eye(1)).average[0, 0] == pytest.approx(state[0, 0], rel=1e-10)


@dataclass(frozen=True)
class Averaged(Lag):
    """The average b' = 0.9 b + 0.1 x acts. Beside it the last parameters are kept, which forget a displacement."""

    model = "averaged"

    def period(self, interval):
        return 1

    def init(self, theta, horizon):
        return theta, theta

    def rewind(self, state, steps):
        return state

    def behaviour(self, state, theta, step, interval, key=None):
        mean = 0.9 * state[0] + 0.1 * theta
        return mean, (mean, theta)


def test_a_rule_that_never_forgets_and_an_optimiser_that_remembers_nothing():
    """x' = x - eta b, a map of determinant 0.9 and trace 1.9 - 0.1 eta: -1 is one multiplier at eta = 38, and two are
    the same at (19 - eta)^2 = 360.

    At once, x' = (1 - eta) x: complex nowhere, negative beyond 1, unstable beyond 2.
    """

    @dataclass(frozen=True)
    class Plain:
        convention: str = "plain"

        def build(self, learning_rate, momentum):
            return optax.scale(-learning_rate)

    nothing, one = np.zeros((1, 1)), np.ones((1, 1))
    loop, _ = loop_of(Learner(two_arm(), staleness=Averaged(), optimizer=Plain()), nothing, one, 0.0, 1)
    assert loop.threshold.value == pytest.approx(38, rel=1e-9)
    assert loop.onset.value == pytest.approx(19 - np.sqrt(360), rel=1e-9)
    at_once, _ = loop_of(Learner(two_arm(), staleness=Lag(), optimizer=Plain()), nothing, one, 0.0, 0)
    assert at_once.onset.value == pytest.approx(1, rel=1e-12)
    assert at_once.threshold.value == pytest.approx(2, rel=1e-12)


def test_an_optimiser_may_depend_on_the_learning_rate_as_it_likes():
    """Momentum that is eta itself: no step in proportion to it. The threshold solves eta K = 2 (1 + eta)."""

    @dataclass(frozen=True)
    class Own:
        convention: str = "own"

        def build(self, learning_rate, momentum):
            return optax.chain(optax.trace(decay=learning_rate), optax.scale(-learning_rate))

    loop, _ = loop_of(Learner(two_arm(), optimizer=Own()), np.zeros((1, 1)), 4 * np.ones((1, 1)), 0.0, 1)
    assert loop.optimizer.slope is not None
    assert loop.threshold.value == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", ["adam", "lion", "sign_sgd"])
def test_what_is_not_linear_is_refused(name):
    assert response_of(Optimizer(name), 0.9) is None


def test_what_cannot_be_said_has_its_reason():
    one, nothing = np.ones((1, 1)), np.zeros((1, 1))
    repelled, _ = loop_of(learner_of("refresh", "sgd"), nothing, -one, 0.5, 2)
    assert repelled.threshold == (0.0, None, Reason.REPELS)
    turning, _ = loop_of(learner_of("lag", "sgd"), np.zeros((2, 2)), np.array([[1.0, 0.5], [-0.5, 1.0]]), 0.5, 2)
    assert turning.onset == (0.0, None, Reason.COMPLEX)
    drawn = Learner(two_arm(), staleness=STALENESS["ages"](draws=1))
    assert loop_of(drawn, nothing, one, 0.5, 2.0)[1] is Reason.DRAWN
    long, _ = loop_of(learner_of("lag", "sgd"), nothing, one, 0.5, LARGEST_MAP)
    assert long.multipliers(1e-4) is Reason.TOO_LARGE
    assert long.threshold.value == pytest.approx(theory.exact("lag", LARGEST_MAP, 0.5).kappa, rel=1e-10)
    assert long.spread(1e-4, one).reason is Reason.TOO_LARGE
    beyond, _ = loop_of(learner_of("refresh", "sgd"), nothing, one, 0.0, 4)
    assert beyond.spread(0.6, one).reason is Reason.UNSTABLE
    overflows, _ = loop_of(learner_of("refresh", "sgd"), one, one, 0.0, 4)
    assert overflows.cycle(1e200) is None


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_unstable_lags_by_bisection_are_those_that_are_counted(optimizer, momentum):
    """Two stiffnesses, all stale: bisection on the threshold against roots counted at every lag. No kappa is 1 - mu,
    the threshold of lag 1, where rounding decides."""
    fresh, stale, unstable = np.zeros((2, 2)), np.diag([0.3, 0.1]), set()
    other, _ = theirs("lag", optimizer, fresh, stale, momentum, 1)
    for kappa in (0.003, 0.02, 0.12, 0.6, 5.0):
        seen = unstable_intervals(learner_of("lag", optimizer), fresh, stale, momentum, kappa / 0.3)
        counted = theory.islands(other, kappa / 0.3, 40)
        assert [(first, 40) for first, _ in seen.islands if first <= 40] == counted
        unstable.add(str(counted))
    assert len(unstable) >= 3


def test_multipliers_within_a_millionth_of_the_circle_are_counted():
    """A pair that crosses at the threshold of lag 8, fresh and stale: none before it, two behind it."""
    loop, _ = loop_of(learner_of("lag", "sgd", 8), 0.3 * np.ones((1, 1)), 0.7 * np.ones((1, 1)), 0.9, 8)
    assert [loop._outside(loop.threshold.value * (1 + 1e-6 * side)) for side in (-1, 1)] == [0, 2]


@pytest.mark.parametrize("rule", ["refresh", "pipeline", "lag"])
def test_islands_of_unstable_intervals(rule):
    """mu = 0.9, fresh 0.01, stale 0.8 of it: blocks of 30 to 43 steps alone. And two that do not commute."""
    one, two = np.array([[0.01]]), np.array([[0.3, 0.1], [0.1, 0.2]])
    for fresh, stale, rate in ((one, 0.8 * one, 1.0), (two, np.array([[0.2, 0.05], [0.05, 0.3]]), 1.1)):
        seen = unstable_intervals(learner_of(rule, "sgd"), fresh, stale, 0.9, rate)
        expected = theory.islands(theirs(rule, "sgd", fresh, stale, 0.9, 1)[0], rate, seen.searched)
        assert [tuple(one) for one in seen.islands] == expected
        assert seen.searched == (128 if rule == "lag" else 1024)
