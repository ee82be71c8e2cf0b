"""The value of every quantity in `quantities`, at one setting."""

import bisect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bandit_lab import theory
from bandit_lab.app.result import Value
from bandit_lab.grpo import Optimizer
from bandit_lab.lab.predict.nonlinear import collapsed, half_rise
from bandit_lab.lab.predict.point import (
    Missing,
    OperatingPoint,
    binary,
    check_drift_closed,
    check_gradient_closed,
    check_linear,
    check_wholly_stale,
    finite_group_size,
    noise_of,
    success_chance,
)
from bandit_lab.lab.predict.quantities import QUANTITIES
from bandit_lab.loop import RateCrossing, loop_of

_ADAM_EPS = 1e-8


def evaluate(point: OperatingPoint) -> dict[str, Value]:
    """The value of every quantity by its key, at an existing fixed point."""
    values = {}
    for quantity in QUANTITIES:
        try:
            value = Value.of(VALUES[quantity.key](point), "not a finite number", quantity.unit)
        except (Missing, ValueError) as reason:
            value = Value.absent(str(reason), quantity.unit)
        values[quantity.key] = value
    return values


def notes(point: OperatingPoint) -> list[str]:
    """Notes in words beside the numbers."""
    said = [*_sampler(point), *_derivatives(point), *_ages(point)]
    return [*said, *_damping(point), *_turning(point)]


def _sampler(point: OperatingPoint) -> list[str]:
    """How another sampler moves the fixed point, and below which KL weight it has none."""
    if point.sampler is None:
        return []
    reward, arms = point.linear.expected_reward, point.sampled_arms
    own = "runs to a vertex" if point.own_reward is None else f"would rest at {point.own_reward:.4g}"
    text = (
        f"It {point.sampler}: runs rest at an expected reward of {reward:.4g}, with the policy's own answers it {own}"
    )
    if point.losses:
        (first, lost), last = point.losses[0], min(weight for weight, _ in point.losses)
        text += (
            f". With this sampler mean-only training from the reference loses answer {lost} below KL weight {first:.4g}"
        )
        return [f"{text}." if last == first else f"{text}, and all but the best below {last:.4g}."]
    if arms is None:
        return [f"{text}."]
    critical, rule = arms.critical_kl_weight(), arms.signal.law
    if critical is None:
        return [f"{text}. No KL weight > 0 is too small."]
    training = "mean-only training" if rule.std_power == 0 else "training"
    return [f"{text}. With this sampler {training} collapses below KL weight {critical:.4g}."]


def _derivatives(point: OperatingPoint) -> list[str]:
    if point.exact_derivatives is None:
        return []
    reason = point.linear.unsupported_reason()
    return [f"Threshold and multipliers are those of the update's own derivative over one period (Floquet): {reason}."]


def _ages(point: OperatingPoint) -> list[str]:
    """What the mean age and the largest one guarantee, and where they guarantee nothing."""
    linear, momentum, interval = point.linear, point.hyper.momentum, point.hyper.refresh_interval
    if linear.drawn or linear.unsupported_reason() or not linear.wholly_stale:
        return []
    if linear.learner.staleness.period(interval) > 1:
        loop = linear.loop(momentum, interval)
        mixed = replace(loop, rule=loop.rule.mixed()).threshold.value
        text = "The age is a function of time: its mean and its largest value guarantee nothing. Mixed within every"
        return [f"{text} update, the same ages would lose stability at learning rate {mixed:.4g}."]
    law, _, ahead = linear.inertia(momentum)
    if not linear.given_ages or ahead:
        return []
    if point.kappa >= linear.on_policy(momentum):
        return ["This learning rate is unstable on policy: no age is young enough."]
    text = (
        f"Ages are averaged within every update. At this learning rate a mean age below {law / point.kappa:.3g} steps"
    )
    text += " is enough, and so is a largest age of"
    return [f"{text} {_oldest_safe(point)}, whatever the other ages are."]


def _oldest_safe(point: OperatingPoint) -> int:
    """The largest constant age that is stable; thresholds fall with the age."""

    def unstable(age: int) -> bool:
        return point.linear.constant_age(age, point.hyper.momentum) <= point.kappa

    high = 1
    while not unstable(high):
        high *= 2
    return bisect.bisect_left(range(high + 1), True, key=unstable) - 1


def _damping(point: OperatingPoint) -> list[str]:
    """Why the sign of the oscillator's damping is not the verdict, where it is not."""
    linear, (rate, momentum, interval, _) = point.linear, point.hyper
    if linear.unsupported_reason() or linear.largest <= 0:
        return []

    def damping(lag: float) -> float:
        return float(linear.oscillator(rate, momentum, lag).damping)

    if point.radius.value is None:
        return []
    at_lag, at_age, age = damping(linear.lag(interval, momentum)), damping(point.mean_age), point.mean_age
    stable = abs(point.multiplier) < 1
    if stable == (at_lag > 0):
        return []
    lag = "N" if not linear.given_ages else f"{age:g}"
    text = f"The oscillator's damping with the lag {lag} is {'negative' if stable else 'positive'} and the setting is "
    text += f"{'stable' if stable else 'unstable'} all the same: the oscillator is a first order in the lag"
    if age != linear.lag(interval, momentum):
        text += f", and N is not the mean age of the policy that acts, {age:g} steps, with which it is {at_age:.3g}"
    return [f"{text}. The multipliers decide."]


def _turning(point: OperatingPoint) -> list[str]:
    turning = point.linear.turning
    if not len(turning):
        return []
    degrees = math.degrees(np.max(np.abs(np.angle(turning))))
    law, exact = point.law.value, point.exact.value
    text = f"The stiffness is complex (argument up to {degrees:.3g} degrees): the drift is no gradient. A displacement "
    text += "turns at every learning rate. The law is made for real stiffness and can be unsafe for every model"
    if exact and law:
        over = exact / law
        text += f": here the exact threshold is {over:.3g} of the law's" + (
            " (unsafe)" if over < 1 else " (conservative)"
        )
    return [text + "."]


def _stiffness_shift(point: OperatingPoint) -> float:
    check_drift_closed(point)
    finite_group_size(point)
    found = theory.group_shift(binary(point).success, point.reference, point.hyper.kl_weight, binary(point).law)
    if found is None:
        raise Missing("one of the two drifts has no attracting fixed point")
    return found.stiffness


def _silent(point: OperatingPoint) -> float:
    return float(theory.silent_rate(finite_group_size(point), success_chance(point)))


def _group_factor(point: OperatingPoint) -> float:
    finite_group_size(point)
    check_gradient_closed(point)
    law, win = binary(point).law, success_chance(point)
    return float(law.factor(win) / replace(law, group_size=None).factor(win))


def _group_expansion(point: OperatingPoint) -> float:
    size, signal = finite_group_size(point), binary(point)
    check_gradient_closed(point)
    if signal.law.advantage != "grpo":
        raise Missing("an expansion of the std-normalised advantage")
    return float(theory.factor_expansion(size, np.array(success_chance(point)))[0])


def _critical_weight(point: OperatingPoint) -> float:
    if point.sampled_arms is not None:
        found = point.sampled_arms.critical_kl_weight()
    else:
        check_drift_closed(point)
        if point.signal is None:
            raise Missing("no closed form for this bandit and advantage")
        found = theory.critical_kl_weight(point.signal, point.reference)
    if found is None:
        raise Missing("every KL weight > 0 has an interior fixed point")
    return found


def _sampler_bias(point: OperatingPoint) -> float:
    if point.sampler is None:
        raise Missing("the policy itself draws")
    if point.own_reward is None:
        raise Missing("the policy's own answers lead to a vertex")
    assert point.linear.expected_reward is not None
    return point.linear.expected_reward - point.own_reward


def _mean_age_law(point: OperatingPoint) -> float:
    hyper, linear = point.hyper, point.linear
    if linear.drawn:
        raise Missing("a bound for gradients averaged over ages; here ages are drawn")
    rule, interval = linear.learner.staleness, hyper.refresh_interval
    if (linear.unsupported_reason() is None and rule.period(interval) > 1) or rule.block_synchronous:
        raise Missing("a bound for gradients averaged over ages; here the age is a function of time")
    _scalar(point)
    if not point.mean_age > 0:
        raise Missing("the policy that acts is never old")
    return min(point.loop.optimizer.inertia[0] / point.mean_age, linear.on_policy(hyper.momentum)) / linear.largest


def _guarantee(point: OperatingPoint) -> float:
    linear = point.linear
    if not linear.given_ages or linear.drawn:
        raise Missing("a bound for averaged ages that are given")
    _scalar(point)
    if point.loop.optimizer.inertia[2]:
        raise Missing("not proved for an optimiser that looks ahead")
    assert point.loop.rule.shares is not None
    return linear.constant_age(len(point.loop.rule.shares) - 1, point.hyper.momentum) / linear.largest


def _scalar(point: OperatingPoint) -> None:
    """Raises Missing but where one stale stiffness has a loop of its own."""
    check_wholly_stale(point)
    if not point.linear.drawn:
        check_linear(point)


def _as_geometric(point: OperatingPoint) -> tuple[float, float, Any]:
    """(mean age, momentum, convention), as if the ages were geometric."""
    check_wholly_stale(point)
    if point.mean_age <= 0:
        raise Missing("the policy that acts is never old")
    return point.mean_age, point.hyper.momentum, theory.as_convention(point.linear.convention)


def _averaged(point: OperatingPoint) -> float:
    if not point.linear.given_ages:
        return theory.averaged_threshold(*_as_geometric(point)).kappa / point.linear.largest
    _scalar(point)
    return _known(point.loop.threshold)


def _known(crossing: RateCrossing) -> float:
    if crossing.value is None:
        raise Missing(str(crossing.reason))
    return crossing.value


def _mean_square(point: OperatingPoint) -> float:
    if not point.linear.given_ages:
        return theory.mean_square_threshold(*_as_geometric(point)) / point.linear.largest
    _scalar(point)
    return _known(point.linear.mean_square(point.hyper.refresh_interval, point.hyper.momentum))


def _check_multipliers(point: OperatingPoint) -> None:
    if point.exact_derivatives is None:
        check_linear(point)


def _decay_time(point: OperatingPoint) -> float:
    _check_multipliers(point)
    size = abs(point.multiplier)
    if not 0 < size < 1:
        raise Missing("grows" if size >= 1 else "gone within one block")
    return -point.steps / math.log(size)


def _period(point: OperatingPoint) -> float:
    _check_multipliers(point)
    if point.period is None:
        raise Missing("the dominant multiplier is real and positive: no cycle")
    return point.period


def _damping_ratio(point: OperatingPoint) -> float:
    check_linear(point)
    rate, momentum, interval, _ = point.hyper
    osc = point.linear.oscillator(rate, momentum, point.linear.lag(interval, momentum))
    if not float(osc.mass) > 0:
        raise Missing("no inertia at momentum 0")
    return float(osc.damping_ratio)


def _fastest(point: OperatingPoint) -> float:
    check_linear(point)
    convention = theory.as_convention(point.linear.convention)
    return theory.fastest_update(point.kappa, point.hyper.momentum, convention)


def _time_constant(point: OperatingPoint) -> float:
    check_linear(point)
    return point.loop.optimizer.inertia[0] / point.kappa


def _std(point: OperatingPoint, which: int) -> float:
    noise_of(point)
    found = point.stationary[which]
    if found.value is None:
        raise Missing(found.reason)
    return found.value


def _small_step_logit(point: OperatingPoint) -> float:
    noise, hyper = noise_of(point), point.hyper
    if noise.shape != (1, 1):
        raise Missing("one number only for two arms")
    reuse = hyper.refresh_interval if point.settings.batch_reuse else 1
    mean_step = hyper.learning_rate / point.loop.optimizer.inertia[0]
    variance = theory.small_step_variance(mean_step, point.linear.largest, 0.0, float(noise[0, 0]) * reuse)
    return math.sqrt(2 * variance)  # the gap is sqrt(2) times the coordinate along (1, -1)/sqrt(2)


def _correlation_time(point: OperatingPoint) -> float:
    noise = noise_of(point)
    direction = np.linalg.eigh(noise)[1][:, -1]
    found = point.loop.spread(point.hyper.learning_rate, noise, point.settings.batch_reuse)
    time = found.integrated_time(direction)
    if time is None:
        raise Missing("no stationary state beyond the threshold" if found.reason is None else str(found.reason))
    return time * point.steps


def _reuse_gain(point: OperatingPoint) -> float:
    noise, hyper = noise_of(point), point.hyper
    if not point.learner.staleness.block_synchronous:
        raise Missing("no blocks to reuse a batch in")
    pair = [point.loop.spread(hyper.learning_rate, noise, reuse).average for reuse in (True, False)]
    if pair[0] is None or pair[1] is None:
        raise Missing("no stationary state beyond the threshold")
    return float(np.trace(pair[0]) / np.trace(pair[1]))


def _long_block(point: OperatingPoint) -> float:
    check_linear(point)
    fresh, stale = point.linear.fresh, point.linear.stale
    if fresh is None or stale is None or np.min(np.linalg.eigvals(fresh).real) <= 0:
        raise Missing("nothing fresh that could settle within a block")
    return float(np.max(np.abs(np.linalg.eigvals(np.linalg.solve(fresh, stale)))))


def _held_moment(point: OperatingPoint) -> float:
    found = point.derived
    if found is None:
        raise Missing("the linear theory has this optimiser")
    if found.reason is not None:
        raise Missing(found.reason)
    if not found.held:
        raise Missing("the optimiser has no second moment")
    if not found.threshold.learning_rate:
        raise Missing(found.threshold.reason or "unstable at every learning rate")
    return found.threshold.learning_rate


def _adam(point: OperatingPoint) -> float:
    (noise, reason), name = point.noise, point.learner.optimizer.name
    if point.linear.convention not in theory.CONVENTIONS and point.learner.optimizer != Optimizer("adam"):
        raise Missing(f"of plain Adam, not of {name}" + (" with options" if name == "adam" else ""))
    finite_group_size(point)
    if noise is None:
        raise Missing(reason or "no formula for the gradient noise")
    if point.linear.fresh is None or point.linear.stale is None or np.any(point.linear.fresh != 0):
        raise Missing("one number only where the whole stiffness is stale")
    if point.linear.given_ages or not point.learner.staleness.whole_interval:
        raise Missing(f"no closed threshold with staleness={point.settings.staleness['name']}")
    basis, hyper = theory.ones_complement(len(point.means)), point.hyper
    scale = np.sqrt(np.diag(basis @ noise @ basis.T)) + _ADAM_EPS
    largest = float(np.linalg.eigvals(basis @ point.linear.stale @ basis.T / scale[:, None]).real.max())
    found = loop_of(replace(point.learner, optimizer=Optimizer("sgd_ema")), np.zeros((1, 1)), np.ones((1, 1)),
                    hyper.momentum, hyper.refresh_interval)[0]  # fmt: skip
    assert found is not None
    return _known(found.threshold) / largest


def _reward_spread(point: OperatingPoint) -> float:
    win = success_chance(point)
    return math.sqrt(win * (1 - win))


VALUES: dict[str, Callable[[OperatingPoint], Any]] = {
    "critical_kl_weight": _critical_weight,
    "sampler_bias": _sampler_bias,
    "group_factor": _group_factor,
    "group_factor_expansion": _group_expansion,
    "stiffness_shift": _stiffness_shift,
    "silent_groups": _silent,
    "reward_spread": _reward_spread,
    "mean_age_law": _mean_age_law,
    "guarantee": _guarantee,
    "averaged_ages": _averaged,
    "drawn_ages": _mean_square,
    "adam": _adam,
    "held_moment": _held_moment,
    "long_block": _long_block,
    "time_constant": _time_constant,
    "decay_time": _decay_time,
    "period": _period,
    "damping_ratio": _damping_ratio,
    "fastest_update": _fastest,
    "stationary_reward": lambda s: _std(s, 0),
    "stationary_logit": lambda s: _std(s, 1),
    "small_step_logit": _small_step_logit,
    "correlation_time": _correlation_time,
    "reuse_gain": _reuse_gain,
    "half_rise": half_rise,
    "collapsed": collapsed,
}
"""key of `QUANTITIES` -> its value; raises `Missing` with the reason where there is none."""
