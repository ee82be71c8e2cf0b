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
from bandit_lab.lab.predict.fixed_point import NO_NOISE, weighs
from bandit_lab.lab.predict.point import OperatingPoint
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
    """One line of the table. value: of a point; raises ValueError with the reason where there is none."""

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


def rate_lines(point: OperatingPoint) -> list[Line]:
    """The learning rates at which stability is lost, to leading order and exactly, and oscillation begins."""
    law, *others = (Value.of(one.value, one.reason or "") for one in (point.law, point.exact, point.onset))
    of = "learning rate:" if law.value is None else " "
    names = ("learning rate: leading-order law", f"{of} exact threshold", "  onset of oscillation")
    keys, statuses = ("leading_order", "exact", "oscillation_onset"), (LEADING, LINEAR, LINEAR)
    return [
        Line(f"thresholds.learning_rate.{key}", value, name, RATE, status, 6)
        for key, value, name, status in zip(keys, (law, *others), names, statuses, strict=True)
    ]


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
        except ValueError as reason:
            value = Value.absent(str(reason), quantity.unit)
        values[quantity.key] = value
    return values


# ------------------------------------------------------------------------------------------------- what a value needs


def _need(given: object, reason: str | None) -> None:
    if not given:
        raise ValueError(reason or "")


def _linear(point: OperatingPoint) -> None:
    reason = point.linear.unsupported_reason()
    _need(reason is None, reason)


def _drift_closed(point: OperatingPoint) -> None:
    plain = type(point.learner.kl_estimator) is Exact and not point.learner.entropy_weight
    _need(plain, "in closed form only for the exact KL term and no entropy term")
    reason = weighs(point.learner)
    _need(reason is None, reason)


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
            raise ValueError("no closed form for this bandit and advantage")
        critical = theory.critical_kl_weight(point.signal, point.reference)
    if critical is None:
        raise ValueError("every KL weight > 0 has an interior fixed point")
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
        raise ValueError("the policy's own answers lead to a vertex")
    return point.linear.expected_reward - point.own_reward


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
        raise ValueError("a bound for averaged ages that are given")
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
        raise ValueError("the linear theory has this optimiser")
    _need(derived.reason is None, derived.reason)
    _need(derived.moment_source, "the optimiser has no second moment")
    rate, reason = point.derived_threshold.learning_rate, point.derived_threshold.reason
    if not rate:
        raise ValueError(reason or "unstable at every learning rate")
    return rate


@_quantity("  period", "steps", LINEAR, "of the cycle of the dominant multiplier")
def _period(point: OperatingPoint) -> float:
    if point.exact_derivatives is None:
        _linear(point)
    if point.period is None:
        raise ValueError("the dominant multiplier is real and positive: no cycle")
    return point.period


@_quantity(
    f"collapsed after {HORIZON} steps",
    "share",
    EXACT,
    "runs carried by noise from the fixed point to the vertex: below the threshold, too",
)
def _collapsed(point: OperatingPoint) -> float:
    """Share of runs at the better arm's vertex, by the exact transition operator of the two-arm chain."""
    _drift_closed(point)
    signal, hyper = point.signal, point.hyper
    if not isinstance(signal, theory.BinarySignal):
        raise ValueError("in closed form only for rewards 0 and 1")
    _linear(point)
    _need(point.group_size, NO_NOISE)
    noise, reason = point.noise
    if noise is None:
        raise ValueError(reason)
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
    candidates = (_sampler(point), _derivatives(point), _ages(point))
    return [note for note in candidates if note]


def _sampler(point: OperatingPoint) -> str:
    """The shift of the fixed point by another sampler, and the KL weight below which there is none."""
    if point.sampler is None:
        return ""
    reward, arms = point.linear.expected_reward, point.sampled_arms
    own = "runs to a vertex" if point.own_reward is None else f"would end at {point.own_reward:.4g}"
    text = f"It {point.sampler}: runs end at an expected reward of {reward:.4g}; with the policy's own answers it {own}"
    critical = None if arms is None else arms.critical_kl_weight()
    collapses = "" if critical is None else f" With this sampler training collapses below KL weight {critical:.4g}."
    return f"{text}.{collapses}"


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
