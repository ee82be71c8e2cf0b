"""Random (geometric) staleness: the average drift, mean-square stability, and typical (Lyapunov) stability.

Derived here. Ages k with P(k) = (1-q) q^k, mean age q/(1-q), one stiffness, kappa = eta K.

*Averaged over ages* the gradient is an exponential average of past positions; multipliers solve
(z-1)(z-mu)(z-q) + kappa (1-q) z^2 = 0, hence (heavy ball) a flip at 2(1+mu)(1+q)/(1-q), and a complex pair, whose real
companion must then be mu q, at (1-mu)(1-mu q)/(mu q). At mu = 0 this is EMA momentum q on policy (arXiv 1605.09774).

*With an age drawn at every step* x_{t+1} - x_t = -kappa x_{t-k} is a random recursion. Its second moments close exactly
for an infinite memory: besides the covariance C of (x, w, z), z_t = (1-q) sum q^k x_{t-k}, only
Q_t = (1-q) sum q^k E x_{t-k}^2 is needed, since given the past the drawn position has mean z_t and variance Q_t - z_t^2
on average: C' = B C B^T + U (Q - E z^2) U^T, Q' = (1-q) E x'^2 + q Q. At mu = 0 the threshold is the positive root of

    q kappa^2 + kappa (1-q)^2/2 - (1 - q^2) = 0.

Stability in mean square implies that almost every run decays; between the mean-square and the Lyapunov threshold runs
decay typically while their mean square grows. The Lyapunov exponent is estimated by a product of drawn steps.
"""

import numpy as np

from bandit_lab import _checks
from bandit_lab._root import root
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.conventions import CONVENTIONS, Convention, gain
from bandit_lab.theory.stability import first_unstable_learning_rate
from bandit_lab.theory.thresholds import Threshold


def _decay_of_mean_age(mean_age: float) -> float:
    """q = a/(1+a) of the geometric law with mean age a >= 0 [steps]. Raises ValueError for a < 0."""
    return _checks.non_negative("refresh_interval", mean_age) / (1 + mean_age)


def geometric_weights(mean_age: float, maximum: int, tail: str = "redraw") -> np.ndarray:
    """P(age = 0..maximum) [maximum + 1]: ages beyond it are drawn again (`redraw`) or set to it (`clip`).

    Raises ValueError for an unknown tail, a maximum or mean age < 0.
    """
    _checks.choice("tail", tail, ("redraw", "clip"))
    q = _decay_of_mean_age(mean_age)
    weights = (1 - q) * q ** np.arange(_checks.integer("maximum", maximum, 0) + 1)
    if tail == "clip":
        weights[-1] = q**maximum
        return weights
    return weights / weights.sum()


def averaged_threshold(mean_age: float, momentum: float, convention: Convention = "heavy_ball") -> Threshold:
    """First loss of stability of the age-averaged drift; closed form, Nesterov from the map. Infinite memory.

    Raises ValueError for an unknown convention, momentum outside [0, 1), mean age < 0.
    """
    _checks.choice("convention", convention, CONVENTIONS)
    mu, q = _checks.momentum("momentum", momentum), _decay_of_mean_age(mean_age)
    if convention == "nesterov":
        crossing = first_unstable_learning_rate(LinearLoop(0.0, 1.0, mu, "random", convention), mean_age)
        return Threshold(float(crossing.value or 0.0), "flip" if crossing.bifurcation == "flip" else "neimark_sacker")
    flip = 2 * (1 + mu) * (1 + q) / (1 - q)
    pair = (1 - mu) * (1 - mu * q) / (mu * q) if mu * q > 0 else np.inf
    first = Threshold(flip, "flip") if flip <= pair else Threshold(pair, "neimark_sacker")
    return Threshold(first.kappa / gain(mu, convention), first.bifurcation)


def mean_square_map(
    kappa: float, mean_age: float, momentum: float, convention: Convention = "heavy_ball"
) -> np.ndarray:
    """Linear map [10, 10] of (vec Cov(x, w, z_{t-1}), Q_{t-1}) under drawn geometric ages, infinite memory."""
    q = _decay_of_mean_age(mean_age)
    loop = LinearLoop(0.0, 1.0, momentum, "random", convention)
    mean = loop.map(kappa, mean_age)
    _, force = loop.step(kappa)
    kick = np.concatenate([force[:, 0], [0.0]])
    look = np.array([1 - q, 0.0, q])
    square = np.outer(kick, kick).ravel()
    position = np.eye(9)[0]
    drawn = np.concatenate([(1 - q) * position, [q]])
    averaged = np.concatenate([np.kron(look, look), [0.0]])
    full = np.zeros((10, 10))
    full[:9, :9] = np.kron(mean, mean)
    full[:9] += np.outer(square, drawn - averaged)
    full[9] = drawn
    return full


def mean_square_threshold(mean_age: float, momentum: float, convention: Convention = "heavy_ball") -> float:
    """Smallest kappa at which the mean square of a displacement stops decaying; ages drawn at every step.

    At mu = 0 the closed form of the module docstring, else scan and root of the 10 x 10 moment map.
    Raises ValueError for momentum outside [0, 1), mean age < 0.
    """
    mu, q = _checks.momentum("momentum", momentum), _decay_of_mean_age(mean_age)
    if mu == 0:
        half = 0.25 * (1 - q) ** 2
        return float((1 - q**2) / (half + np.sqrt(half**2 + q * (1 - q**2))))

    def excess(log_kappa: float) -> float:
        values = np.linalg.eigvals(mean_square_map(float(np.exp(log_kappa)), mean_age, mu, convention))
        return float(np.abs(values).max() - 1)

    top = np.log(1.01 * averaged_threshold(mean_age, mu, convention).kappa)
    grid = np.linspace(top - 14, top, 400)
    values = np.array([excess(g) for g in grid])
    i = int(np.argmax(values >= 0))
    return float(np.exp(root(excess, grid[i - 1], grid[i])))
