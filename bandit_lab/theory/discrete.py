"""On-policy momentum descent on a quadratic, step by step: exact, with its two poles.

Derived here. x[t+1] = (1 + mu - kappa) x[t] - mu x[t-1] has the poles z1, z2 of z^2 - (1 + mu - kappa) z + mu, and
from rest (v = 0, so x[1] = (1 - kappa) x[0])

    x[t] = x[0] (D[t+1] - mu D[t]),     D[t] = (z1^t - z2^t)/(z1 - z2),
    x[t+1] - x[t] = -kappa x[0] D[t+1].

D obeys the same recurrence with D[0] = 0, D[1] = 1 and needs no regime switch. Update number s = t + 1 is the one
that improves most where D[s] is largest: s* = ln(ln z2/ln z1)/ln(z1/z2), that is 1/ln(1/sqrt mu) for a double pole
and atan2(phi, -ln sqrt mu)/phi for poles sqrt(mu) exp(+-i phi). `ema`: kappa -> (1 - mu) kappa.
"""

import cmath
import math

from bandit_lab import _checks
from bandit_lab.theory.conventions import CONVENTIONS, Convention, gain


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


def fastest_update(kappa: float, momentum: float, convention: Convention = "heavy_ball") -> float:
    """Number s* >= 1 (real) of the update that moves most, from rest: s* = ln(ln z2/ln z1)/ln(z1/z2).

    The s-th update leads from x[s-1] to x[s]. 1 at zero momentum. Heavy ball and EMA only, for positive or complex
    poles (kappa below (1 + sqrt mu)^2). Raises ValueError beyond that and for nesterov. Derived in this module.
    """
    _checks.choice("convention", convention, ("heavy_ball", "ema"))
    scaled = kappa * gain(_checks.momentum("momentum", momentum), convention)
    limit = (1 + math.sqrt(momentum)) ** 2
    _checks.require(0 < scaled < limit, "kappa", f"a number between 0 and {limit:.6g} (EMA gain included)", kappa)
    if momentum == 0:
        return 1.0
    decay = -0.5 * math.log(momentum)
    cosine = (1 + momentum - scaled) / (2 * math.sqrt(momentum))
    if abs(cosine - 1) < 1e-9:
        best = 1 / decay
    elif cosine < 1:
        angle = math.acos(cosine)
        best = math.atan2(angle, decay) / angle
    else:
        split = math.acosh(cosine)
        best = math.atanh(split / decay) / split
    return max(best, 1.0)
