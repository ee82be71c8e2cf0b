"""Every staleness model in every momentum convention, against the update itself carried out step by step.

The witness knows the three updates and the ages, and keeps all that is remembered as one vector. Its map over a period
is read off by stepping unit vectors. The tables of models and conventions are the package's own, so that a new one runs
through all of this.
"""

import numpy as np
import pytest

from bandit_lab.theory import oscillator
from bandit_lab.theory.ages import (
    averaged_ages_threshold,
    drawn_ages_threshold,
    in_turn,
    safe_by_largest_age,
)
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.conventions import CONVENTIONS, MODELS, block_sums, mean_age
from bandit_lab.theory.fluctuation import correlation, spectrum
from bandit_lab.theory.oscillator import poles
from bandit_lab.theory.random_ages import (
    averaged_threshold,
    geometric_weights,
    mean_square_map,
    mean_square_threshold,
)
from bandit_lab.theory.stability import first_unstable_learning_rate, spectral_radius, unstable_intervals
from bandit_lab.theory.stationary import stationary_covariance
from bandit_lab.theory.stiffness import Split
from bandit_lab.theory.thresholds import exact, leading_order, mean_age_law, oscillation_onset
from experiments.shared.theory.adaptive import adaptive_threshold, self_consistent_moment
from experiments.shared.theory.edge_of_stability import edge
from experiments.shared.theory.lyapunov import lyapunov_exponent
from experiments.shared.theory.release import discrete_response, pole_response
from experiments.shared.theory.size_family import time_constant
from experiments.shared.theory.slow_start import inertial_curve
from experiments.shared.theory.two_arm import effective_time

OLDEST = 60
"""Steps that drawn ages are remembered by the witness; mean age 1 leaves 2^-60 beyond."""
AGES = {
    "refresh": lambda t, n: [(t % n, 1.0)],
    "lag": lambda t, n: [(n, 1.0)],
    "pipeline": lambda t, n: [(t % n + n, 1.0)],
    "random": lambda t, n: [(k, (n / (1 + n)) ** k / (1 + n)) for k in range(OLDEST + 1)],
}


class Steps:
    """The update of n coordinates: memory is (velocity, position now, one step ago, ..., noise of the block)."""

    def __init__(self, fresh, stale, momentum, model, convention, interval):
        self.fresh, self.stale = np.atleast_2d(np.asarray(fresh, float)), np.atleast_2d(np.asarray(stale, float))
        self.n, self.mu, self.model, self.convention, self.interval = (
            len(self.stale),
            momentum,
            model,
            convention,
            interval,
        )
        self.past = OLDEST if model == "random" else 2 * interval + 1
        self.size = (self.past + 3) * self.n
        self.steps = interval if model in ("refresh", "pipeline") else 1

    def step(self, memory, t, rate, noise=0.0, reuse=False):
        """Memory [size, any] after the step at phase t."""
        parts = memory.reshape(self.past + 3, self.n, -1)
        velocity, places, reused = parts[0], parts[1:-1], parts[-1]
        reused = noise if not reuse or t % self.interval == 0 else reused
        old = sum(share * places[age] for age, share in AGES[self.model](t, self.interval))
        g = reused - self.fresh @ places[0] - self.stale @ old
        velocity = self.mu * velocity + (1 - self.mu if self.convention == "ema" else 1.0) * g
        now = places[0] + rate * (g + self.mu * velocity if self.convention == "nesterov" else velocity)
        reused = reused + np.zeros_like(now)
        return np.concatenate([[velocity], [now], places[:-1], [reused]]).reshape(self.size, -1)

    def matrix(self, t, rate, reuse=False):
        """One step without fresh noise [size, size]."""
        return self.step(np.eye(self.size), t, rate, 0.0, reuse)

    def kick(self, t, rate, reuse=False):
        """Response [size, n] to noise that is drawn at phase t."""
        return self.step(np.zeros((self.size, self.n)), t, rate, np.eye(self.n), reuse)

    def whole(self, rate):
        """The map of a period [size, size]."""
        total = np.eye(self.size)
        for t in range(self.steps):
            total = self.matrix(t, rate) @ total
        return total

    def multipliers(self, rate):
        """Largest modulus first."""
        values = np.linalg.eigvals(self.whole(rate))
        return values[np.argsort(-np.abs(values))]

    def position(self, state):
        """Its part [n, n] of a covariance [size, size]."""
        return state[self.n : 2 * self.n, self.n : 2 * self.n]

    def stationary(self, rate, noise, reuse, periods=400):
        """(covariance of the memory at a period's start, mean over the period of that of the position)."""
        state = np.zeros((self.size, self.size))
        maps = [self.matrix(t, rate, reuse) for t in range(self.steps)]
        kicks = [self.kick(t, rate, reuse) for t in range(self.steps)]
        for _ in range(periods):
            average = np.zeros((self.n, self.n))
            for t, (one, kick) in enumerate(zip(maps, kicks, strict=True)):
                average += self.position(state) / self.steps
                drawn = not reuse or t == 0
                state = one @ state @ one.T + (kick @ noise @ kick.T if drawn else 0.0)
        return state, average


def scalar(model, convention, interval, momentum):
    return Steps(0.0, 1.0, momentum, model, convention, interval)


LOOPS = [(model, convention) for model in MODELS for convention in CONVENTIONS]
every_loop = pytest.mark.parametrize(("model", "convention"), LOOPS)


@every_loop
@pytest.mark.parametrize(("interval", "momentum"), [(1, 0.9), (3, 0.5), (4, 0.0), (5, 0.9)])
def test_threshold_and_onset_are_those_of_the_steps(model, convention, interval, momentum):
    """|largest multiplier| is 1 to 1e-9 at the threshold, below it before; real and positive until the onset."""
    steps, kappa = scalar(model, convention, interval, momentum), exact(model, interval, momentum, convention).kappa
    assert abs(steps.multipliers(kappa)[0]) == pytest.approx(1, abs=1e-9)
    for share in np.geomspace(1e-3, 0.999, 25):
        assert abs(steps.multipliers(share * kappa)[0]) < 1
    onset = oscillation_onset(model, interval, momentum, convention)
    for rate, rings in ((onset * (1 - 1e-4), False), (onset * (1 + 1e-4), True)):
        top = steps.multipliers(rate)[0]
        assert (abs(top.imag) > 1e-7 or top.real < 0) == rings


@every_loop
def test_the_laws_are_the_limit_of_long_memory(model, convention):
    """(1 - mu)/mean age is exact as (1 - mu) * mean age -> 0: relative error of order 1 - mu. `leading_order` is the
    published law K eta N = 1 - mu, in every convention the total displacement under a constant gradient."""
    interval, slack = 6, 1e-4
    for momentum, error in ((1 - slack, 8 * slack), (1 - slack / 4, 2 * slack)):
        law = mean_age_law(model, interval, momentum, convention)
        steps = scalar(model, convention, interval, momentum)
        assert abs(steps.multipliers(law * (1 - 10 * error))[0]) < 1 - 1e-9 * error
        assert abs(steps.multipliers(law * (1 + 10 * error))[0]) > 1
    unit = 1 - 0.9 if convention == "ema" else 1.0
    assert leading_order(interval, 0.9, convention) * unit * interval == pytest.approx(1 - 0.9, rel=1e-12)


FRESH, STALE = np.array([[0.5, 0.1], [0.1, 0.3]]), np.array([[0.3, -0.2], [0.1, 0.4]])
NOISE, PROBE = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([1.0, -0.5])
EVERY = [(*loop, False) for loop in LOOPS] + [(m, c, True) for m in ("refresh", "pipeline") for c in CONVENTIONS]
EVERY += [("random", convention, False) for convention in CONVENTIONS]
"""(model, convention, batch reuse)."""


def at_work(model, convention):
    """(loop, its steps, learning rate, interval)."""
    interval, rate = (1 if model == "random" else 3), (0.2 if convention == "ema" else 0.1)
    loop = LinearLoop(FRESH, STALE, 0.5, model, convention)
    return loop, Steps(FRESH, STALE, 0.5, model, convention, interval), rate, interval


@pytest.mark.parametrize(("model", "convention"), [*LOOPS, *(("random", c) for c in CONVENTIONS)])
def test_growth_per_step_is_that_of_the_steps(model, convention):
    """Per map and per step, below and beyond the threshold; a lag or a drawn age has maps of one step."""
    loop, steps, rate, interval = at_work(model, convention)
    for faster in (1.0, 12.0):
        size = abs(steps.multipliers(faster * rate)[0])
        assert spectral_radius(loop, faster * rate, interval) == pytest.approx(size, rel=1e-7)
        per_step = spectral_radius(loop, faster * rate, interval, per_step=True)
        assert per_step == pytest.approx(size ** (1 / steps.steps), rel=1e-7)
        assert loop.steps_per_map(interval) == steps.steps


@pytest.mark.parametrize(("model", "convention", "reuse"), EVERY)
def test_the_stationary_state_is_that_of_the_steps(model, convention, reuse):
    """Covariance at block points and averaged, of position and velocity: to 1e-8."""
    loop, steps, rate, interval = at_work(model, convention)
    state, average = steps.stationary(rate, NOISE, reuse)
    covariance = stationary_covariance(loop, rate, interval, NOISE, reuse)
    np.testing.assert_allclose(covariance.covariance, steps.position(state), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(covariance.average, average, rtol=1e-8, atol=1e-10)
    velocity = covariance.state[2:4, 2:4]  # the loop's w is the learning rate times it
    np.testing.assert_allclose(velocity, rate**2 * state[:2, :2], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("model", "convention"), [*LOOPS, *(("random", c) for c in CONVENTIONS)])
def test_correlations_are_those_of_the_steps(model, convention):
    """Correlations, spectrum, decay of a block's points: to 1e-7, the decay to 1e-8."""
    loop, steps, rate, interval = at_work(model, convention)
    state, _ = steps.stationary(rate, NOISE, False)
    together = correlation(loop, rate, interval, NOISE, PROBE, 60)
    whole, carried, values = np.eye(steps.size), state, []
    for t in range(steps.steps):
        whole = steps.matrix(t, rate, False) @ whole
    for _ in range(400):
        values.append(PROBE @ steps.position(carried) @ PROBE)
        carried = whole @ carried
    values = np.array(values)
    np.testing.assert_allclose(together.autocovariance, values[:61], rtol=1e-7, atol=1e-9)
    assert together.integrated_time == pytest.approx(2 * values.sum() / values[0] - 1, rel=1e-7)
    size = abs(steps.multipliers(rate)[0])
    assert together.decay_time == pytest.approx(-steps.steps / np.log(size), rel=1e-8)
    angles = np.array([0.0, 0.7, 2.5])
    density = values[0] + 2 * np.cos(np.outer(angles, np.arange(1, 400))) @ values[1:]
    np.testing.assert_allclose(spectrum(loop, rate, interval, NOISE, PROBE, angles), density, rtol=1e-7)


@every_loop
def test_unstable_intervals_are_those_of_the_steps(model, convention):
    rate = 0.15 / (0.5 if convention == "ema" else 1.0)
    flags = unstable_intervals(LinearLoop(0.1, 0.9, 0.5, model, convention), rate, 12)
    first = 0 if model == "lag" else 1
    for interval, flag in enumerate(flags, first):
        size = abs(Steps(0.1, 0.9, 0.5, model, convention, interval).multipliers(rate)[0])
        assert flag == (size >= 1), interval
    assert flags.any()
    assert not flags.all()


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_averaged_ages_lose_stability_with_the_steps(convention):
    for mean, momentum in ((1, 0.0), (1, 0.9)):
        kappa = averaged_threshold(mean, momentum, convention).kappa
        steps = Steps(0.0, 1.0, momentum, "random", convention, mean)
        assert abs(steps.multipliers(kappa)[0]) == pytest.approx(1, abs=1e-7)
        assert abs(steps.multipliers(0.97 * kappa)[0]) < 1
        loop = LinearLoop(0.0, 1.0, momentum, "random", convention)
        assert first_unstable_learning_rate(loop, mean).value == pytest.approx(kappa, rel=1e-9)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_poles_and_the_time_constant_are_those_of_the_steps(convention):
    """On policy; the slow pole is 1 - 1/tau to first order in the learning rate."""
    steps = scalar("lag", convention, 0, 0.8)
    pairs = (steps.multipliers(0.3)[:2], poles(0.3, 0.8, convention))
    np.testing.assert_allclose(*(np.poly(pair).real for pair in pairs), atol=1e-12)
    slow = steps.multipliers(1e-5)[0].real
    assert -1 / np.log(slow) == pytest.approx(time_constant(1.0, 1e-5, 0.8, convention), rel=1e-3)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_the_damping_of_the_oscillator_is_that_of_the_steps(convention, lag):
    """Its two rates add up to damping over mass. That of the two slow multipliers, over the learning rate, is to first
    order in 1 - mu: -lag of the stiffness, and for Nesterov + mu. The sum is linear in the stiffness at small steps:
    it is compared through its slope, to 1 %."""
    momentum = 0.998
    rate, gain = 1e-8, (1 - momentum if convention == "ema" else 1.0)
    sums = []
    for stiffness in (0.5, 1.0):
        steps = Steps(0.0, stiffness, momentum, "lag", convention, lag)
        sums.append(-np.log(np.prod(steps.multipliers(rate / gain)[:2])).real)
    oscillators = [oscillator(rate / gain, momentum, k, float(lag), convention) for k in (0.5, 1.0)]
    predicted = [float(osc.damping / osc.mass) for osc in oscillators]
    slope = (predicted[1] - predicted[0]) / (0.5 * rate)
    assert (sums[1] - sums[0]) / (0.5 * rate) == pytest.approx(slope, abs=0.03)
    assert slope == pytest.approx((-lag + (momentum if convention == "nesterov" else 0)) / momentum, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_lyapunov_exponent_and_its_error_are_those_of_many_runs(convention):
    """60 estimates of 16 chains and 1,600 steps (seeds 0 to 59). Their scatter over the stated error is 1 within 5
    standard errors of a scatter of 60, 5/sqrt(118); their mean is that of 400 runs of the update itself, |z| <= 5.

    Planted: errors that divide by the number of chains, or by its root less one, are off by more.
    """
    kappa, momentum, weights = 0.5 / (0.5 if convention == "ema" else 1.0), 0.5, geometric_weights(1.0, 8)
    options = {"steps": 1600, "chains": 16}
    estimates = [lyapunov_exponent(kappa, weights, momentum, convention, **options, seed=s) for s in range(60)]
    values, errors = np.array([one.value for one in estimates]), np.array([one.standard_error for one in estimates])
    allowed = 5 / np.sqrt(118)
    ratio = values.std(ddof=1) / np.sqrt(np.mean(errors**2))
    assert ratio == pytest.approx(1, abs=allowed)
    assert abs(ratio * np.sqrt(16) - 1) > allowed
    rng, runs, warm, count = np.random.default_rng(1), 400, 100, 700
    past, velocity, grown = np.ones((9, runs)), np.zeros(runs), np.zeros(runs)
    for t in range(warm + count):
        age = rng.choice(9, p=weights, size=runs)
        g = -past[age, np.arange(runs)]
        velocity = momentum * velocity + (1 - momentum if convention == "ema" else 1.0) * g
        now = past[0] + kappa * (g + momentum * velocity if convention == "nesterov" else velocity)
        past = np.concatenate([[now], past[:-1]])
        size = np.sqrt((past**2).mean(0) + (kappa * velocity) ** 2)
        past, velocity = past / size, velocity / size
        grown += np.log(size) if t >= warm else 0.0
    grown = grown / count
    error = np.hypot(grown.std(ddof=1) / np.sqrt(runs), values.std(ddof=1) / np.sqrt(len(values)))
    assert abs(grown.mean() - values.mean()) <= 5 * error


@every_loop
def test_a_complex_stiffness_loses_stability_with_the_steps(model, convention):
    """|l| e^{+-i phi} as a turned and stretched plane: |largest multiplier| is 1 at the threshold, below it before."""
    angle, interval, momentum = 0.4, 3, 0.6
    plane = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    steps = Steps(0 * plane, plane, momentum, model, convention, interval)
    kappa = exact(model, interval, momentum, convention, angle).kappa
    assert abs(steps.multipliers(kappa)[0]) == pytest.approx(1, abs=1e-9)
    assert all(abs(steps.multipliers(share * kappa)[0]) < 1 for share in (0.1, 0.5, 0.99))


@every_loop
def test_the_edge_and_adam_are_those_of_the_steps(model, convention):
    """`edge` is the stiffness at a learning rate; Adam's threshold is that of the preconditioned average."""
    stiffness = edge(model, 3, 0.5, 0.2, convention)
    steps = Steps(0.0, stiffness, 0.5, model, convention, 3)
    assert abs(steps.multipliers(0.2)[0]) == pytest.approx(1, abs=1e-9)
    pull, moment = np.array([[0.4, -0.4], [-0.4, 0.4]]), np.array([0.3, 0.8])
    threshold = adaptive_threshold(Split(0 * pull, pull), moment, model, 3, 0.5, 0.01)
    scaled = pull / (np.sqrt(moment) + 0.01)[:, None]
    others = np.sort(np.abs(Steps(0 * pull, scaled, 0.5, model, "ema", 3).multipliers(threshold.kappa)))[::-1]
    np.testing.assert_allclose(others[:2], 1, atol=1e-7)  # the direction that changes nothing, and the edge


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [0.5, 2.0])
def test_the_self_consistent_moment_is_that_of_the_steps(model, batch):
    """v = diag(C + H S H^T) with the covariance S of the steps at v; at both learning rates, to 1e-6."""
    pull, noise, interval = np.array([[0.4, -0.4], [-0.4, 0.4]]), 0.3 * np.array([[1.0, -1.0], [-1.0, 1.0]]), 3
    split = Split(0 * pull, pull)
    rate = 0.4 * batch * adaptive_threshold(split, np.diag(noise), model, interval, 0.5).kappa
    moment = self_consistent_moment(split, noise, rate, interval, model, 0.5)
    scale = np.diag(1 / (np.sqrt(moment) + 1e-8))
    state, _ = Steps(0 * pull, scale @ pull, 0.5, model, "ema", interval).stationary(
        rate, scale @ noise @ scale, False, 2000
    )
    seen = Steps(0 * pull, pull, 0.5, model, "ema", interval).position(state)
    np.testing.assert_allclose(moment, np.diag(noise + pull @ seen @ pull.T), rtol=1e-6)
    assert np.all(moment > 1.02 * np.diag(noise))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_mean_square_of_geometric_ages_by_their_map_and_by_ages_up_to_40(convention):
    """The map has the eigenvalue 1 at the threshold; the rest of the law, beyond age 40, has a chance of 5e-13."""
    momentum = 0.5
    critical = mean_square_threshold(1.0, momentum, convention)
    assert np.abs(np.linalg.eigvals(mean_square_map(critical, 1.0, momentum, convention))).max() == pytest.approx(1)
    drawn = drawn_ages_threshold(geometric_weights(1.0, 40), momentum, 1, convention)
    assert drawn == pytest.approx(critical, rel=1e-6)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_responses_are_the_steps(convention):
    """From rest, on policy: exact for the discrete ones; for the second-order flow to the learning rate. Under a
    constant force the effective time is the displacement, less what inertia keeps back."""
    momentum, rate = 0.8, 0.02
    eta = rate / (0.2 if convention == "ema" else 1.0)
    steps = scalar("lag", convention, 0, momentum)
    memory, path = np.zeros((steps.size, 1)), [1.0]
    memory[1] = 1.0
    for _ in range(40):
        memory = steps.step(memory, 0, eta)
        path.append(memory[1, 0])
    np.testing.assert_allclose(discrete_response(40, eta, momentum, convention), path, atol=1e-12)
    poled = [pole_response(t, eta, momentum, convention) for t in range(41)]
    np.testing.assert_allclose(poled, path, atol=1e-9)
    memory, slow = np.zeros((steps.size, 1)), [1.0]
    memory[1] = 1.0
    for _ in range(2000):
        memory = steps.step(memory, 0, eta / 20)
        slow.append(memory[1, 0])
    flow = inertial_curve(lambda x: -x, 1.0, np.arange(2001), eta / 20, momentum, convention)
    np.testing.assert_allclose(flow, slow, atol=0.01)
    drift = Steps(0.0, 0.0, momentum, "lag", convention, 0)
    memory = np.zeros((drift.size, 1))
    for _ in range(2000):
        memory = drift.step(memory, 0, eta, 1.0)
    assert effective_time(2000, eta, momentum, convention) == pytest.approx(memory[1, 0], rel=5e-3)


@every_loop
def test_sums_of_a_block_are_those_of_the_steps(model, convention):
    """Displacement under a gradient that stands still over a block, from rest and from a velocity."""
    n, momentum = 4, 0.7
    sums, unit = block_sums(n, momentum, convention), 0.3 if convention == "ema" else 1.0
    drift = Steps(0.0, 0.0, momentum, model, convention, n)
    memory = np.zeros((drift.size, 2))
    memory[0, 1] = 1.0
    for t in range(n):
        memory = drift.step(memory, t, 1.0, np.array([[1.0, 0.0]]))
    assert memory[1] == pytest.approx([unit * sums.drift, sums.carry])
    assert memory[0] == pytest.approx([unit * sums.push, sums.decay])
    ages = [sum(age for age, _ in AGES[model](t, n)) for t in range(n)]
    assert mean_age(model, n) == pytest.approx(np.mean(ages))


def stepped(shares, kappa, momentum, convention):
    """Step matrices of the ages 0, 1, ... on (x, w, x_{t-1}, ...), and of their average, written out by hand."""
    size, gain = len(shares) + 1, 1 - momentum if convention == "ema" else 1.0
    curve = []
    for age in range(len(shares)):
        one = np.zeros((size, size))
        one[1, 1] = momentum
        one[1, 0 if age == 0 else age + 1] -= kappa * gain
        one[0] = one[1] if convention != "nesterov" else momentum * one[1]
        one[0, 0] += 1
        if convention == "nesterov":
            one[0, 0 if age == 0 else age + 1] -= kappa
        if size > 2:
            one[2, 0] = 1
        for k in range(3, size):
            one[k, k - 1] = 1
        curve.append(one)
    return curve, sum(share * one for share, one in zip(shares, curve, strict=True))


def largest(matrix):
    return np.abs(np.linalg.eigvals(matrix)).max()


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_thresholds_of_ages_are_where_their_steps_stop_to_decay(convention):
    """Averaged, drawn one or three at a time, constant, in turn; 1e-6 below and above each threshold."""
    shares, momentum = (0.5, 0.2, 0.3), 0.6

    def mean(weights, kappa):
        return largest(stepped(weights, kappa, momentum, convention)[1])

    def square(kappa, draws):
        each, average = stepped(shares, kappa, momentum, convention)
        spread = sum(share * np.kron(one, one) for share, one in zip(shares, each, strict=True))
        return largest((spread + (draws - 1) * np.kron(average, average)) / draws)

    averaged = averaged_ages_threshold(shares, momentum, convention).kappa
    assert mean(shares, averaged * (1 - 1e-6)) < 1 < mean(shares, averaged * (1 + 1e-6))
    bound = safe_by_largest_age(2, momentum, convention)
    assert mean((0, 0, 1), bound * (1 - 1e-6)) < 1 < mean((0, 0, 1), bound * (1 + 1e-6))
    mixed = in_turn(3, momentum, convention) * exact("refresh", 3, momentum, convention).kappa
    assert mean((1 / 3,) * 3, mixed * (1 - 1e-6)) < 1 < mean((1 / 3,) * 3, mixed * (1 + 1e-6))
    for draws in (1, 3):
        drawn = drawn_ages_threshold(shares, momentum, draws, convention)
        assert square(drawn * (1 - 1e-6), draws) < 1 < square(drawn * (1 + 1e-6), draws)
