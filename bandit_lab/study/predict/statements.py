"""The value of every quantity in `quantities`, for one setting."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bandit_lab import theory
from bandit_lab.study.document import Value
from bandit_lab.study.predict.nonlinear import collapsed, half_rise
from bandit_lab.study.predict.statement import (
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
from bandit_lab.study.quantities import QUANTITIES, Quantity


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
    not_special(setting)
    if setting.signal is None:
        raise Missing("no closed form for this bandit and advantage")
    found = theory.critical_kl_weight(setting.signal, setting.reference)
    if found is None:
        raise Missing("every KL weight > 0 has an interior fixed point")
    return found


def _mean_age_law(setting: OperatingPoint) -> float:
    known(setting.linear)
    hyper, linear = setting.hyper, setting.linear
    law = theory.leading_order(mean_age(setting), hyper.momentum, theory.as_convention(linear.convention))
    if not math.isfinite(law):
        raise Missing("the policy that acts is never old")
    return law / linear.largest


def _multiplier(setting: OperatingPoint) -> complex:
    known(setting.linear)
    return complex(theory.multipliers(setting.loop, setting.hyper.learning_rate, setting.hyper.refresh_interval)[0])


def _steps(setting: OperatingPoint) -> int:
    return setting.loop.steps_per_map(setting.hyper.refresh_interval)


def _decay_time(setting: OperatingPoint) -> float:
    size = abs(_multiplier(setting))
    if not 0 < size < 1:
        raise Missing("grows" if size >= 1 else "gone within one block")
    return -_steps(setting) / math.log(size)


def _period(setting: OperatingPoint) -> float:
    known(setting.linear)
    found = theory.period(setting.loop, setting.hyper.learning_rate, setting.hyper.refresh_interval)
    if found is None:
        raise Missing("the dominant multiplier is real and positive: no cycle")
    return found


def _damping_ratio(setting: OperatingPoint) -> float:
    known(setting.linear)
    hyper, convention = setting.hyper, theory.as_convention(setting.linear.convention)
    osc = theory.oscillator(
        hyper.learning_rate, hyper.momentum, setting.linear.largest, hyper.refresh_interval, convention
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


def _adam(setting: OperatingPoint) -> float:
    noise = setting.noise
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
    "group_factor": _group_factor,
    "group_factor_expansion": _group_expansion,
    "stiffness_shift": _stiffness_shift,
    "silent_groups": _silent,
    "reward_spread": _reward_spread,
    "mean_age_law": _mean_age_law,
    "averaged_ages": _drawn_ages(theory.averaged_threshold),
    "drawn_ages": _drawn_ages(theory.mean_square_threshold),
    "adam": _adam,
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
