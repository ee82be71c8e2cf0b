"""Do the three routes to the stiffness agree, and is the growth of a displaced run the one of its multipliers?"""

from dataclasses import replace
from unittest import SkipTest

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.lab.check.result import check, close, not_zero
from bandit_lab.lab.check.subject import LAWS, Subject
from bandit_lab.loop import Reason, loop_of
from bandit_lab.measure import find_fixed_point, fresh_and_stale, generic_direction, measure_stiffness
from bandit_lab.measure.fixed_point import FixedPoint
from bandit_lab.measure.period_jacobian import floquet, floquet_threshold
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.rollout import Stride, rollout

MOMENTUM, INTERVAL = 0.5, 2
STEPS, DISPLACEMENT = 800, 1e-8
LAGS, TOLD_APART = (1, 2, 3, 5, 8, 13, 21), 1e-4  # of two modes in the same numbers, see `growth_of`
SAME_GROWTH = 1e-6  # per step; what is allowed, so that growths below it are compared with nothing


def _fixed_point(subject: Subject) -> tuple[FixedPoint, np.ndarray]:
    """The fixed point and its parameters [D]."""
    point = find_fixed_point(subject.learner, subject.dynamics, subject.kl_weight)
    if point.theta is None:
        raise SkipTest(str(point.reason))
    return point, point.theta


@check("stiffness by three routes", "bandit", "advantage", "estimator", "kl_estimator", *LAWS)
def _stiffness(subject: Subject) -> str:
    """Jacobian of the drift, Hessian of the potential (where there is one), increments of a displaced run."""
    report = measure_stiffness(subject.learner, subject.dynamics, subject.kl_weight, _fixed_point(subject)[0])
    matrix = report.fresh + report.stale
    not_zero("stiffness", matrix)
    lines = [close("displaced run", report.relaxation_matrix, matrix, 1e-4, 1e-7)]
    if report.hessian is None:
        lines.append(f"no Hessian: {report.hessian_reason}")
    else:
        lines.append(close("Hessian", report.hessian, report.jacobian, 1e-8, 1e-9))
    return "; ".join(lines)


@check("multipliers against simulated growth", *("bandit", "estimator", "staleness", "optimizer"), *LAWS)
def _growth(subject: Subject) -> str:
    """log of the largest multiplier per step, and the growth of a displaced run, a thousandth off the threshold."""
    learner = subject.learner
    interval = max(INTERVAL, learner.staleness.smallest_interval)
    learner = replace(learner, horizon=learner.staleness.horizon_for(interval))
    point, theta = _fixed_point(replace(subject, learner=learner))
    rates, expected = _predicted(learner, subject, point, interval)
    not_zero("growth per step", expected, least=SAME_GROWTH)
    seen = [_displaced(learner, subject, theta, point.basis, rate, interval) for rate in rates]
    return close("growth per step", seen, expected, 0.01, SAME_GROWTH)


def _predicted(learner: Learner, subject: Subject, point: FixedPoint, interval: int) -> tuple[np.ndarray, list[float]]:
    """Two learning rates, a thousandth off the threshold, and the growth per step at each: by the loop, or of an
    optimiser that is not linear by differentiating the update as a whole."""
    fresh, stale = fresh_and_stale(learner, subject.dynamics, subject.kl_weight, point)
    loop, reason = loop_of(learner, fresh, stale, MOMENTUM, interval)
    near = np.array([0.999, 1.001])
    if loop is not None and reason is None:
        threshold = loop.threshold
        if not threshold.value:  # none, or the fixed point repels at every learning rate
            raise SkipTest(str(threshold.reason))
        rates = threshold.value * near
        sizes = [loop.multipliers(rate) for rate in rates]
        if any(isinstance(one, Reason) for one in sizes):
            raise SkipTest(str(Reason.TOO_LARGE))
        return rates, [float(np.log(np.abs(np.asarray(one)[0]))) / loop.rule.period for one in sizes]
    if reason is not Reason.NOT_LINEAR:
        raise SkipTest(str(reason))
    whole = floquet_threshold(learner, subject.dynamics, MOMENTUM, interval, subject.kl_weight)
    if not whole.learning_rate:
        raise SkipTest(str(whole.reason))
    rates = whole.learning_rate * near
    derived = [floquet(learner, subject.dynamics, Hyper(r, MOMENTUM, interval, subject.kl_weight)) for r in rates]
    if any(one.reason or one.moment_source for one in derived):
        raise SkipTest(derived[0].reason or "its second moment is fed by noise: there is no noise-free run")
    return rates, [one.growth for one in derived]


def _displaced(
    learner: Learner, subject: Subject, theta: np.ndarray, basis: np.ndarray, rate: float, interval: int
) -> float:
    """Growth per step of a small displacement, from the second half of a run.

    Seen is the part along `basis` [D, R], which changes the policy: what is neutral never decays. Seen is one moment of
    every period, where the rule is the same at every time.
    """
    whole = np.int32 if learner.staleness.whole_interval else float
    hyper = Hyper(*(jnp.asarray(v) for v in (rate, MOMENTUM, whole(interval), subject.kl_weight)))
    gradient, key = DYNAMICS[subject.dynamics](learner), jax.random.key(subject.seed)

    def displacement(stride: Stride) -> jax.Array:
        return (stride.after.theta - theta) @ basis

    @jax.jit
    def run(start: jax.Array) -> jax.Array:
        return rollout(learner, gradient, hyper, key, init(learner, hyper, start), STEPS, observe=displacement).seen

    seen = np.asarray(run(jnp.asarray(theta + DISPLACEMENT * generic_direction(basis))))
    period = learner.staleness.period(interval)
    return growth_of(seen[STEPS // 2 :: period]) / period


def growth_of(seen: np.ndarray) -> float:
    """Growth per row of seen [T, R], in which one mode is left, or a pair of them: log of their multiplier's size.

    A pair of modes obeys x(t + 2m) = a x(t + m) + b x(t) at every lag m, whatever its angle. Its multipliers' m-th
    powers are the roots of z^2 = a z + b. The lag is the one at which the two terms differ most. Of a single mode they
    never do: then the least a and b have it as their larger root.
    """
    scaled = seen / np.max(np.abs(seen))

    def terms(lag: int) -> np.ndarray:
        return np.stack([scaled[lag:-lag].ravel(), scaled[: -2 * lag].ravel()], axis=-1)

    def apart(lag: int) -> float:
        large, small = np.linalg.svd(terms(lag), compute_uv=False)
        return float(small / large)

    lag = max(LAGS, key=apart)
    a, b = np.linalg.lstsq(terms(lag), scaled[2 * lag :].ravel(), rcond=TOLD_APART)[0]
    return float(np.log(np.max(np.abs(np.roots([1.0, -a, -b]))))) / lag
