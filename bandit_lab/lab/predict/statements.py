"""The value of every quantity in `quantities`, for one setting."""

import bisect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bandit_lab import theory
from bandit_lab.app.document import Value
from bandit_lab.grpo import Optimizer
from bandit_lab.lab.predict.nonlinear import collapsed, half_rise
from bandit_lab.lab.predict.quantities import QUANTITIES, Quantity
from bandit_lab.lab.predict.statement import (
    Missing,
    OperatingPoint,
    binary,
    group_size_of,
    known,
    mean_age,
    noise_of,
    not_special,
    number_of,
    success_chance,
    unweighed,
    wholly_stale,
)
from bandit_lab.theory.conventions import Convention


class Statement(NamedTuple):
    """One quantity and its value at a setting."""

    quantity: Quantity
    value: Value


def evaluate(setting: OperatingPoint) -> list[Statement]:
    """All statements at an existing fixed point."""
    rows = []
    for quantity in QUANTITIES:
        try:
            value = Value.of(VALUES[quantity.key](setting), "not a finite number", quantity.unit)
        except (Missing, ValueError) as reason:
            value = Value.absent(str(reason), quantity.unit)
        rows.append(Statement(quantity, value))
    return rows


def notes(setting: OperatingPoint, exact: float | None) -> list[str]:
    """What has to be said in words beside the numbers. exact: threshold in the learning rate, or None."""
    said = [*_sampler(setting), *_derivatives(setting), *_ages(setting)]
    return [*said, *_damping(setting), *_turning(setting, exact)]


def _sampler(setting: OperatingPoint) -> list[str]:
    """How another sampler moves the fixed point, and below which KL weight it has none."""
    sampling, reward = setting.sampling, setting.linear.expected_reward
    if sampling is None:
        return []
    own = "runs to a vertex" if sampling.own_reward is None else f"would rest at {sampling.own_reward:.4g}"
    text = (
        f"It {sampling.said}: runs rest at an expected reward of {reward:.4g}, with the policy's own answers it {own}"
    )
    if sampling.arms is None:
        return [f"{text}."]
    critical, rule = sampling.arms.critical_kl_weight(), sampling.arms.signal.law
    if critical is None:
        return [f"{text}. No KL weight > 0 is too small."]
    training = "mean-only training" if rule.std_power == 0 else "training"
    return [f"{text}. With this sampler {training} collapses below KL weight {critical:.4g}."]


def _derivatives(setting: OperatingPoint) -> list[str]:
    if setting.exact_derivatives is None:
        return []
    reason = setting.linear.unsupported_reason()
    return [f"Threshold and multipliers are those of the update's own derivative over one period (Floquet): {reason}."]


def _ages(setting: OperatingPoint) -> list[str]:
    """What the mean age and the largest one guarantee, and where they guarantee nothing."""
    linear, momentum, interval = setting.linear, setting.hyper.momentum, setting.hyper.refresh_interval
    if linear.drawn or linear.unsupported_reason() or not linear.wholly_stale:
        return []
    convention = theory.as_convention(linear.convention)
    if linear.model in ("refresh", "pipeline"):
        oldest = (2 if linear.model == "pipeline" else 1) * int(interval)
        shares = np.repeat([0.0, 1 / interval], [oldest - int(interval), int(interval)])
        mixed = theory.averaged_ages_threshold(shares, momentum, convention).kappa / linear.largest
        text = "The age is a function of time: its mean and its largest value guarantee nothing. Mixed within every"
        return [f"{text} update, the same ages would lose stability at learning rate {mixed:.4g}."]
    if linear.ages is None or linear.convention == "nesterov":
        return []
    mean = theory.leading_order(1, momentum, convention) / setting.kappa
    if setting.kappa >= theory.exact("lag", 0, momentum, convention).kappa:
        return ["This learning rate is unstable on policy: no age is young enough."]
    text = f"Ages are averaged within every update. At this learning rate a mean age below {mean:.3g} steps is enough"
    return [f"{text}, and so is a largest age of {_oldest_safe(setting, convention)}, whatever the other ages are."]


def _oldest_safe(setting: OperatingPoint, convention: Convention) -> int:
    """The largest constant age that is stable; thresholds fall with the age."""

    def unstable(lag: int) -> bool:
        return theory.exact("lag", lag, setting.hyper.momentum, convention).kappa <= setting.kappa

    high = 1
    while not unstable(high):
        high *= 2
    return bisect.bisect_left(range(high + 1), True, key=unstable) - 1


def _damping(setting: OperatingPoint) -> list[str]:
    """Why the sign of the oscillator's damping is not the verdict, where it is not."""
    linear, (rate, momentum, interval, _) = setting.linear, setting.hyper
    if linear.unsupported_reason() or linear.largest <= 0:
        return []
    convention = theory.as_convention(linear.convention)

    def damping(lag: float) -> float:
        return float(theory.oscillator(rate, momentum, linear.largest, lag, convention).damping)

    at_lag, at_age, age = damping(linear.lag(interval)), damping(mean_age(setting)), mean_age(setting)
    stable = abs(_multiplier(setting)) < 1
    if stable == (at_lag > 0):
        return []
    lag = "N" if linear.ages is None else f"{age:g}"
    text = f"The oscillator's damping with the lag {lag} is {'negative' if stable else 'positive'} and the setting is "
    text += f"{'stable' if stable else 'unstable'} all the same: the oscillator is a first order in the lag"
    if age != linear.lag(interval):
        text += f", and N is not the mean age of the policy that acts, {age:g} steps, with which it is {at_age:.3g}"
    return [f"{text}. The multipliers decide."]


def _turning(setting: OperatingPoint, exact: float | None) -> list[str]:
    hyper, turning = setting.hyper, setting.linear.turning
    if not len(turning):
        return []
    degrees = math.degrees(np.max(np.abs(np.angle(turning))))
    law = setting.linear.law(hyper.refresh_interval, hyper.momentum).value
    text = f"The stiffness is complex (argument up to {degrees:.3g} degrees): the drift is no gradient. A displacement "
    text += "turns at every learning rate. The law is made for real stiffness and can be unsafe for every model"
    if exact and law:
        over = exact / law
        text += f": here the exact threshold is {over:.3g} of the law's" + (
            " (unsafe)" if over < 1 else " (conservative)"
        )
    return [text + "."]


def _stiffness_shift(setting: OperatingPoint) -> float:
    not_special(setting)
    group_size_of(setting)
    found = theory.group_shift(binary(setting).success, setting.reference, setting.hyper.kl_weight, binary(setting).law)
    if found is None:
        raise Missing("one of the two drifts has no attracting fixed point")
    return found.stiffness


def _silent(setting: OperatingPoint) -> float:
    return float(theory.silent_rate(group_size_of(setting), success_chance(setting)))


def _group_factor(setting: OperatingPoint) -> float:
    group_size_of(setting)
    unweighed(setting)
    law, win = binary(setting).law, success_chance(setting)
    return float(law.factor(win) / replace(law, group_size=None).factor(win))


def _group_expansion(setting: OperatingPoint) -> float:
    size, signal = group_size_of(setting), binary(setting)
    unweighed(setting)
    if signal.law.advantage != "grpo":
        raise Missing("an expansion of the std-normalised advantage")
    return float(theory.factor_expansion(size, np.array(success_chance(setting)))[0])


def _critical_weight(setting: OperatingPoint) -> float:
    if setting.sampling is not None and setting.sampling.arms is not None:
        found = setting.sampling.arms.critical_kl_weight()
    else:
        not_special(setting)
        if setting.signal is None:
            raise Missing("no closed form for this bandit and advantage")
        found = theory.critical_kl_weight(setting.signal, setting.reference)
    if found is None:
        raise Missing("every KL weight > 0 has an interior fixed point")
    return found


def _sampler_bias(setting: OperatingPoint) -> float:
    if setting.sampling is None:
        raise Missing("the policy itself draws")
    if setting.sampling.own_reward is None:
        raise Missing("the policy's own answers lead to a vertex")
    assert setting.linear.expected_reward is not None
    return setting.linear.expected_reward - setting.sampling.own_reward


def _mean_age_law(setting: OperatingPoint) -> float:
    hyper, linear = setting.hyper, setting.linear
    if linear.drawn:
        raise Missing("a bound for gradients averaged over ages; here ages are drawn")
    if linear.model not in ("lag", "random_mean", "ages"):
        raise Missing("a bound for gradients averaged over ages; here the age is a function of time")
    convention = _scalar(setting)
    if not mean_age(setting) > 0:
        raise Missing("the policy that acts is never old")
    law = theory.leading_order(mean_age(setting), hyper.momentum, convention)
    return min(law, theory.exact("lag", 0, hyper.momentum, convention).kappa) / linear.largest


def _guarantee(setting: OperatingPoint) -> float:
    linear = setting.linear
    if linear.ages is None or linear.drawn:
        raise Missing("a bound for averaged ages of staleness=ages")
    convention = _scalar(setting)
    if convention == "nesterov":
        raise Missing("not proved for Nesterov's momentum")
    oldest = len(linear.ages.of_steps(setting.hyper.refresh_interval)) - 1
    return theory.safe_by_largest_age(oldest, setting.hyper.momentum, convention) / linear.largest


def _scalar(setting: OperatingPoint) -> Convention:
    """The convention, where the closed forms of one stale stiffness hold. Raises Missing elsewhere."""
    wholly_stale(setting)
    if setting.linear.convention not in theory.CONVENTIONS:
        raise Missing(f"no linear theory of the optimiser {setting.linear.convention}")
    return theory.as_convention(setting.linear.convention)


def _averaged(setting: OperatingPoint) -> float:
    ages = setting.linear.ages
    if ages is None:
        return _drawn_ages(theory.averaged_threshold)(setting)
    convention = _scalar(setting)
    found = theory.averaged_ages_threshold(
        ages.of_steps(setting.hyper.refresh_interval), setting.hyper.momentum, convention
    )
    return found.kappa / setting.linear.largest


def _mean_square(setting: OperatingPoint) -> float:
    if setting.linear.ages is None:
        return _drawn_ages(theory.mean_square_threshold)(setting)
    _scalar(setting)
    hyper, linear = setting.hyper, setting.linear
    return linear.mean_square(hyper.refresh_interval, hyper.momentum) / linear.largest


def _multiplier(setting: OperatingPoint) -> complex:
    if setting.exact_derivatives is not None:
        return complex(setting.exact_derivatives.here.multipliers[0])
    known(setting.linear)
    return complex(theory.multipliers(setting.loop, setting.hyper.learning_rate, setting.hyper.refresh_interval)[0])


def _steps(setting: OperatingPoint) -> int:
    if setting.exact_derivatives is not None:
        return setting.exact_derivatives.here.period
    return setting.loop.steps_per_map(setting.hyper.refresh_interval)


def _decay_time(setting: OperatingPoint) -> float:
    size = abs(_multiplier(setting))
    if not 0 < size < 1:
        raise Missing("grows" if size >= 1 else "gone within one block")
    return -_steps(setting) / math.log(size)


def _period(setting: OperatingPoint) -> float:
    found: float | None
    if setting.exact_derivatives is not None:
        found = setting.exact_derivatives.here.cycle
    else:
        known(setting.linear)
        found = theory.period(setting.loop, setting.hyper.learning_rate, setting.hyper.refresh_interval)
    if found is None or not math.isfinite(found):
        raise Missing("the dominant multiplier is real and positive: no cycle")
    return found


def _damping_ratio(setting: OperatingPoint) -> float:
    known(setting.linear)
    hyper, convention = setting.hyper, theory.as_convention(setting.linear.convention)
    osc = theory.oscillator(
        hyper.learning_rate,
        hyper.momentum,
        setting.linear.largest,
        setting.linear.lag(hyper.refresh_interval),
        convention,
    )
    if not float(osc.mass) > 0:
        raise Missing("no inertia at momentum 0")
    return float(osc.damping_ratio)


def _fastest(setting: OperatingPoint) -> float:
    known(setting.linear)
    convention = theory.as_convention(setting.linear.convention)
    return theory.fastest_update(setting.kappa, setting.hyper.momentum, convention)


def _time_constant(setting: OperatingPoint) -> float:
    known(setting.linear)
    hyper = setting.hyper
    return theory.time_constant(setting.linear.largest, hyper.learning_rate, hyper.momentum, setting.linear.convention)


def _std(setting: OperatingPoint, which: int) -> float:
    noise_of(setting)
    return number_of(setting.stationary[which])


def _small_step_logit(setting: OperatingPoint) -> float:
    noise, hyper = noise_of(setting), setting.hyper
    if noise.shape != (1, 1):
        raise Missing("one number only for two arms")
    gain = theory.gain(hyper.momentum, setting.linear.convention)
    reuse = hyper.refresh_interval if setting.batch_reuse else 1
    variance = theory.small_step_variance(
        hyper.learning_rate * gain, setting.linear.largest, hyper.momentum, float(noise[0, 0]) * reuse
    )
    return math.sqrt(2 * variance)  # the gap is sqrt(2) times the coordinate along (1, -1)/sqrt(2)


def _correlation_time(setting: OperatingPoint) -> float:
    noise, hyper = noise_of(setting), setting.hyper
    direction = np.linalg.eigh(noise)[1][:, -1]
    found = theory.correlation(
        setting.loop, hyper.learning_rate, hyper.refresh_interval, noise, direction, 1, setting.batch_reuse
    )
    if found is None:
        raise Missing("no stationary state beyond the threshold")
    return found.integrated_time * _steps(setting)


def _reuse_gain(setting: OperatingPoint) -> float:
    noise, hyper = noise_of(setting), setting.hyper
    if setting.linear.model not in ("refresh", "pipeline"):
        raise Missing("no blocks to reuse a batch in")
    pair = [
        theory.stationary_covariance(setting.loop, hyper.learning_rate, hyper.refresh_interval, noise, reuse).average
        for reuse in (True, False)
    ]
    if pair[0] is None or pair[1] is None:
        raise Missing("no stationary state beyond the threshold")
    return float(np.trace(pair[0]) / np.trace(pair[1]))


def _long_block(setting: OperatingPoint) -> float:
    known(setting.linear)
    fresh, stale = setting.linear.fresh, setting.linear.stale
    if fresh is None or stale is None or np.min(np.linalg.eigvals(fresh).real) <= 0:
        raise Missing("nothing fresh that could settle within a block")
    return float(np.max(np.abs(np.linalg.eigvals(np.linalg.solve(fresh, stale)))))


def _drawn_ages(which: Callable[..., Any]) -> Callable[[OperatingPoint], float]:
    def value(setting: OperatingPoint) -> float:
        wholly_stale(setting)
        hyper, linear = setting.hyper, setting.linear
        mean = mean_age(setting)
        if mean <= 0:
            raise Missing("the policy that acts is never old")
        found = which(mean, hyper.momentum, linear.convention)
        return float(getattr(found, "kappa", found)) / linear.largest

    return value


def _held_moment(setting: OperatingPoint) -> float:
    found = setting.derived
    if found is None:
        raise Missing("the linear theory has this optimiser")
    if found.reason is not None:
        raise Missing(found.reason)
    if not found.held:
        raise Missing("the optimiser has no second moment")
    if not found.threshold.learning_rate:
        raise Missing(found.threshold.reason or "unstable at every learning rate")
    return found.threshold.learning_rate


def _adam(setting: OperatingPoint) -> float:
    noise, name = setting.noise, setting.optimizer.name
    if setting.linear.convention not in theory.CONVENTIONS and setting.optimizer != Optimizer("adam"):
        raise Missing(f"of plain Adam, not of {name}" + (" with options" if name == "adam" else ""))
    group_size_of(setting)
    if noise is None:
        raise Missing(setting.noise_reason or "no formula for the gradient noise")
    if setting.linear.fresh is None or setting.linear.stale is None or np.any(setting.linear.fresh != 0):
        raise Missing("one number only where the whole stiffness is stale")
    if setting.linear.model not in theory.MODELS:
        raise Missing(f"no closed threshold with staleness={setting.linear.model}")
    basis = theory.ones_complement(len(setting.means))
    full = basis @ setting.linear.stale @ basis.T
    split = theory.Split(np.zeros_like(full), full)
    moment = theory.noise_second_moment(basis @ noise @ basis.T)
    hyper, model = setting.hyper, theory.as_model(setting.linear.model)
    return theory.adaptive_threshold(split, moment, model, hyper.refresh_interval, hyper.momentum).kappa


def _reward_spread(setting: OperatingPoint) -> float:
    win = success_chance(setting)
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
