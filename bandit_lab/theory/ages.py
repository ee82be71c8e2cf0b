"""Any distribution of ages: thresholds of averaged and of drawn ages, and what bounds them.

Derived here; K real and wholly stale, kappa = eta K, shares q(a) of the ages a = 0..S, mean age abar. Multipliers z
solve

    (z-1)(z-mu) + kappa gain b(z) Q(1/z) = 0,   Q(w) = sum_a q(a) w^a,   b(z) = z (Nesterov: (1+mu) z - mu).

*Averaged over ages.* On the circle this is kappa = -(z-1)(z-mu)/(gain b Q): stability is lost first at the least
positive kappa among the angles where it is real, for small kappa is stable. For heavy ball it splits into kappa E
cos(wa) = (1+mu)(1 - cos w) and kappa E sin(wa) = (1-mu) sin w.

*Onset of oscillation, heavy ball.* kappa(r) = (1-r)(r-mu)/(gain r Q(1/r)), mu < r < 1, is at most its largest value.
Below that value two real multipliers lie in (mu, 1). Between their moduli |(z-1)(z-mu)| >= (1-r)(r-mu) > kappa gain
|z Q(1/z)|, so that by Rouche one multiplier alone is outside, the larger real one: it dominates. Above it there is none
in (mu, 1), and elsewhere no positive one ever. So the onset is the largest value.

*The law with the mean age is safe* (theorem 1): |sin(wa)| <= a |sin w| for integers a gives kappa >= (1-mu)/abar at
every crossing with 0 < w < pi, and at w = pi |E(-1)^a| <= 1 gives kappa >= 2(1+mu). Equality at the constant age 1.
It does not hold for ages that are a function of time: model A at mu = 0 has kappa abar = (N-1)/N.

*Symmetric shares* (theorem 2) have the threshold of the constant age abar over rho = E cos(w (a - abar)), w the
frequency at which that crosses. At mu = 0 w = pi/(2 abar + 1): all |w (a - abar)| < pi/2, so that rho > 0, and no other
angle comes first, for |sin(ny)|/sin y at y = pi/2 - w (a - abar) >= w/2 is at most its value at w/2. With momentum no
exception was found in 20,000 random laws.

*A bound on the age is a guarantee* (theorem 3): with a <= S no averaged law is less stable than the constant age S.
The left side of the two equations lies in the cone of the arc {e^(iwa): a <= S} with modulus <= kappa; the right side
has the argument pi/2 - w/2 - atan2(mu sin w, 1 - mu cos w), which falls with w, and the modulus 2 sin(w/2)|1 - mu
e^(-iw)|, which rises. Below the frequency of the constant age S the argument is outside of the cone; from there on
kappa is at least the modulus there, the threshold of S. Heavy ball; for Nesterov not proved.

*Mixed within a batch or in turn.* Uniform ages 0..n-1 are those of model A with N = n, passed through in turn. At mu
= 0 the mixture has kappa = 2 n sin^2(pi/(2n)), model A 2/n: n^2 sin^2(pi/(2n)), up to pi^2/4 times as much. With
momentum the mixture may be the less stable one: `in_turn` gives the factor.

*Drawn, B independent ages in every update.* A batch's gradient is the average over ages plus noise of variance
kappa^2 (1 - |Q|^2)/B per unit of the spectrum of x, so that the mean square stays bounded below the root of

    (kappa gain)^2/(2 pi B) int |b/((z-1)(z-mu) + kappa gain b Q)|^2 (1 - |Q|^2) dw = 1,

and below the averaged threshold. Sources: section 2 of arXiv 2606.30789 asks the question for a constant interval
only; no source for the rest is known to us.
"""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from bandit_lab import _checks
from bandit_lab.theory.conventions import CONVENTIONS, Convention, gain
from bandit_lab.theory.thresholds import Threshold, exact

_ANGLES = 256
"""Angles of the scan for every step of the largest age: a crossing turns by pi/(2S) at least."""
_MOST_ANGLES = 2**22
_OFF = 1 / (1 + 5**0.5)
"""Part of a step by which the angles lie off those at which the shares of equal ages cancel."""
_CLOSE = 1e-10


def _shares_of(weights: ArrayLike) -> np.ndarray:
    """The shares [S + 1] of the ages 0..S, of sum 1. Raises ValueError for others."""
    shares = np.asarray(weights, float)
    good = shares.ndim == 1 and shares.size > 0 and bool(np.all(shares >= 0)) and abs(float(shares.sum()) - 1) <= 1e-6
    _checks.require(good, "weights", "numbers >= 0 that sum to 1, of the ages 0, 1, ...", shares.tolist())
    last = int(np.flatnonzero(shares)[-1])
    return np.asarray(shares[: last + 1] / shares.sum())


def _parts(angle: np.ndarray, shares: np.ndarray, mu: float, convention: Convention) -> tuple[np.ndarray, ...]:
    """(z-1)(z-mu), gain b(z), Q(1/z) at z = e^(i angle)."""
    z = np.exp(1j * angle)
    look = (1 + mu) * z - mu if convention == "nesterov" else z
    return (z - 1) * (z - mu), gain(mu, convention) * look, np.polynomial.polynomial.polyval(1 / z, shares)


def averaged_ages_threshold(weights: ArrayLike, momentum: float, convention: Convention = "heavy_ball") -> Threshold:
    """Least kappa = eta K at which the drift averaged over the ages loses stability.

    weights: [S + 1] shares of the ages 0..S. Raises ValueError for shares, a momentum or a convention that is none.
    """
    _checks.choice("convention", convention, CONVENTIONS)
    shares, mu = _shares_of(weights), _checks.momentum("momentum", momentum)

    def side(angle: float | np.ndarray) -> np.ndarray:
        top, look, mean = _parts(np.asarray(angle), shares, mu, convention)
        return -top * np.conj(look * mean)

    def kappa(angle: float) -> float:
        top, look, mean = _parts(np.asarray(angle), shares, mu, convention)
        crossing = -top / (look * mean)
        return float(crossing.real) if abs(look * mean) > _CLOSE else np.inf

    count = _ANGLES * (shares.size + 8)
    grid = np.pi * (np.arange(count) + _OFF) / count
    imaginary = side(grid).imag
    crossings = [Threshold(kappa(np.pi), "flip")]
    for i in np.flatnonzero(np.sign(imaginary[1:]) != np.sign(imaginary[:-1])):
        angle = scipy.optimize.brentq(lambda w: float(side(w).imag), grid[i], grid[i + 1], xtol=1e-15)
        crossings.append(Threshold(kappa(angle), "neimark_sacker"))
    return min((one for one in crossings if one.kappa > 0), key=lambda one: one.kappa)


def safe_by_mean_age(weights: ArrayLike, momentum: float) -> float:
    """Lower bound of the averaged threshold from the mean age alone: min((1-mu)/abar, 2(1+mu)); heavy ball."""
    shares, mu = _shares_of(weights), _checks.momentum("momentum", momentum)
    age = float(np.arange(shares.size) @ shares)
    return min((1 - mu) / age, 2 * (1 + mu)) if age > 0 else 2 * (1 + mu)


def safe_by_largest_age(oldest: int, momentum: float, convention: Convention = "heavy_ball") -> float:
    """Lower bound of the averaged threshold from the largest age S alone: the threshold of the constant age S."""
    return exact("lag", _checks.integer("oldest", oldest, 0), momentum, convention).kappa


def in_turn(ages: int, momentum: float, convention: Convention = "heavy_ball") -> float:
    """Threshold of uniform ages 0..n-1 mixed in every batch over that of model A, N = n, which passes through them."""
    number = _checks.integer("ages", ages, 1)
    mixed = averaged_ages_threshold(np.full(number, 1 / number), momentum, convention)
    return mixed.kappa / exact("refresh", number, momentum, convention).kappa


def drawn_ages_threshold(
    weights: ArrayLike, momentum: float, draws: int = 1, convention: Convention = "heavy_ball"
) -> float:
    """Least kappa at which the mean square stops decaying where every update draws `draws` independent ages.

    weights: [S + 1] shares of the ages 0..S. Raises ValueError as `averaged_ages_threshold` does, and for draws < 1.
    """
    shares, mu = _shares_of(weights), _checks.momentum("momentum", momentum)
    number = _checks.integer("draws", draws, 1)
    top = averaged_ages_threshold(shares, mu, convention).kappa
    if np.count_nonzero(shares) == 1:
        return top  # nothing is drawn

    def excess(kappa: float) -> float:
        return _fed_back(kappa, shares, mu, convention) / number - 1

    low = high = top / 2
    while excess(low) > 0:  # the sum rises with kappa, and is without bound at the averaged threshold
        low, high = low / 2, low
    while excess(high) < 0:
        low, high = high, (high + top) / 2
    return float(scipy.optimize.brentq(excess, low, high, xtol=1e-13 * top))


def _fed_back(kappa: float, shares: np.ndarray, mu: float, convention: Convention) -> float:
    """The integral, by the trapezoidal rule on the circle with twice as many angles until it stands still."""
    before, count = np.inf, 2 ** max(12, math.ceil(math.log2(8 * shares.size)))
    while count <= _MOST_ANGLES:
        z = np.exp(2j * np.pi * np.arange(count) / count)
        look = gain(mu, convention) * ((1 + mu) * z - mu if convention == "nesterov" else z)
        mean = np.fft.fft(shares, count)
        power = np.abs(kappa * look / ((z - 1) * (z - mu) + kappa * look * mean)) ** 2
        now = float(np.mean(power * (1 - np.abs(mean) ** 2)))
        if abs(now - before) <= 1e-12 * abs(now):
            break
        before, count = now, 2 * count
    return now
