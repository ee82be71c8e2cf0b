"""Every statement of the theory about one setting, each with its unit, its meaning and how good it is.

The table below is the single source of what `predict` prints, of `statements` in its summary and of its help text.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bandit_lab import theory
from bandit_lab.study.statement import (
    EXACT,
    LEADING,
    LINEAR,
    STATUS,
    Missing,
    Setting,
    Statement,
    binary,
    finite_group,
    known,
    mean_age,
    noise_of,
    success_chance,
    wholly_stale,
)
from bandit_lab.study.statements_nonlinear import HORIZON, collapsed, half_rise


def evaluate(setting: Setting) -> list[dict[str, Any]]:
    """All statements at an existing fixed point: key, name, value, unit, status, meaning; `reason` beside a null."""
    rows = []
    for statement in STATEMENTS:
        row: dict[str, Any] = {"key": statement.key, "name": statement.name}
        try:
            row["value"] = statement.value(setting)
        except (Missing, ValueError) as reason:
            row |= {"value": None, "reason": str(reason)}
        rows.append(row | {"unit": statement.unit, "status": statement.status, "meaning": statement.meaning})
    return rows


def explain() -> list[str]:
    """Lines for `predict --help`: every quantity with its unit, status and meaning."""
    lines = ["quantities (unit; how good):"]
    for s in STATEMENTS:
        lines.append(f"  {s.name} ({s.unit or 'pure number'}; {s.status})")
        lines.append(f"      {s.meaning}")
    return lines + [f"  {name}: {text}" for name, text in STATUS.items()]


def _stiffness_shift(setting: Setting) -> float:
    finite_group(setting)
    found = theory.group_shift(binary(setting).success, setting.reference, setting.hyper.kl_weight, binary(setting).law)
    if found is None:
        raise Missing("one of the two drifts has no attracting fixed point")
    return found.stiffness


def _silent(setting: Setting) -> float:
    return float(theory.silent_rate(finite_group(setting), success_chance(setting)))


def _group_factor(setting: Setting) -> float:
    finite_group(setting)
    law, win = binary(setting).law, success_chance(setting)
    return float(law.factor(win) / replace(law, group_size=None).factor(win))


def _group_expansion(setting: Setting) -> float:
    size, signal = finite_group(setting), binary(setting)
    if signal.law.advantage != "grpo":
        raise Missing("an expansion of the std-normalised advantage")
    return float(theory.factor_expansion(size, np.array(success_chance(setting)))[0])


def _critical_weight(setting: Setting) -> float:
    if setting.signal is None:
        raise Missing("no closed form for this bandit and advantage")
    found = theory.critical_kl_weight(setting.signal, setting.reference)
    if found is None:
        raise Missing("every KL weight > 0 has an interior fixed point")
    return found


def _mean_age_law(setting: Setting) -> float:
    known(setting.linear)
    hyper, linear = setting.hyper, setting.linear
    law = theory.leading_order(mean_age(setting), hyper.momentum, linear.convention)  # type: ignore[arg-type]
    if not math.isfinite(law):
        raise Missing("the policy that acts is never old")
    return law / linear.largest


def _multiplier(setting: Setting) -> complex:
    known(setting.linear)
    return complex(theory.multipliers(setting.loop, setting.hyper.learning_rate, setting.hyper.refresh_interval)[0])


def _steps(setting: Setting) -> int:
    return setting.loop.steps_per_map(setting.hyper.refresh_interval)


def _decay_time(setting: Setting) -> float:
    size = abs(_multiplier(setting))
    if not 0 < size < 1:
        raise Missing("grows" if size >= 1 else "gone within one block")
    return -_steps(setting) / math.log(size)


def _period(setting: Setting) -> float:
    angle = abs(np.angle(_multiplier(setting)))
    if angle < 1e-12:
        raise Missing("the dominant multiplier is real and positive: no cycle")
    return 2 * math.pi / angle * _steps(setting)


def _damping_ratio(setting: Setting) -> float:
    known(setting.linear)
    hyper = setting.hyper
    osc = theory.oscillator(
        hyper.learning_rate,
        hyper.momentum,
        setting.linear.largest,
        hyper.refresh_interval,
        setting.linear.convention,  # type: ignore[arg-type]
    )
    if not float(osc.mass) > 0:
        raise Missing("no inertia at momentum 0")
    return float(osc.damping_ratio)


def _fastest(setting: Setting) -> float:
    known(setting.linear)
    return theory.fastest_update(setting.kappa, setting.hyper.momentum, setting.linear.convention)  # type: ignore[arg-type]


def _time_constant(setting: Setting) -> float:
    known(setting.linear)
    hyper = setting.hyper
    return theory.time_constant(setting.linear.largest, hyper.learning_rate, hyper.momentum, setting.linear.convention)


def _stds(setting: Setting) -> tuple[float, float]:
    hyper, noise = setting.hyper, noise_of(setting)
    found = theory.stationary_covariance(
        setting.loop, hyper.learning_rate, hyper.refresh_interval, noise, setting.batch_reuse
    )
    if found.average is None:
        raise Missing(found.reason or "no stationary state")
    policy = np.asarray(setting.linear.policy)
    reported = setting.reported
    return theory.reward_std(policy, reported, found.average), theory.logit_std(policy, reported, found.average)


def _small_step_logit(setting: Setting) -> float:
    noise, hyper = noise_of(setting), setting.hyper
    if noise.shape != (1, 1):
        raise Missing("one number only for two arms")
    gain = theory.gain(hyper.momentum, setting.linear.convention)
    reuse = hyper.refresh_interval if setting.batch_reuse else 1
    variance = theory.small_step_variance(
        hyper.learning_rate * gain, setting.linear.largest, hyper.momentum, float(noise[0, 0]) * reuse
    )
    return math.sqrt(2 * variance)  # the gap is sqrt(2) times the coordinate along (1, -1)/sqrt(2)


def _correlation_time(setting: Setting) -> float:
    noise, hyper = noise_of(setting), setting.hyper
    direction = np.linalg.eigh(noise)[1][:, -1]
    found = theory.correlation(
        setting.loop, hyper.learning_rate, hyper.refresh_interval, noise, direction, 1, setting.batch_reuse
    )
    if found is None:
        raise Missing("no stationary state beyond the threshold")
    return found.integrated_time * _steps(setting)


def _reuse_gain(setting: Setting) -> float:
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


def _long_block(setting: Setting) -> float:
    known(setting.linear)
    fresh, stale = setting.linear.fresh, setting.linear.stale
    if fresh is None or stale is None or np.min(np.linalg.eigvals(fresh).real) <= 0:
        raise Missing("nothing fresh that could settle within a block")
    return float(np.max(np.abs(np.linalg.eigvals(np.linalg.solve(fresh, stale)))))


def _drawn_ages(which: Callable[..., Any]) -> Callable[[Setting], float]:
    def value(setting: Setting) -> float:
        wholly_stale(setting)
        hyper, linear = setting.hyper, setting.linear
        mean = mean_age(setting)
        if mean <= 0:
            raise Missing("the policy that acts is never old")
        found = which(mean, hyper.momentum, linear.convention)
        return float(getattr(found, "kappa", found)) / linear.largest

    return value


def _adam(setting: Setting) -> float:
    noise = setting.noise
    finite_group(setting)
    if noise is None:
        raise Missing(setting.noise_reason or "no formula for the gradient noise")
    if setting.linear.fresh is None or setting.linear.stale is None or np.any(setting.linear.fresh != 0):
        raise Missing("one number only where the whole stiffness is stale")
    basis = theory.ones_complement(len(setting.means))
    full = basis @ setting.linear.stale @ basis.T
    split = theory.Split(np.zeros_like(full), full)
    moment = theory.noise_second_moment(basis @ noise @ basis.T)
    hyper = setting.hyper
    return theory.adaptive_threshold(split, moment, setting.linear.model, hyper.refresh_interval, hyper.momentum).kappa


def _reward_spread(setting: Setting) -> float:
    win = success_chance(setting)
    return math.sqrt(win * (1 - win))


STATEMENTS: tuple[Statement, ...] = (
    Statement("critical_kl_weight", "critical KL weight", "reward/nat", EXACT,
              "below it the policy runs to a vertex: no interior fixed point", _critical_weight),
    Statement("group_factor", "group factor", "", EXACT,
              "mean reward gradient at this G over that at G = infinity, at the fixed point; c_G for grpo",
              _group_factor),
    Statement("group_factor_expansion", "  first order 1 - 1/(8 G J (1-J))", "", LEADING,
              "the same to first order in 1/G; fails where G J (1-J) is of order 1", _group_expansion),
    Statement("stiffness_shift", "  stiffness at G over infinity, less 1", "", EXACT,
              "group size is not only a temperature: thresholds move the other way", _stiffness_shift),
    Statement("silent_groups", "silent groups", "share", EXACT,
              "probability that all rewards of a group are equal", _silent),
    Statement("reward_spread", "within-group reward std", "reward", EXACT,
              "by which GRPO divides; bounds the local curvature (arXiv 2601.23135)", _reward_spread),
    Statement("mean_age_law", "learning rate: law with the mean age", "eta", LEADING,
              "K eta (mean age of the acting policy) = 1 - mu, the limit of the exact threshold", _mean_age_law),
    Statement("averaged_ages", "  random ages, age-averaged drift", "eta", LINEAR,
              "threshold if ages were geometric with the same mean and averaged over",
              _drawn_ages(theory.averaged_threshold)),
    Statement("drawn_ages", "  random ages, drawn: mean square", "eta", LINEAR,
              "threshold of the mean square if such an age were drawn at every step",
              _drawn_ages(theory.mean_square_threshold)),
    Statement("adam", "  Adam at this noise, b1 = mu", "eta", LEADING,
              "threshold with the second moment held at its noise-stationary value; falls about as 1/sqrt(G)", _adam),
    Statement("long_block", "long blocks: multiplier", "", LINEAR,
              "N -> infinity limit of the block map, |H_fresh^-1 H_stale|; below 1 every N is safe at small steps",
              _long_block),
    Statement("time_constant", "time constant (1-mu)/(eta K)", "steps", LEADING,
              "of the single exponential, the over-damped limit", _time_constant),
    Statement("decay_time", "  slowest decay", "steps", LINEAR,
              "1/e time of a displacement by the dominant multiplier", _decay_time),
    Statement("period", "  period", "steps", LINEAR, "of the cycle of the dominant multiplier", _period),
    Statement("damping_ratio", "  damping ratio", "", LEADING,
              "of the oscillator with lag N; below 1 it rings, below 0 it grows", _damping_ratio),
    Statement("fastest_update", "  fastest update, from rest, N = 1", "update", LINEAR,
              "number of the update that moves most: the inertial part of a slow start", _fastest),
    Statement("stationary_reward", "stationary std: expected reward", "reward", LINEAR,
              "over all steps of a long run, discrete Lyapunov equation with the optimiser's state",
              lambda s: _stds(s)[0]),
    Statement("stationary_logit", "  log-odds of the best arm", "nats", LINEAR, "the same for the log-odds",
              lambda s: _stds(s)[1]),
    Statement("small_step_logit", "  small-step temperature", "nats", LEADING,
              "sqrt(eta s^2/(2 lambda (1-mu))), N-fold variance with batch reuse", _small_step_logit),
    Statement("half_rise", "rise from the initial policy, half-way", "steps", LEADING,
              "of the gradient flow, softmax geometry without inertia; momentum adds mu/(1-mu) (1 + ln speed-up) steps",
              half_rise),
    Statement("collapsed", f"collapsed after {HORIZON} steps", "share", EXACT,
              "runs carried by noise from the fixed point to the vertex: below the threshold, too", collapsed),
    Statement("correlation_time", "  correlation time", "steps", LINEAR,
              "integrated autocorrelation time of the noisiest direction", _correlation_time),
    Statement("reuse_gain", "  variance gain of reusing a batch", "", LINEAR,
              "variance with one batch per block over variance with fresh groups; N at small steps", _reuse_gain),
)  # fmt: skip
