"""The two poles of on-policy momentum descent on a quadratic.

Derived here: x[t+1] = (1 + mu - kappa) x[t] - mu x[t-1] has the poles of z^2 - (1 + mu - kappa) z + mu. `ema`:
kappa -> (1 - mu) kappa.
"""

import cmath

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
