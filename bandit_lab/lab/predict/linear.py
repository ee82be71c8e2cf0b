"""Where the theory meets a learner: a learner's numbers become a linear loop, and a loop becomes predictions.

`theory` knows no learner and the learner knows no theory; this file hands the numbers over. The fixed point and its
stiffness come in closed form where there is one, else from root finding and automatic differentiation of the drift.
"""

import math
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np

from bandit_lab import theory
from bandit_lab.app.result import Value
from bandit_lab.app.settings.config import Settings
from bandit_lab.bandits import TabularBandit
from bandit_lab.bandits.sequence import SequenceBandit
from bandit_lab.grpo import (
    K3,
    Exact,
    Learner,
    LogitNoise,
    Masked,
    OwnLaw,
    Temperature,
    Truncated,
    averages,
    draws,
    resampled,
)
from bandit_lab.grpo.shift import weighs_groups
from bandit_lab.loop import (
    LinearRule,
    Loop,
    RateCrossing,
    Reason,
    drawn_loop_of,
    filter_of,
    loop_of,
    no_loop,
    response_of,
    spectrum,
)
from bandit_lab.measure.fixed_point import FixedPoint, critical_kl_weight, find_fixed_point
from bandit_lab.measure.stiffness import fresh_and_stale
from bandit_lab.simulation import drift_name
from bandit_lab.simulation.group_moment import group_moments
from bandit_lab.theory.signal import Signal
from bandit_lab.theory.stiffness import ESTIMATORS

ESTIMATORS_KNOWN = (*ESTIMATORS, "clipped", "clip_higher", "cispo")  # clips do nothing near a fixed point
KL_KNOWN: dict[type, str] = {Exact: "exact", K3: "k3"}
DRAWN = str(Reason.DRAWN)
NO_INTERVAL = "the law has one interval, not ages"
TURNING = (
    "neutral directions of this policy turn with its parameters, and its stiffness depends on where along them a run "
    "rests: the numbers are those of the point that small learning rates lead to"
)
NOT_STATIONARY = "no stationary state"
MOST_ANSWERS = 64
"""Up to which critical KL weights of many answers are followed: some seconds."""
_SAME_SPACE = 1e-9
_AT_REST = 1e-10
"""Drift, reward per logit, up to which a point is one where it vanishes, and not one where it jumps across 0."""


@dataclass(frozen=True)
class RateThreshold(Value):
    """A learning rate from which on something happens, or the reason why there is none.

    bifurcation: how stability is lost there, where that is known. note: why it is 0, where it is.
    """

    bifurcation: str | None = field(default=None, kw_only=True)
    note: str = field(default="", kw_only=True)

    @classmethod
    def at(cls, crossing: RateCrossing) -> "RateThreshold":
        """The result of a search of the loop."""
        said = "" if crossing.reason is None else str(crossing.reason)
        return cls.absent(said) if crossing.value is None else cls(crossing.value, bifurcation=crossing.kind, note=said)


@dataclass(frozen=True, eq=False)
class LinearTheory:
    """One drift at one KL weight near its fixed point.

    policy [K], expected_reward: the fixed point, or None with `reason` and the least KL weight that has one. slides:
    whether the mean update jumps across 0 there. policies [X, K]: of every prompt, `policy` the first of them. fresh,
    stale: [R, R] stiffness in reward per logit^2, in a basis of the directions that change the policy. closed_form:
    whether they come from a formula. note: what to know beside the numbers.
    """

    drift: str
    dynamics: str
    kl_weight: float
    learner: Learner
    convention: str
    slides: bool = False
    policy: np.ndarray | None = None
    expected_reward: float | None = None
    fresh: np.ndarray | None = None
    stale: np.ndarray | None = None
    closed_form: bool = False
    reason: str | None = None
    critical_kl_weight: float | None = None
    policies: np.ndarray | None = None
    note: str | None = None
    _loops: dict[tuple[float, float], Loop] = field(default_factory=dict, repr=False)

    @property
    def drawn(self) -> bool:
        """Whether an age is drawn at every step."""
        return draws(self.learner.staleness)

    @property
    def spectrum(self) -> np.ndarray:
        """Eigenvalues [R] of fresh + stale, largest real part first, real where they are."""
        fresh, stale = self.parts
        return spectrum(fresh + stale)

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """(fresh, stale) [R, R] where there is a fixed point."""
        assert self.fresh is not None
        assert self.stale is not None
        return self.fresh, self.stale

    @property
    def largest(self) -> float:
        """The largest stiffness, K of the law."""
        return float(self.spectrum[0].real)

    @property
    def wholly_stale(self) -> bool:
        """Whether every mode obeys the scalar closed forms: nothing fresh, real positive stiffnesses."""
        return bool(np.all(self.fresh == 0)) and np.isrealobj(self.spectrum) and bool(self.spectrum[-1] > 0)

    @property
    def turning(self) -> np.ndarray:
        """The complex stiffnesses [.] of a drift that is no gradient, those with positive imaginary part."""
        values = self.spectrum
        return values[values.imag > 0] if np.iscomplexobj(values) else np.empty(0, complex)

    def unsupported_reason(self) -> str | None:
        """The reason why thresholds cannot be predicted, or None."""
        if self.policy is None:
            return self.reason
        rule = self.learner.staleness
        found = no_loop(self.learner, max(rule.smallest_interval, 1))
        if found is Reason.NOT_LINEAR:
            return f"no linear theory of the optimiser {self.convention}"
        return None if found is None else str(found)

    def loop(self, momentum: float, interval: float) -> Loop:
        """The linear loop, where there is one: `drawn` ages are averaged."""
        if (interval, momentum) not in self._loops:
            arguments = (self.learner, *self.parts, momentum, interval)
            drawn = drawn_loop_of(*arguments)
            found = loop_of(*arguments)[0] if drawn is None else drawn[0]
            assert found is not None
            self._loops[interval, momentum] = found
        return self._loops[interval, momentum]

    @property
    def given_ages(self) -> bool:
        """Whether the rule has a distribution of ages in whole steps: a mean and a largest, not one interval."""
        rule = self.learner.staleness
        return rule.whole_interval and (averages(rule) or self.drawn)

    def law(self, interval: float, momentum: float) -> RateThreshold:
        """Leading-order learning rate: K eta N = 1 - mu in the heavy-ball convention, by the optimiser's mean step."""
        if reason := self.unsupported_reason():
            return RateThreshold.absent(reason)
        if self.largest <= 0:
            return RateThreshold.absent(str(Reason.REPELS))
        if self.given_ages:
            return RateThreshold.absent(NO_INTERVAL)
        rate = self.inertia(momentum)[0] / (interval * self.largest) if interval else None
        return RateThreshold.of(rate, "the law has no bound at refresh interval 0")

    def inertia(self, momentum: float) -> tuple[float, float, float]:
        """`Response.inertia` of the optimiser, which must be linear."""
        found = response_of(self.learner.optimizer, momentum)
        assert found is not None
        return found.inertia

    def threshold(self, interval: float, momentum: float) -> RateThreshold:
        """First learning rate that loses stability, exactly; with drawn ages that of the mean square."""
        if self.drawn and self.policy is not None:
            found = self.mean_square(interval, momentum)
            return RateThreshold.absent(DRAWN) if found.value is None else RateThreshold(found.value)
        if reason := self.unsupported_reason():
            return RateThreshold.absent(reason)
        return RateThreshold.at(self.loop(momentum, interval).threshold)

    def mean_square(self, interval: float, momentum: float) -> RateCrossing:
        """The learning rate at which the mean square stops decaying, with drawn ages; with averaged ones, if one were
        drawn."""
        found = drawn_loop_of(self.learner, *self.parts, momentum, interval)
        if found is None and not self.given_ages:
            return RateCrossing(None, None, Reason.COUPLED)
        loop, number = found or (self.loop(momentum, interval), 1)
        return loop.mean_square(number)

    def onset(self, interval: float, momentum: float) -> RateThreshold:
        """Smallest learning rate at which a mode rings, the first that does: its multiplier is complex or negative.

        0, with the reason, where a stiffness is complex: its multipliers never are.
        """
        if reason := self.unsupported_reason():
            return RateThreshold.absent(reason)
        return RateThreshold.at(self.loop(momentum, interval).onset._replace(kind=None))

    def lag(self, interval: float, momentum: float) -> float:
        """Lag of the leading-order oscillator [steps]: the refresh interval, or the mean of given ages."""
        return self.mean_age(interval, momentum) if self.given_ages else interval

    def mean_age(self, interval: float, momentum: float) -> float:
        """Of the policy that acts [steps]."""
        return float(self.loop(momentum, interval).rule.ages.mean())

    def oscillator(self, rate: float, momentum: float, lag: float) -> theory.Oscillator:
        """Mass M/eta and damping A/eta - K (lag - a) of the stiffest mode, by the optimiser's matrices."""
        law, inertia, ahead = self.inertia(momentum)
        damping = law / rate - self.largest * (lag - ahead)
        return theory.Oscillator(inertia / rate, damping, self.largest, self.convention)

    def oscillator_onset(self, interval: float, momentum: float) -> RateThreshold:
        """Learning rate at which the leading-order oscillator (lag N) stops being overdamped.

        gamma^2 = 4 m lambda with gamma = A/eta - lambda n, m = M/eta (n = N - a): the smaller root of
        (A - kappa n)^2 = 4 M kappa, kappa = A^2/(A n + 2 M + 2 sqrt(M^2 + M A n)). Derived here; at mu = 0 it is the
        law kappa N = 1.
        """
        if reason := self.unsupported_reason():
            return RateThreshold.absent(reason)
        if self.largest <= 0:
            return RateThreshold.absent(str(Reason.REPELS))
        if self.given_ages:
            return RateThreshold.absent(NO_INTERVAL)
        law, inertia, ahead = self.inertia(momentum)
        lag = interval - ahead
        inside = inertia**2 + inertia * law * lag
        if inside < 0 or (bottom := law * lag + 2 * inertia + 2 * math.sqrt(inside)) <= 0:
            return RateThreshold.absent("the oscillator is overdamped at every learning rate")
        return RateThreshold(law**2 / bottom / self.largest)

    def undelayed(self, momentum: float) -> RateThreshold:
        """Learning rate at which the stiffest mode flips on policy."""
        if reason := self.unsupported_reason():
            return RateThreshold.absent(reason)
        if self.largest <= 0:
            return RateThreshold.absent(str(Reason.REPELS))
        return RateThreshold(self.on_policy(momentum) / self.largest)

    def on_policy(self, momentum: float) -> float:
        """kappa = learning rate times stiffness at which one mode flips where no policy is old."""
        return self.constant_age(0, momentum)

    def constant_age(self, age: int, momentum: float) -> float:
        """kappa at which one mode loses stability where every policy is `age` steps old."""
        shares = np.eye(age + 1)[age]
        rule = LinearRule(((filter_of(shares), 1),), shares, (1.0,))
        optimizer = response_of(self.learner.optimizer, momentum)
        assert optimizer is not None
        found = Loop(np.zeros((1, 1)), np.ones((1, 1)), rule, optimizer, age).threshold
        return found.value or math.inf


def signal_of(learner: Learner, settings: Settings, dynamics: str) -> Signal | None:
    """The theory's view of a learner's reward, or None where the theory has no closed form for it."""
    bandit, rule, name = learner.bandit, learner.advantage, settings.advantage["name"]
    if type(bandit) is not TabularBandit or name not in theory.ADVANTAGES:
        return None
    values, chances = np.asarray(bandit.law.values), np.asarray(bandit.law.probabilities)[0]
    options = vars(rule)
    eps, power = float(options.get("eps", 0.0)), float(options.get("power", 0.5))
    size = None if dynamics == "mean_field" else learner.group_size
    if np.array_equal(values, [0.0, 1.0]):
        told_apart = 0 < options.get("threshold", 0.5) < 1
        law = theory.GroupLaw(name, size, eps, int(options.get("ddof", 0)), power)
        return theory.BinarySignal(law, tuple(chances[:, 1])) if told_apart else None
    if size is not None or name not in theory.MOMENT_ADVANTAGES:
        return None
    means = chances @ values
    return theory.MomentSignal(tuple(means), tuple(chances @ values**2 - means**2), name, eps, power)


def linearise(
    learner: Learner, settings: Settings, dynamics: str, kl_weight: float, point: FixedPoint | None = None
) -> LinearTheory:
    """The fixed point and stiffness of a drift: closed form if there is one, else measured; `point`: what was found."""
    signal = signal_of(learner, settings, dynamics)
    known = settings.estimator["name"] in ESTIMATORS_KNOWN and type(learner.kl_estimator) in KL_KNOWN
    arms = two_arms_of(learner, settings, dynamics) if settings.estimator["name"] == "frozen" else None
    if arms is not None and (found := _of_two_arms(arms, learner, settings, dynamics, kl_weight)) is not None:
        return found
    if signal is None or not known or learner.entropy_weight or resampled(learner):
        return measured_linear(learner, settings, dynamics, kl_weight, point)
    blank = _blank(learner, settings, dynamics, kl_weight)
    reference = np.exp(np.asarray(learner.bandit.reference_log_policy)[0])
    start = np.exp(np.asarray(learner.bandit.log_policy(learner.bandit.initial_parameters))[0])
    kind = KL_KNOWN[type(learner.kl_estimator)]
    rest = theory.attracting_fixed_point(signal, reference / reference.sum(), kl_weight, start / start.sum(), kind)
    if rest is None:
        critical = theory.critical_kl_weight(signal, reference / reference.sum(), kind)
        reason = "no interior fixed point is reached from the initial policy: it runs to a vertex"
        return replace(blank, reason=reason, critical_kl_weight=critical if kl_weight > 0 or critical else None)
    split = theory.stiffness_split(signal, rest.policy, kl_weight, settings.estimator["name"], kind)
    fresh, stale = split.reduced()
    return replace(
        blank,
        policy=rest.policy,
        policies=rest.policy[None],
        expected_reward=rest.expected_reward,
        fresh=fresh,
        stale=stale,
        closed_form=True,
    )


def _of_two_arms(
    arms: "theory.SampledTwoArms", learner: Learner, settings: Settings, dynamics: str, kl_weight: float
) -> LinearTheory | None:
    """The same of two arms that another law draws, wholly stale; None without a fixed point that has a stiffness."""
    start = np.asarray(learner.bandit.log_policy(learner.bandit.initial_parameters))[0]
    gap = arms.rest(kl_weight, float(start[0] - start[1]))
    if gap is None or abs(float(arms.drift(np.asarray(gap), kl_weight))) > _AT_REST:
        return None
    policy = 1 / (1 + np.exp([-gap, gap]))
    return replace(
        _blank(learner, settings, dynamics, kl_weight),
        policy=policy,
        policies=policy[None],
        expected_reward=float(policy @ arms.signal.means),
        fresh=np.zeros((1, 1)),
        stale=np.array([[arms.stiffness(gap, kl_weight)]]),
        closed_form=True,
    )


def measured_linear(
    learner: Learner, settings: Settings, dynamics: str, kl_weight: float, point: FixedPoint | None = None
) -> LinearTheory:
    """`linearise` by root finding and automatic differentiation."""
    blank = _blank(learner, settings, dynamics, kl_weight)
    point = point or find_fixed_point(learner, dynamics, kl_weight)
    if point.theta is None:
        arms, losses = two_arms_of(learner, settings, dynamics), losses_of(learner, settings, dynamics)
        critical = arms.critical_kl_weight() if arms is not None else None
        critical = losses[0][0] if losses else critical
        if (critical is None or critical <= kl_weight) and not point.slides:
            critical = critical_kl_weight(learner, dynamics, kl_weight, 1e-3)
        return replace(blank, reason=point.reason, slides=point.slides, critical_kl_weight=critical)
    fresh, stale = (_standard(part, point.basis) for part in fresh_and_stale(learner, dynamics, kl_weight, point))
    reward = point.expected_reward
    policies, note = point.policy, TURNING if point.neutral_turns else None
    found = replace(blank, policy=policies[0], policies=policies, expected_reward=reward, fresh=fresh, stale=stale)
    return replace(found, note=note)


def _standard(matrix: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Rotate a reduced matrix into the basis used for noise covariances, if both span the same space."""
    arms = basis.shape[0]
    if basis.shape[1] != arms - 1 or np.max(np.abs(basis.sum(axis=0))) > _SAME_SPACE:
        return matrix
    turn = theory.ones_complement(arms).T @ basis
    return turn @ matrix @ turn.T


def _blank(learner: Learner, settings: Settings, dynamics: str, kl_weight: float) -> LinearTheory:
    return LinearTheory(drift_name(learner, dynamics), dynamics, kl_weight, learner, learner.optimizer.convention)


SAID = {
    "temperature": "at temperature {tau:g}",
    "top_p": "from the likeliest answers with a share of {p:g}",
    "top_k": "from the {k:g} likeliest answers",
    "logit_noise": "with a static error of its logits",
    "rounding": "from logits rounded to {format}",
}
RESAMPLED = "in closed form only where the policy itself draws (sampler=exact)"


def said_of_sampler(learner: Learner, settings: Settings) -> str | None:
    """The sampler in words; None where the policy itself draws."""
    if not resampled(learner):
        return None
    name = settings.sampler["name"]
    words = SAID.get(name, f"by sampler={name}").format(**vars(learner.sampler))
    correction = settings.correction["name"]
    return f"samples {words}" + ("" if correction == "none" else f" with correction={correction}")


def two_arms_of(learner: Learner, settings: Settings, dynamics: str) -> "theory.SampledTwoArms | None":
    """The theory of two arms that another law draws, or None where it has none."""
    if not resampled(learner):
        return None
    signal, sampler, correction = signal_of(learner, settings, dynamics), learner.sampler, learner.correction
    plain = type(learner.kl_estimator) is Exact and not learner.entropy_weight
    plain = plain and settings.estimator["name"] in ESTIMATORS_KNOWN
    if not (plain and isinstance(signal, theory.BinarySignal) and len(signal.means) == 2):
        return None
    name, low, high = settings.correction["name"], 0.0, np.inf
    if isinstance(correction, Truncated):
        high = correction.largest
    if isinstance(correction, Masked):
        low, high = correction.low, correction.high
    if name not in theory.CORRECTIONS or not isinstance(sampler, OwnLaw | Temperature | LogitNoise):
        return None
    log_law = np.asarray(sampler.log_law(jnp.zeros((1, 2))))[0]  # at gap 0: the error of the logits
    tau = sampler.tau if isinstance(sampler, Temperature) else 1.0
    acting = theory.ActingLaw(tau, float(log_law[0] - log_law[1]), name, low, high)
    reference = np.asarray(learner.bandit.reference_log_policy)[0]
    try:
        return theory.SampledTwoArms(signal, acting, float(reference[0] - reference[1]))
    except ValueError:  # equal arms, or advantages that do not add up to 0
        return None


def losses_of(learner: Learner, settings: Settings, dynamics: str) -> list[tuple[float, int]]:
    """(critical KL weight, answer lost) in turn, of mean-only training on many answers under a hot sampler.

    Of sequences the first alone; [] where the theory has none.
    """
    sampler, name, bandit = learner.sampler, settings.advantage["name"], learner.bandit
    if not isinstance(sampler, Temperature) or sampler.tau <= 1 or settings.correction["name"] != "none":
        return []
    plain = type(learner.kl_estimator) is Exact and not learner.entropy_weight and name in ("dr_grpo", "rloo")
    plain = plain and settings.estimator["name"] in ("frozen", "uncorrected")
    answers = bandit.reference_log_policy.size
    if not (plain and type(bandit) in (TabularBandit, SequenceBandit) and 2 < answers <= MOST_ANSWERS):
        return []
    means, reference = np.asarray(bandit.law.means)[0], np.exp(np.asarray(bandit.reference_log_policy)[0])
    factor = float(theory.GroupLaw(name, None if dynamics == "mean_field" else learner.group_size).factor(0.5, 0.5))
    if isinstance(bandit, SequenceBandit):
        length = bandit.tokens.shape[1]
        size = round(answers ** (1 / length))
        found = theory.critical_collapse(means, reference, sampler.tau, theory.sequence_choices(size, length), size)
        return [] if found is None else [(factor * found.kl_weight, found.lost)]
    return [(factor * weight, arm) for weight, arm in theory.extinctions(means, reference, sampler.tau)]


def weighs(learner: Learner) -> str | None:
    """Why closed forms of gradients do not hold for this estimator; None if it weighs every action by 1 on policy."""
    if resampled(learner):
        return RESAMPLED
    one = np.ones(2, np.float32)
    plain = not weighs_groups(learner)
    plain = plain and np.array_equal(learner.estimator.weight(jnp.asarray(one), jnp.asarray([-1, 1] * one)), one)
    name = type(learner.estimator).__name__
    return None if plain else f"in closed form only for estimators that weigh every action by 1 on policy, not {name}"


def special(learner: Learner) -> str | None:
    """Why closed forms of the whole drift at any policy do not hold for this learner, or None."""
    if learner.entropy_weight or type(learner.kl_estimator) is not Exact:
        return "in closed form only for the exact KL term and no entropy term"
    return weighs(learner)


def noise_covariance(learner: Learner, settings: Settings, policy: np.ndarray) -> tuple[np.ndarray | None, str | None]:
    """Covariance [R, R] of one update's gradient at the fixed point, in the basis of the stiffness, or None and why:
    where all its groups come from one policy."""
    name = settings.advantage["name"]
    signal = signal_of(learner, settings, "sampled")
    if resampled(learner) and type(learner.bandit) is TabularBandit and type(learner.kl_estimator) is Exact:
        return _summed_covariance(learner, policy)
    if (reason := weighs(learner)) is not None:
        return None, reason
    if type(learner.kl_estimator) is not Exact:
        return None, f"no formula for the noise of the KL estimator {type(learner.kl_estimator).__name__}"
    if isinstance(signal, theory.BinarySignal):
        return theory.reduce_matrix(theory.binary_covariance(signal.law, signal.means, policy) / learner.prompts), None
    if type(learner.bandit) is TabularBandit and name in ("dr_grpo", "rloo", "none"):
        values, chances = np.asarray(learner.bandit.law.values), np.asarray(learner.bandit.law.probabilities)[0]
        outcomes = [[(float(v), float(p)) for v, p in zip(values, row, strict=True)] for row in chances]
        atoms, size = theory.reward_atoms(policy, outcomes), learner.group_size
        if name == "none":
            covariance = theory.leading_covariance(name, atoms) / size
        else:
            covariance = theory.centred_covariance(name, atoms, size)
        return theory.reduce_matrix(covariance / learner.prompts), None
    return None, f"no formula for the gradient noise of advantage={name} with these rewards at finite group size"


def _summed_covariance(learner: Learner, policy: np.ndarray) -> tuple[np.ndarray | None, str | None]:
    """The same by summation over pairs of answers, where another law draws."""
    try:
        moments = group_moments(learner)
    except ValueError as error:
        return None, str(error)
    logits = jnp.log(jnp.asarray(policy))
    return theory.reduce_matrix(np.asarray(moments(jnp.asarray(0.0), logits, logits).covariance)), None


def stationary_stds(
    linear: LinearTheory,
    noise: tuple[np.ndarray | None, str | None],
    means: np.ndarray,
    cell: tuple[float, float, float],
    batch_reuse: bool,
) -> tuple[Value, Value]:
    """Predicted (std of the expected reward, std of the log-odds of the best arm) at one cell.

    noise: [R, R] or why there is none, as `noise_covariance` gives them. means: [K]. cell: (learning rate, momentum,
    refresh interval). The std is over all steps of a stationary run.
    """
    covariance, reason = noise
    if reason := reason or linear.unsupported_reason():
        return (Value.absent(reason),) * 2
    if covariance is None:
        return (Value.absent("no formula for the gradient noise"),) * 2
    rate, momentum, interval = cell
    result = linear.loop(momentum, interval).spread(rate, covariance, batch_reuse)
    if result.average is None:
        return (Value.absent(str(result.reason or NOT_STATIONARY)),) * 2
    policy = linear.policy
    assert policy is not None
    found = theory.reward_std(policy, means, result.average), theory.logit_std(policy, means, result.average)
    return Value.of(found[0], NOT_STATIONARY), Value.of(found[1], NOT_STATIONARY)
