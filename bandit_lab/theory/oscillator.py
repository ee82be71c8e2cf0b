"""The continuous oscillator that momentum descent with a lag resembles.

Derived here. Momentum descent with gradient -stiffness * x taken `lag` steps ago obeys exactly

    mu (x[t+1] - 2 x[t] + x[t-1]) + (1 - mu) (x[t+1] - x[t]) + eta K x[t-lag] = 0,

and x(t - lag) ~ x - lag x' turns it into m x'' + gamma x' + K x = 0 with time in steps and

    m = mu / eta,    gamma = (1 - mu) / eta - K lag,    stiffness K.

The forward difference of the damping term carries half a step of inertia more, m = (1 + mu)/(2 eta): the `symmetric`
mass, closer at finite steps. EMA momentum (v <- mu v + (1 - mu) g) replaces eta by (1 - mu) eta. Damping stays
positive iff eta K lag < 1 - mu, the leading-order law (arXiv 2606.30789).

With a = gamma/(2m) and z = K/m - a^2 a displacement x0 with velocity v0 evolves as

    x(t) = exp(-a t) [x0 cos(sqrt z t) + (v0 + a x0) sin(sqrt z t)/sqrt z],

entire in z, hence one smooth formula through critical damping; from rest it is
x0 (r_f e^{-r_s t} - r_s e^{-r_f t})/(r_f - r_s), r_s <= r_f the two rates. Over-damped, with e = 1/(4 zeta^2) and
s = t K/gamma, these are 1 + e + ... and 1/e per unit of s, hence x/x0 - exp(-s) = e [(1 - s) exp(-s) - exp(-s/e)]
to first order in e.

`decaying_pair`: cos(sqrt z) and sin(sqrt z)/sqrt z are entire in z. Near z = 0 both are evaluated by their Taylor
series, whose derivatives are the exact ones. Elsewhere each branch only sees arguments of its own sign, so that none
leaks a NaN into a derivative. Written to the array API standard: the arguments bring their library along, so that plain
numbers need no JAX.

Step by step, on-policy: x[t+1] = (1 + mu - kappa) x[t] - mu x[t-1] has the poles of z^2 - (1 + mu - kappa) z + mu
(`poles`). `ema`: kappa -> (1 - mu) kappa.
"""

import cmath
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.conventions import CONVENTIONS, Convention, gain

_SERIES_RADIUS = 1.0
_SERIES_TERMS = 12
Real = Any  # a number, or an array of NumPy or JAX, traced or not
Mass = Literal["plain", "symmetric"]
Regime = Literal["overdamped", "critical", "oscillatory", "unstable"]


def namespace(*values: Any) -> Any:
    """The array library of these arguments: JAX's where one of them is its array, traced or not, else NumPy."""
    for value in values:
        if not isinstance(value, np.ndarray | np.generic) and hasattr(value, "__array_namespace__"):
            return value.__array_namespace__()
    return np


def floating(xp: Any, value: Any) -> Any:
    """The value as an array of `xp`; whole numbers become the default real type."""
    array = xp.asarray(value)
    return array if xp.issubdtype(array.dtype, xp.floating) else array.astype(xp.result_type(float))


def _series(xp: Any, z: Any, offset: int) -> Any:
    """Horner sum of (-z)^k / (2k + offset)! for k below the fixed number of terms."""
    total = xp.zeros_like(z)
    for k in reversed(range(_SERIES_TERMS)):
        total = total * -z + 1.0 / math.factorial(2 * k + offset)
    return total


def _split(xp: Any, z: Any) -> tuple[Any, Any, Any, Any]:
    """Series region, series argument, and the square roots of the positive and negative parts (safe elsewhere)."""
    small = xp.abs(z) < _SERIES_RADIUS
    near = xp.where(small, z, 0.0)
    positive = xp.sqrt(xp.where(~small & (z > 0), z, 1.0))
    negative = xp.sqrt(xp.where(~small & (z < 0), -z, 1.0))
    return small, near, positive, negative


def decaying_pair(decay: Any, squared_norm: Any) -> tuple[Any, Any]:
    """exp(-a) cos(sqrt z) and exp(-a) sin(sqrt z)/sqrt z with z = `squared_norm` - a^2, a = `decay`.

    No overflow when a is large: for z < 0, with b = sqrt(-z), the product is (exp(-(a-b)) +- exp(-(a+b)))/2. The
    smaller exponent comes from (a-b)(a+b) = `squared_norm`, which loses no digits however large a is.
    Arguments broadcast against each other; both are dimensionless. Derived here.
    """
    xp = namespace(decay, squared_norm)
    a, norm = xp.broadcast_arrays(floating(xp, decay), floating(xp, squared_norm))
    z = norm - a * a
    small, near, positive, negative = _split(xp, z)
    overdamped = ~small & (z < 0)
    larger = xp.abs(a) + negative
    smaller = xp.where(overdamped, norm / xp.where(overdamped, larger, 1.0), 0.0)
    slow = xp.where(a >= 0, smaller, -xp.where(overdamped, larger, 0.0))
    envelope = xp.exp(-slow)
    shrink = xp.exp(-2.0 * negative)
    factor = xp.exp(-xp.where(overdamped, 0.0, a))
    cosine = xp.where(
        overdamped, 0.5 * envelope * (1.0 + shrink), factor * xp.where(small, _series(xp, near, 0), xp.cos(positive))
    )
    sine = xp.where(
        overdamped,
        envelope * (1.0 - shrink) / (2.0 * negative),
        factor * xp.where(small, _series(xp, near, 1), xp.sin(positive) / positive),
    )
    return cosine, sine


@dataclass(frozen=True)
class Oscillator:
    """m x'' + gamma x' + K x = 0, time in steps, x in any unit.

    `mass` [steps / learning rate], `damping` [1 / learning rate], `stiffness` [reward per logit^2] may be traced
    arrays of one shape; `convention` names the momentum convention that they were built from.
    """

    mass: Real
    damping: Real
    stiffness: Real
    convention: str = "heavy_ball"

    @property
    def regime(self) -> Regime:
        """`unstable` (damping or stiffness not positive), `overdamped`, `critical` (to 1e-12) or `oscillatory`."""
        mass, damping, stiffness = float(self.mass), float(self.damping), float(self.stiffness)
        if damping <= 0 or stiffness <= 0:
            return "unstable"
        excess = damping**2 - 4 * mass * stiffness
        if abs(excess) <= 1e-12 * damping**2:
            return "critical"
        return "overdamped" if excess > 0 else "oscillatory"

    @property
    def damping_ratio(self) -> float:
        """gamma / (2 sqrt(m K)): 1 at critical damping, infinite at zero mass."""
        scale = 2 * math.sqrt(float(self.mass) * float(self.stiffness))
        return float(self.damping) / scale if scale > 0 else math.inf

    @property
    def rates(self) -> tuple[complex, complex]:
        """The two decay rates r_s, r_f [1/step], the roots of m r^2 - gamma r + K; r_f is infinite at m = 0."""
        mass, damping, stiffness = float(self.mass), float(self.damping), float(self.stiffness)
        root = complex(damping**2 - 4 * mass * stiffness) ** 0.5
        fast = damping + root if damping >= 0 else damping - root
        if mass == 0:
            return complex(stiffness / damping), complex(math.inf)
        if fast == 0:
            return 0j, 0j
        pair = sorted((2 * stiffness / fast, fast / (2 * mass)), key=lambda r: (r.real, r.imag))
        return pair[0], pair[1]


def oscillator(
    learning_rate: Real,
    momentum: Real,
    stiffness: Real,
    lag: Real = 0.0,
    convention: Convention = "heavy_ball",
    mass: Mass = "plain",
) -> Oscillator:
    """The oscillator of momentum descent with a mean lag.

    m = mu/eta (`plain`) or (1+mu)/(2 eta) (`symmetric`), gamma = (1-mu)/eta - K lag; `ema`: eta -> (1-mu) eta.
    `lag` in steps; arguments are scalars or arrays of one shape. Nesterov's look-ahead adds mu K
    to the damping and leaves the mass. Derived in this module; leading order as in arXiv 2606.30789.
    Raises ValueError for an unknown convention or mass, and for numbers out of range.
    """
    _checks.choice("convention", convention, CONVENTIONS)
    _checks.choice("mass", mass, ("plain", "symmetric"))
    _checks.require(bool(np.all(np.asarray(learning_rate) > 0)), "learning_rate", "a number > 0", learning_rate)
    inside = np.all((np.asarray(momentum) >= 0) & (np.asarray(momentum) < 1))
    _checks.require(bool(inside), "momentum", "a number in [0, 1)", momentum)
    eta = learning_rate * gain(momentum, convention)
    inertia = momentum if mass == "plain" else 0.5 * (1.0 + momentum)
    damping = (1.0 - momentum) / eta - stiffness * lag
    if convention == "nesterov":
        damping = damping + momentum * stiffness
    return Oscillator(inertia / eta, damping, stiffness, convention)


def displacement(osc: Oscillator, time: Real, start: Real, velocity: Real = 0.0) -> Any:
    """x(t) after a displacement `start` with `velocity` [per step]: exp(-at) [x0 C + (v0 + a x0) S].

    One formula in every regime, differentiable in every parameter, exact limit of a first-order decay at mass 0 (a
    velocity is then forgotten at once). `time` [T] in steps >= 0. Derived in this module.
    """
    xp = namespace(time, osc.mass, osc.damping, osc.stiffness, start, velocity)
    time = floating(xp, time)
    tiny = float(xp.finfo(time.dtype).eps) ** 2
    mass = xp.maximum(xp.asarray(osc.mass, dtype=time.dtype), tiny)
    half = xp.asarray(osc.damping, dtype=time.dtype) / (2.0 * mass)
    squared = xp.asarray(osc.stiffness, dtype=time.dtype) / mass
    cosine, sine = decaying_pair(half * time, squared * time * time)
    return (cosine + half * time * sine) * start + time * sine * velocity


def response(osc: Oscillator, time: Real, initial: Real, final: Real, velocity: Real = 0.0) -> Any:
    """R(t) from `initial` towards `final` [reward], by default from rest: a slow start, then saturation.

    R = R_inf - (R_inf - R_0)(r_f e^{-r_s t} - r_s e^{-r_f t})/(r_f - r_s) (arXiv 2606.30789), written as
    `displacement` so that all regimes are one smooth formula. `time` [T] in steps.
    """
    return displacement(osc, time, initial - final, velocity) + final


def poles(kappa: float, momentum: float, convention: Convention = "heavy_ball") -> tuple[complex, complex]:
    """The two multipliers per step, larger modulus first; `nesterov`: roots of z^2 - (1+mu)(1-kappa) z + mu(1-kappa).

    `kappa` = learning rate times stiffness. Raises ValueError for momentum outside [0, 1).
    """
    _checks.choice("convention", convention, CONVENTIONS)
    _checks.momentum("momentum", momentum)
    scaled = kappa * gain(momentum, convention)
    if convention == "nesterov":
        trace, product = (1 + momentum) * (1 - scaled), momentum * (1 - scaled)
    else:
        trace, product = 1 + momentum - scaled, momentum
    root = cmath.sqrt(trace * trace - 4 * product)
    large = (trace + root) / 2 if trace >= 0 else (trace - root) / 2
    return (large, product / large) if large != 0 else (0j, 0j)
