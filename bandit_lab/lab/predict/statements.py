"""What `predict` says about one setting: every quantity of the theory, its unit, its meaning and its value.

The single source of what `predict` prints and of `statements` in its summary. And the notes in words beside them.
"""

import bisect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bandit_lab import theory
from bandit_lab.app.result import Value, text_of
from bandit_lab.grpo import Exact
from bandit_lab.lab.predict.linear import NO_NOISE, weighs
from bandit_lab.lab.predict.point import Missing, OperatingPoint
from bandit_lab.loop import LinearRule
from bandit_lab.measure.outcome import VERTEX_SHARE

EXACT = "exact"
"""For the mean update."""
LINEAR = "exact, linear"
"""For the update linearised at the fixed point."""
LEADING = "leading order"
"""First term of an expansion, a law or an oscillator."""
RATE = "logits per unit gradient"  # as the help says of learning_rate
HORIZON = 1000  # steps until which runs are counted as collapsed
_CHAIN_SPACING = 0.2  # nats between the grid points of the two-arm chain


class Quantity(NamedTuple):
    """One line of the table. value: of a point; raises `Missing` or ValueError with the reason where there is none."""

    key: str
    name: str
    unit: str
    status: str
    meaning: str
    value: Callable[[OperatingPoint], Any]


@dataclass(frozen=True)
class Line:
    """One quantity. key: dotted, its place in `summary.json`. name: in the table; "" for none."""

    key: str
    value: Any
    name: str = ""
    unit: str = ""
    status: str = ""
    digits: int = 4
    text: Callable[[Any], str] | None = None

    def shown(self) -> str:
        """The value for a reader; a dash where there is none."""
        value = self.value.value if isinstance(self.value, Value) else self.value
        return text_of(value, self.digits) if value is None or self.text is None else self.text(self.value)

    def row(self) -> dict[str, Any]:
        """For a table."""
        return {"quantity": self.name, "value": self.shown(), "unit": self.unit, "how good": self.status}


def nested(lines: Iterable[Line]) -> dict[str, Any]:
    """Content of `summary.json` by the lines' dotted keys."""
    result: dict[str, Any] = {}
    for line in lines:
        *path, last = line.key.split(".")
        place = result
        for part in path:
            place = place.setdefault(part, {})
        place[last] = line.value
    return result


QUANTITIES: list[Quantity] = []
"""In the order of the table."""
_Of = Callable[[OperatingPoint], Any]


def _quantity(name: str, unit: str, status: str, meaning: str) -> Callable[[_Of], _Of]:
    """A function under its name, less the underscore, as the next line of the table."""

    def stated(value: _Of) -> _Of:
        QUANTITIES.append(Quantity(value.__name__.removeprefix("_"), name, unit, status, meaning, value))
        return value

    return stated


def evaluate(point: OperatingPoint) -> dict[str, Value]:
    """The value of every quantity by its key, at an existing fixed point."""
    values = {}
    for quantity in QUANTITIES:
        try:
            value = Value.of(quantity.value(point), "not a finite number", quantity.unit)
        except (Missing, ValueError) as reason:
            value = Value.absent(str(reason), quantity.unit)
        values[quantity.key] = value
    return values


# ------------------------------------------------------------------------------------------------- what a value needs


def _need(given: object, reason: str | None) -> None:
    if not given:
        raise Missing(reason or "")


def _linear(point: OperatingPoint) -> None:
    reason = point.linear.unsupported_reason()
    _need(reason is None, reason)


def _binary(point: OperatingPoint) -> theory.BinarySignal:
    if point.sampler is not None:
        raise Missing(weighs(point.learner))
    if not isinstance(point.signal, theory.BinarySignal):
        raise Missing("in closed form only for rewards 0 and 1")
    return point.signal


def _gradient_closed(point: OperatingPoint) -> None:
    reason = weighs(point.learner)
    _need(reason is None, reason)


def _drift_closed(point: OperatingPoint) -> None:
    plain = type(point.learner.kl_estimator) is Exact and not point.learner.entropy_weight
    _need(plain, "in closed form only for the exact KL term and no entropy term")
    _gradient_closed(point)


def _success(point: OperatingPoint) -> float:
    _binary(point)
    return float(point.linear.policy @ point.means)


def _finite_group(point: OperatingPoint) -> int:
    if point.group_size is None:
        raise Missing(NO_NOISE)
    return point.group_size


def _noise(point: OperatingPoint) -> np.ndarray:
    _linear(point)
    _finite_group(point)
    noise, reason = point.noise
    if noise is None:
        raise Missing(reason)
    return noise


def _stale(point: OperatingPoint) -> None:
    """Drawn ages have a mean square."""
    if not point.linear.drawn:
        _linear(point)
    _need(point.linear.wholly_stale, "one number only where the whole stiffness is stale")


# ----------------------------------------------------------------------------------------------- the lines of the table


@_quantity("critical KL weight", "reward/nat", EXACT, "below it the policy runs to a vertex: no interior fixed point")
def _critical_kl_weight(point: OperatingPoint) -> float:
    if point.sampled_arms is not None:
        critical = point.sampled_arms.critical_kl_weight()
    else:
        _drift_closed(point)
        if point.signal is None:
            raise Missing("no closed form for this bandit and advantage")
        critical = theory.critical_kl_weight(point.signal, point.reference)
    if critical is None:
        raise Missing("every KL weight > 0 has an interior fixed point")
    return critical


@_quantity(
    "bias of the sampler",
    "reward",
    EXACT,
    "expected reward of the fixed point, less that of the one which the policy's own answers lead to",
)
def _sampler_bias(point: OperatingPoint) -> float:
    _need(point.sampler is not None, "the policy itself draws")
    if point.own_reward is None or point.linear.expected_reward is None:
        raise Missing("the policy's own answers lead to a vertex")
    return point.linear.expected_reward - point.own_reward


@_quantity(
    "group factor",
    "",
    EXACT,
    "mean reward gradient at this G over that at G = infinity, at the fixed point; c_G for grpo",
)
def _group_factor(point: OperatingPoint) -> float:
    _finite_group(point)
    _gradient_closed(point)
    law, win = _binary(point).law, _success(point)
    return float(law.factor(win) / replace(law, group_size=None).factor(win))


@_quantity("silent groups", "share", EXACT, "probability that all rewards of a group are equal")
def _silent_groups(point: OperatingPoint) -> float:
    return float(theory.silent_rate(_finite_group(point), _success(point)))


@_quantity(
    "within-group reward std", "reward", EXACT, "by which GRPO divides; bounds the local curvature (arXiv 2601.23135)"
)
def _reward_spread(point: OperatingPoint) -> float:
    win = _success(point)
    return math.sqrt(win * (1 - win))


@_quantity(
    "learning rate: safe by the mean age",
    RATE,
    LINEAR,
    "lower bound for averaged ages and real stiffness: K eta (mean age) = 1 - mu, or flipping at age 0",
)
def _mean_age_law(point: OperatingPoint) -> float:
    linear, rule = point.linear, point.learner.staleness
    _need(not linear.drawn, "a bound for gradients averaged over ages; here ages are drawn")
    in_turn = linear.unsupported_reason() is None and rule.period(point.hyper.refresh_interval) > 1
    _need(not (in_turn or rule.block_synchronous), "a bound for averaged ages; here the age is a function of time")
    _stale(point)
    _need(point.mean_age > 0, "the policy that acts is never old")
    return min(point.loop.optimizer.inertia[0] / point.mean_age, point.loop.constant_age(0)) / linear.largest


@_quantity(
    "  safe by the largest age",
    RATE,
    LINEAR,
    "lower bound for averaged ages that are never above S: the threshold of the constant age S",
)
def _guarantee(point: OperatingPoint) -> float:
    _linear(point)
    shares = point.loop.rule.shares
    if not point.loop.given_ages or shares is None:
        raise Missing("a bound for averaged ages that are given")
    _stale(point)
    _need(not point.loop.optimizer.inertia[2], "not proved for an optimiser that looks ahead")
    return point.loop.constant_age(len(shares) - 1) / point.linear.largest


@_quantity(
    "learning rate: this optimiser at this noise",
    RATE,
    LEADING,
    "threshold with the second moment held at its noise-stationary value, by derivatives of the optimiser's own update",
)
def _held_moment(point: OperatingPoint) -> float:
    derived = point.derived
    if derived is None:
        raise Missing("the linear theory has this optimiser")
    _need(derived.reason is None, derived.reason)
    _need(derived.moment_source, "the optimiser has no second moment")
    rate, reason = point.derived_threshold.learning_rate, point.derived_threshold.reason
    if not rate:
        raise Missing(reason or "unstable at every learning rate")
    return rate


@_quantity("time constant (1-mu)/(eta K)", "steps", LEADING, "of the single exponential, the over-damped limit")
def _time_constant(point: OperatingPoint) -> float:
    _linear(point)
    return point.loop.optimizer.inertia[0] / point.kappa


@_quantity("  slowest decay", "steps", LINEAR, "1/e time of a displacement by the dominant multiplier")
def _decay_time(point: OperatingPoint) -> float:
    if point.exact_derivatives is None:
        _linear(point)
    size = abs(point.multiplier)
    _need(0 < size < 1, "grows" if size >= 1 else "gone within one block")
    return -point.steps / math.log(size)


@_quantity("  period", "steps", LINEAR, "of the cycle of the dominant multiplier")
def _period(point: OperatingPoint) -> float:
    if point.exact_derivatives is None:
        _linear(point)
    if point.period is None:
        raise Missing("the dominant multiplier is real and positive: no cycle")
    return point.period


@_quantity("  damping ratio", "", LEADING, "of the oscillator with lag N; below 1 it rings, below 0 it grows")
def _damping_ratio(point: OperatingPoint) -> float:
    _linear(point)
    osc = theory.Oscillator(*point.loop.oscillator(point.hyper.learning_rate, point.loop.lag))
    _need(osc.mass > 0, "no inertia at momentum 0")
    return osc.damping_ratio


def _std(point: OperatingPoint, which: int) -> float:
    _noise(point)
    std = point.stationary[which]
    if std.value is None:
        raise Missing(std.reason)
    return std.value


@_quantity(
    "stationary std: expected reward",
    "reward",
    LINEAR,
    "over all steps of a long run, discrete Lyapunov equation with the optimiser's state",
)
def _stationary_reward(point: OperatingPoint) -> float:
    return _std(point, 0)


@_quantity("  log-odds of the best arm", "nats", LINEAR, "the same for the log-odds")
def _stationary_logit(point: OperatingPoint) -> float:
    return _std(point, 1)


@_quantity("  correlation time", "steps", LINEAR, "integrated autocorrelation time of the noisiest direction")
def _correlation_time(point: OperatingPoint) -> float:
    noise = _noise(point)
    spread = point.loop.spread(point.hyper.learning_rate, noise, point.settings.batch_reuse)
    time = spread.integrated_time(np.linalg.eigh(noise)[1][:, -1])
    if time is None:
        raise Missing(spread.reason)
    return time * point.steps


@_quantity(
    f"collapsed after {HORIZON} steps",
    "share",
    EXACT,
    "runs carried by noise from the fixed point to the vertex: below the threshold, too",
)
def _collapsed(point: OperatingPoint) -> float:
    """Share of runs at the better arm's vertex, by the exact transition operator of the two-arm chain."""
    _drift_closed(point)
    signal, hyper, noise = _binary(point), point.hyper, _noise(point)
    _need(len(point.means) == 2, "for two arms only")
    _stale(point)
    interval, rule = int(hyper.refresh_interval), point.loop.rule
    one_draw = hyper.momentum == 0 and point.loop.blocks and np.array_equal(rule.ages, np.arange(interval))
    _need(one_draw, "the exact chain is for momentum 0 and staleness=refresh")
    move = hyper.learning_rate * math.sqrt(2 * interval * float(noise[0, 0]))
    _need(move >= 2 * _CHAIN_SPACING, "a block moves the gap by less than the chain's grid resolves")
    policy, reference = np.asarray(point.linear.policy), point.reference
    _need(int(np.argmax(point.means)) == 0, "written for the better arm first")
    chain = theory.TwoArmChain(
        (signal.success[0], signal.success[1]),
        signal.law,
        hyper.kl_weight,
        hyper.learning_rate,
        interval,
        point.learner.prompts,
        float(np.log(reference[0] / reference[1])),
        point.settings.batch_reuse,
        spacing=_CHAIN_SPACING,
    )
    others = VERTEX_SHARE * policy[1]
    vertex, start = math.log((1 - others) / others), float(np.log(policy[0] / policy[1]))
    return max(chain.collapsed(vertex, max(1, HORIZON // interval), start), 0.0)


# ------------------------------------------------------------------------------------------------- notes beside them


def notes(point: OperatingPoint) -> list[str]:
    """Notes in words beside the numbers."""
    candidates = (_sampler(point), _derivatives(point), _ages(point), _damping(point), _turning(point))
    return [note for note in candidates if note]


def _sampler(point: OperatingPoint) -> str:
    """The shift of the fixed point by another sampler, and the KL weight below which there is none."""
    if point.sampler is None:
        return ""
    reward, arms = point.linear.expected_reward, point.sampled_arms
    own = "runs to a vertex" if point.own_reward is None else f"would end at {point.own_reward:.4g}"
    text = f"It {point.sampler}: runs end at an expected reward of {reward:.4g}; with the policy's own answers it {own}"
    if point.losses:
        (first, lost), last = point.losses[0], min(weight for weight, _ in point.losses)
        text += (
            f". With this sampler mean-only training from the reference loses answer {lost} below KL weight {first:.4g}"
        )
        return f"{text}." if last == first else f"{text}, and all but the best below {last:.4g}."
    if arms is None:
        return f"{text}."
    critical = arms.critical_kl_weight()
    if critical is None:
        return f"{text}. Every KL weight > 0 has a fixed point."
    return f"{text}. With this sampler training collapses below KL weight {critical:.4g}."


def _derivatives(point: OperatingPoint) -> str:
    if point.exact_derivatives is None:
        return ""
    reason = point.linear.unsupported_reason()
    return f"Threshold and multipliers are those of the update's own derivative over one period (Floquet): {reason}."


def _ages(point: OperatingPoint) -> str:
    """The learning rates that the mean age and the largest age guarantee, or a note that they bound nothing."""
    linear = point.linear
    if linear.drawn or linear.unsupported_reason() or not linear.wholly_stale:
        return ""
    loop = point.loop
    if loop.rule.period > 1:
        shares = np.bincount(loop.rule.ages.astype(int)) / loop.rule.period
        mixed = replace(loop, rule=LinearRule.of_ages(shares)).threshold.value
        text = (
            "The age follows the clock: neither its mean nor its largest value bounds the threshold. Mixed within every"
        )
        return f"{text} update, the same ages would lose stability at learning rate {mixed:.4g}."
    law, _, ahead = loop.optimizer.inertia
    if not loop.given_ages or ahead:
        return ""
    if point.kappa >= loop.constant_age(0):
        return "This learning rate is unstable on policy: no age is young enough."
    high = 1
    while loop.constant_age(high) > point.kappa:  # thresholds fall with the age
        high *= 2
    oldest = bisect.bisect_left(range(high + 1), True, key=lambda age: loop.constant_age(age) <= point.kappa) - 1
    text = f"Ages are averaged within every update. At this learning rate a mean age below {law / point.kappa:.3g}"
    return f"{text} steps is enough, and so is a largest age of {oldest}, whatever the other ages are."


def _damping(point: OperatingPoint) -> str:
    """A note if the sign of the oscillator's damping contradicts the verdict."""
    linear, rate = point.linear, point.hyper.learning_rate
    if linear.unsupported_reason() or linear.largest <= 0 or point.radius.value is None:
        return ""
    loop, age = point.loop, point.mean_age
    (_, at_lag, _), (_, at_age, _) = (loop.oscillator(rate, lag) for lag in (loop.lag, age))
    stable = abs(point.multiplier) < 1
    if stable == (at_lag > 0):
        return ""
    lag = f"{age:g}" if loop.given_ages else "N"
    text = f"The oscillator's damping with lag {lag} is {'negative' if stable else 'positive'}, yet the setting is "
    text += f"{'stable' if stable else 'unstable'}: the oscillator is of first order in the lag"
    if age != loop.lag:
        text += f". With the mean age of the acting policy, {age:g} steps, the damping is {at_age:.3g}"
    return f"{text}. The multipliers decide."


def _turning(point: OperatingPoint) -> str:
    values = point.linear.spectrum
    if not np.iscomplexobj(values):
        return ""
    degrees = math.degrees(np.max(np.abs(np.angle(values[values.imag > 0]))))
    law, exact = point.law.value, point.exact.value
    text = (
        f"The stiffness is complex (argument up to {degrees:.3g} degrees): the drift is not a gradient. A displacement "
    )
    text += "turns at every learning rate. The law is made for real stiffness and can be unsafe for every model"
    if exact and law:
        safe = "unsafe" if exact < law else "conservative"
        text += f": here the exact threshold is {exact / law:.3g} of the law's ({safe})"
    return text + "."
