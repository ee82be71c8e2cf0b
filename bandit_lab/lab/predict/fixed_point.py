"""The fixed point of a learner, its stiffness and noise as numbers, and the loop that they make.

`theory` knows no learner and the learner knows no theory; this file hands the numbers over. The fixed point and its
stiffness come in closed form where there is one, else from root finding and automatic differentiation of the drift.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from bandit_lab import theory
from bandit_lab._registry import Registry
from bandit_lab.app.result import Value
from bandit_lab.bandits import TabularBandit
from bandit_lab.bandits.sequence import SequenceBandit
from bandit_lab.grpo import (
    ADVANTAGES,
    CORRECTIONS,
    ESTIMATORS,
    KL_ESTIMATORS,
    Exact,
    Frozen,
    Learner,
    LogitNoise,
    Masked,
    NoCorrection,
    OwnLaw,
    Temperature,
    Truncated,
    Uncorrected,
    resampled,
)
from bandit_lab.grpo.shift import weighs_groups
from bandit_lab.loop import Loop, RateCrossing, Reason, loop_of, no_loop, spectrum
from bandit_lab.measure.fixed_point import FixedPoint, critical_kl_weight, find_fixed_point
from bandit_lab.measure.stiffness import fresh_and_stale
from bandit_lab.simulation import drift_name
from bandit_lab.simulation.finite_group import group_moments
from bandit_lab.theory.stiffness import Signal

TURNING = (
    "neutral directions of this policy turn with its parameters, and its stiffness depends on where along them a run "
    "rests: the numbers are those of the point that small learning rates lead to"
)
Rate = Literal["law", "threshold", "onset", "oscillator_onset", "undelayed"]
"""Learning rates that a loop has."""
NO_NOISE = "no noise at G = infinity"
_NOT_STATIONARY = "no stationary state"
_MOST_ANSWERS = 64  # up to which critical KL weights of many answers are followed: some seconds
_SAME_SPACE = 1e-9
_AT_REST = 1e-10  # drift, reward per logit, up to which it vanishes at a point, and does not jump across 0 there


@dataclass(frozen=True, eq=False)
class LinearTheory:
    """One drift at one KL weight near its fixed point.

    policies [X, K] of every prompt, expected_reward: the fixed point, or None with `reason` and the least KL weight
    that has one. slides: whether the mean update jumps across 0 there. fresh, stale: [R, R] stiffness in reward per
    logit^2, in a basis of the directions that change the policy. closed_form: whether they come from a formula. note:
    what to know beside the numbers.
    """

    learner: Learner
    dynamics: str
    kl_weight: float
    policies: np.ndarray | None = None
    expected_reward: float | None = None
    fresh: np.ndarray | None = None
    stale: np.ndarray | None = None
    closed_form: bool = False
    slides: bool = False
    reason: str | None = None
    critical_kl_weight: float | None = None
    note: str | None = None
    _loops: dict[tuple[float, float], Loop] = field(default_factory=dict, repr=False)

    @property
    def drift(self) -> str:
        """Its name."""
        return drift_name(self.learner, self.dynamics)

    @property
    def policy(self) -> np.ndarray | None:
        """Probabilities [K] of the first prompt."""
        return None if self.policies is None else self.policies[0]

    @property
    def drawn(self) -> bool:
        """Whether an age is drawn at every step."""
        return self.learner.staleness.drawn

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

    def unsupported_reason(self) -> str | None:
        """The reason why thresholds cannot be predicted, or None."""
        if self.policy is None:
            return self.reason
        return no_loop(self.learner, max(self.learner.staleness.smallest_interval, 1))

    def loop(self, momentum: float, interval: float) -> Loop:
        """The linear loop, where there is one: `drawn` ages are averaged."""
        if (interval, momentum) not in self._loops:
            linear_loop, _ = loop_of(self.learner, *self.parts, momentum, interval)
            assert linear_loop is not None
            self._loops[interval, momentum] = linear_loop
        return self._loops[interval, momentum]

    def rate(self, name: Rate, interval: float, momentum: float) -> RateCrossing:
        """A learning rate of the loop, or why there is none; the threshold of drawn ages is that of the mean square."""
        if name == "threshold" and self.drawn and self.policy is not None:
            averaged, _ = loop_of(self.learner, *self.parts, momentum, interval)
            rate = None if averaged is None else averaged.mean_square.value
            return RateCrossing(rate, None, Reason.DRAWN if rate is None else None)
        if reason := self.unsupported_reason():
            return RateCrossing(None, None, reason)
        crossing: RateCrossing = getattr(self.loop(momentum, interval), name)
        return crossing


def _named(registry: Registry[Any], rule: object, names: Iterable[str]) -> str | None:
    """Which of the theory's names a rule has; None for a class of a user's own."""
    return next((name for name in names if registry[name] is type(rule)), None)


def signal_of(learner: Learner, dynamics: str) -> Signal | None:
    """The theory's view of a learner's reward, or None where the theory has no closed form for it."""
    bandit, rule = learner.bandit, learner.advantage
    name = _named(ADVANTAGES, rule, theory.ADVANTAGES)
    if type(bandit) is not TabularBandit or name is None:
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


def linearise(learner: Learner, dynamics: str, kl_weight: float, point: FixedPoint | None = None) -> LinearTheory:
    """The fixed point and stiffness of a drift: closed form if there is one, else measured; `point`: what was found."""
    arms = two_arms_of(learner, dynamics) if learner.estimator.at_snapshot else None
    if arms is not None and (linear := _of_two_arms(arms, learner, dynamics, kl_weight)) is not None:
        return linear
    signal, estimator = signal_of(learner, dynamics), _named(ESTIMATORS, learner.estimator, theory.ESTIMATORS)
    kind = _named(KL_ESTIMATORS, learner.kl_estimator, theory.KL_ESTIMATORS)
    if signal is None or estimator is None or kind is None or learner.entropy_weight or resampled(learner):
        return measured_linear(learner, dynamics, kl_weight, point)
    reference = np.exp(np.asarray(learner.bandit.reference_log_policy)[0])
    logits = np.asarray(learner.bandit.initial_parameters)
    start = np.exp(logits - logits.max())
    reference, start = reference / reference.sum(), start / start.sum()
    rest = theory.attracting_fixed_point(signal, reference, kl_weight, start, kind)
    if rest is None:
        critical = theory.critical_kl_weight(signal, reference, kind)
        critical = critical if kl_weight > 0 or critical else None
        reason = "no interior fixed point is reached from the initial policy: it runs to a vertex"
        return LinearTheory(learner, dynamics, kl_weight, reason=reason, critical_kl_weight=critical)
    fresh, stale = theory.stiffness_split(signal, rest.policy, kl_weight, estimator, kind).reduced()
    linear = LinearTheory(learner, dynamics, kl_weight, rest.policy[None], rest.expected_reward, fresh, stale)
    return replace(linear, closed_form=True)


def _of_two_arms(
    arms: "theory.SampledTwoArms", learner: Learner, dynamics: str, kl_weight: float
) -> LinearTheory | None:
    """The same of two arms that another law draws, wholly stale; None without a fixed point that has a stiffness."""
    start = np.asarray(learner.bandit.initial_parameters)
    gap = arms.rest(kl_weight, float(start[0] - start[1]))
    if gap is None or abs(float(arms.drift(np.asarray(gap), kl_weight))) > _AT_REST:
        return None
    policy = 1 / (1 + np.exp([-gap, gap]))
    parts = np.zeros((1, 1)), np.array([[arms.stiffness(gap, kl_weight)]])
    reward = float(policy @ arms.signal.means)
    return LinearTheory(learner, dynamics, kl_weight, policy[None], reward, *parts, closed_form=True)


def measured_linear(learner: Learner, dynamics: str, kl_weight: float, point: FixedPoint | None = None) -> LinearTheory:
    """`linearise` by root finding and automatic differentiation."""
    point = point or find_fixed_point(learner, dynamics, kl_weight)
    blank = LinearTheory(learner, dynamics, kl_weight, reason=point.reason, slides=point.slides)
    if point.theta is None:
        arms, losses = two_arms_of(learner, dynamics), losses_of(learner, dynamics)
        critical = arms.critical_kl_weight() if arms is not None else None
        critical = losses[0][0] if losses else critical
        if (critical is None or critical <= kl_weight) and not point.slides:
            critical = critical_kl_weight(learner, dynamics, kl_weight, 1e-3)
        return replace(blank, critical_kl_weight=critical)
    fresh, stale = (_standard(part, point.basis) for part in fresh_and_stale(learner, dynamics, kl_weight, point))
    linear = LinearTheory(learner, dynamics, kl_weight, point.policy, point.expected_reward, fresh, stale)
    return replace(linear, note=TURNING if point.neutral_turns else None)


def _standard(matrix: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Rotate a reduced matrix into the basis used for noise covariances, if both span the same space."""
    arms = basis.shape[0]
    if basis.shape[1] != arms - 1 or np.max(np.abs(basis.sum(axis=0))) > _SAME_SPACE:
        return matrix
    turn = theory.ones_complement(arms).T @ basis
    return turn @ matrix @ turn.T


def two_arms_of(learner: Learner, dynamics: str) -> "theory.SampledTwoArms | None":
    """The theory of two arms that another law draws, or None where it has none."""
    if not resampled(learner):
        return None
    signal, sampler, correction = signal_of(learner, dynamics), learner.sampler, learner.correction
    name = _named(CORRECTIONS, correction, theory.CORRECTIONS)
    plain = type(learner.kl_estimator) is Exact and not learner.entropy_weight and name is not None
    plain = plain and _named(ESTIMATORS, learner.estimator, theory.ESTIMATORS) is not None
    if not (plain and isinstance(signal, theory.BinarySignal) and len(signal.means) == 2):
        return None
    if not isinstance(sampler, OwnLaw | Temperature | LogitNoise):
        return None
    low = correction.low if isinstance(correction, Masked) else 0.0
    high = correction.high if isinstance(correction, Masked) else np.inf
    high = correction.largest if isinstance(correction, Truncated) else high
    log_law = np.asarray(sampler.log_law(jnp.zeros((1, 2))))[0]  # at gap 0: the error of the logits
    tau = sampler.tau if isinstance(sampler, Temperature) else 1.0
    acting = theory.ActingLaw(tau, float(log_law[0] - log_law[1]), name or "", low, high)
    reference = np.asarray(learner.bandit.reference_log_policy)[0]
    try:
        return theory.SampledTwoArms(signal, acting, float(reference[0] - reference[1]))
    except ValueError:  # equal arms, or advantages that do not add up to 0
        return None


def losses_of(learner: Learner, dynamics: str) -> list[tuple[float, int]]:
    """(critical KL weight, answer lost) in turn, of mean-only training on many answers under a hot sampler.

    Of sequences the first alone; [] where the theory has none.
    """
    sampler, rule, bandit = learner.sampler, learner.advantage, learner.bandit
    if not isinstance(sampler, Temperature) or sampler.tau <= 1 or not isinstance(learner.correction, NoCorrection):
        return []
    name = _named(ADVANTAGES, rule, theory.ADVANTAGES) if rule.linear and rule.centred else None
    plain = type(learner.kl_estimator) is Exact and not learner.entropy_weight
    plain = plain and type(learner.estimator) in (Frozen, Uncorrected)
    answers = bandit.reference_log_policy.size
    if not (plain and name and type(bandit) in (TabularBandit, SequenceBandit) and 2 < answers <= _MOST_ANSWERS):
        return []
    means, reference = np.asarray(bandit.law.means)[0], np.exp(np.asarray(bandit.reference_log_policy)[0])
    factor = float(theory.GroupLaw(name, None if dynamics == "mean_field" else learner.group_size).factor(0.5, 0.5))
    if isinstance(bandit, SequenceBandit):
        length = bandit.tokens.shape[1]
        size = round(answers ** (1 / length))
        collapse = theory.critical_collapse(means, reference, sampler.tau, theory.sequence_choices(size, length), size)
        return [] if collapse is None else [(factor * collapse.kl_weight, collapse.lost)]
    return [(factor * weight, arm) for weight, arm in theory.extinctions(means, reference, sampler.tau)]


def weighs(learner: Learner) -> str | None:
    """Why closed forms of gradients do not hold for this estimator; None if it weighs every action by 1 on policy."""
    if resampled(learner):
        return "in closed form only where the policy itself draws (sampler=exact)"
    one, estimator = np.ones(2, np.float32), learner.estimator
    plain = not weighs_groups(learner) and (
        estimator.ignores_ratio or np.array_equal(estimator.weight(jnp.asarray(one), jnp.asarray([-1, 1] * one)), one)
    )
    name = type(estimator).__name__
    return None if plain else f"in closed form only for estimators that weigh every action by 1 on policy, not {name}"


def noise_covariance(learner: Learner, policy: np.ndarray) -> tuple[np.ndarray | None, str | None]:
    """Covariance [R, R] of one update's gradient at the fixed point, in the basis of the stiffness, or None and why:
    where all its groups come from one policy."""
    rule, bandit, exact = learner.advantage, learner.bandit, type(learner.kl_estimator) is Exact
    if resampled(learner) and type(bandit) is TabularBandit and exact:
        return _summed_covariance(learner, policy)
    if (reason := weighs(learner)) is not None:
        return None, reason
    if not exact:
        return None, f"no formula for the noise of the KL estimator {type(learner.kl_estimator).__name__}"
    signal, name = signal_of(learner, "sampled"), _named(ADVANTAGES, rule, theory.ADVANTAGES)
    if isinstance(signal, theory.BinarySignal):
        return theory.reduce_matrix(theory.binary_covariance(signal.law, signal.means, policy) / learner.prompts), None
    if type(bandit) is TabularBandit and rule.linear and name is not None:
        values, chances = np.asarray(bandit.law.values), np.asarray(bandit.law.probabilities)[0]
        outcomes = [[(float(v), float(p)) for v, p in zip(values, row, strict=True)] for row in chances]
        atoms, size = theory.reward_atoms(policy, outcomes), learner.group_size
        if rule.centred:
            covariance = theory.centred_covariance(name, atoms, size)
        else:
            covariance = theory.leading_covariance(name, atoms) / size
        return theory.reduce_matrix(covariance / learner.prompts), None
    return None, f"no formula for the gradient noise of {type(rule).__name__} with these rewards at finite group size"


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
    (covariance, reason), policy = noise, linear.policy
    reason = reason or linear.unsupported_reason()
    if reason or covariance is None or policy is None:
        return (Value.absent(reason or NO_NOISE),) * 2
    rate, momentum, interval = cell
    average, reason = linear.loop(momentum, interval).spread(rate, covariance, batch_reuse)
    if average is None:
        return (Value.absent(reason or _NOT_STATIONARY),) * 2
    stds = theory.reward_std(policy, means, average), theory.logit_std(policy, means, average)
    return Value.of(stds[0], _NOT_STATIONARY), Value.of(stds[1], _NOT_STATIONARY)
