"""Exact nonlinear training curves of two arms: continuous time, no KL term, one gap x = theta_1 - theta_2.

Derived here. Let p = sigma(x) be the good arm's probability and let the gap move at rate c h(p) p (1-p) per unit of
eta * t, with c = 2 when both logits are trained and c = 1 for the one-logit form. For rewards 1 and 0

    standardised, G = infinity   x' = c/(2 cosh(x/2)):    sinh(x/2) = sinh(x0/2) + c t/4            (the sinh law)
    mean-only                    x' = c p(1-p):           x + sinh x = x0 + sinh x0 + c t/2
    any group law                t = (1/c) integral dx/(h(p) p (1-p))

where t stands for learning rate times steps over 1 - mu (`effective_time`). Late times, q = 1 - p:

    mean-only 1/(c t);   standardised 4/(c t)^2 down to G q ~ 1, then 1/(sqrt(G-1) c t);
    silent groups dropped: exponential, rate c sqrt(G-1)/G;   K equal losers, mean-only: q t -> (K-1)/K (both logits).

In general x' = c h p q gives q' = -c h(J) (p q)^2: where h tends to a number h(1) at the vertex, q -> 1/(h(1) c t), and
where h -> q^(-a/2), a < 2 the power of the std that divides, q -> ((1 - a/2) c t)^(-1/(1 - a/2)).

A verifier with true and false positive rates sees success probability TPR - J b at bad mass b, J = TPR - FPR; its
sign decides between learning and anti-learning, and J = 1 is the sinh law (arXiv 2601.04411):
b = 1/2 + u/(2 sqrt(4 + u^2)), u = (2 b0 - 1)/sqrt(b0 (1 - b0)) - c t/2.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from scipy.special import expit

from bandit_lab import _checks
from bandit_lab.theory.conventions import gain
from bandit_lab.theory.group_law import GroupLaw

Real = float | Array


def effective_time(steps: Real, learning_rate: Real, momentum: Real = 0.0, convention: str = "heavy_ball") -> Real:
    """Time of the flow [logit^2 per reward] after `steps` updates: eta t/(1 - mu), `ema`: eta t; inertia left out."""
    return steps * learning_rate * gain(momentum, convention) / (1.0 - momentum)


def _rate(logits: int) -> float:
    _checks.require(logits in (1, 2), "logits", "1 or 2", logits)
    return float(logits)


def sinh_law(time: Array, start: Real, logits: int = 2) -> Array:
    """Probability [T] of the good arm, standardised advantage, G = infinity: (1 + u/sqrt(1+u^2))/2, u = sinh(x/2).

    `time` [T] from `effective_time`, `start` the initial gap x0. Exact, any two noise-free rewards (the std removes
    their scale). Derived in this module.
    """
    u = jnp.sinh(0.5 * jnp.asarray(start)) + 0.25 * _rate(logits) * time
    return softmax_law(u, 0.0, 1.0, 0.0, 1.0)


def softmax_law(time: Array, low: Real, high: Real, offset: Real, rate: Real) -> Array:
    """R(t) = R_lo + (R_hi - R_lo)(1 + u/sqrt(1 + u^2))/2, u = u_0 + r t: the sinh law as a curve to fit.

    A slow start without any inertia; `rate` r per unit of `time` [T]. Smooth in every parameter.
    """
    u = offset + rate * time
    return low + (high - low) * 0.5 * (1.0 + u / jnp.sqrt(1.0 + u * u))


def mean_only_law(time: Array, start: Real, advantage_gap: Real = 1.0, logits: int = 2) -> Array:
    """Probability [T] of the good arm, mean-only advantage: x + sinh x = x0 + sinh x0 + c gap t/2, inverted.

    `advantage_gap` is the difference of the two mean rewards, times 1 - 1/G at a finite group. Exact, also for noisy
    rewards; differentiable in every argument.
    """
    start = jnp.asarray(start)
    return jax.nn.sigmoid(_invert(start + jnp.sinh(start) + 0.5 * _rate(logits) * advantage_gap * jnp.asarray(time)))


def _invert(target: Array) -> Array:
    """x with x + sinh x = target, by Newton steps; the last one carries the derivative."""
    x = jnp.arcsinh(target)
    x = jnp.where(jnp.abs(target) < 4.0, 0.5 * target, x)
    for _ in range(40):
        x = x - (x + jnp.sinh(x) - target) / (1.0 + jnp.cosh(x))
    x = jax.lax.stop_gradient(x)
    return x - (x + jnp.sinh(x) - target) / (1.0 + jnp.cosh(x))


def group_curve(time: np.ndarray, start: float, law: GroupLaw, logits: int = 2) -> np.ndarray:
    """Probability [T] of the good arm (rewards 1 and 0) under any group law: the flow integrated to 1e-11.

    `time` [T] increasing, >= 0, from `effective_time`; `start` the initial gap.
    """
    time, rate = np.asarray(time, float), _rate(logits)

    def speed(_: float, x: np.ndarray) -> np.ndarray:
        p, q = expit(x), expit(-x)
        return rate * law.factor(p, q) * p * q

    end = float(time[-1]) if time[-1] > 0 else 1.0
    path = scipy.integrate.solve_ivp(speed, (0.0, end), [start], t_eval=time, method="LSODA", rtol=1e-11, atol=1e-12)
    return expit(path.y[0])


def late_law(time: np.ndarray, law: GroupLaw, logits: int = 2) -> np.ndarray:
    """Leading late-time loss 1 - p [T] for rewards 1 and 0, eps = 0 (module docstring); nan where it is exponential.

    That is for `dapo` in finite groups, and for the std to the power 2. Finite standardised groups: the second stage
    1/(sqrt(G-1) c t), valid once G (1 - p) << 1.
    """
    scaled = _rate(logits) * np.asarray(time, float)
    bend = 1 - law.std_power / 2
    if bend == 0 if law.group_size is None else law.rule.drops:
        return np.full_like(scaled, np.nan)
    if law.group_size is None and law.std_power > 0:
        return (bend * scaled) ** (-1 / bend)
    return 1.0 / (float(law.factor(1.0, 0.0)) * scaled)


def late_decay_rate(group_size: int, logits: int = 2) -> float:
    """Exponential rate of 1 - p per unit of `effective_time` when silent groups are dropped: c sqrt(G-1)/G."""
    return _rate(logits) * float(np.sqrt(group_size - 1)) / group_size


def noisy_verifier_curve(
    time: np.ndarray, bad_mass: float, true_positive: float, false_positive: float, logits: int = 2
) -> np.ndarray:
    """Bad mass b [T] under a noisy verifier, standardised advantage at G = infinity (arXiv 2601.04411).

    b' = -c J b^2 (1-b)^2/sqrt(s(1-s)), s = TPR - J b: falls, stays or grows with the sign of J = TPR - FPR.
    """
    rate, gap = _rate(logits), true_positive - false_positive

    def speed(_: float, b: np.ndarray) -> np.ndarray:
        seen = true_positive - gap * b
        return -rate * gap * (b * (1 - b)) ** 2 / np.sqrt(seen * (1 - seen))

    time = np.asarray(time, float)
    end = float(time[-1]) if time[-1] > 0 else 1.0
    return scipy.integrate.solve_ivp(
        speed, (0.0, end), [bad_mass], t_eval=time, method="LSODA", rtol=1e-11, atol=1e-13
    ).y[0]


def perfect_verifier_law(time: Array, bad_mass: Real, logits: int = 2) -> Array:
    """Bad mass [T] at J = 1: 1/2 + u/(2 sqrt(4+u^2)), u = (2 b0-1)/sqrt(b0(1-b0)) - c t/2 (arXiv 2601.04411)."""
    bad = jnp.asarray(bad_mass)
    u = (2.0 * bad - 1.0) / jnp.sqrt(bad * (1.0 - bad)) - 0.5 * _rate(logits) * time
    return 0.5 + u / (2.0 * jnp.sqrt(4.0 + u * u))
