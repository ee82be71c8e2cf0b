"""Is it oscillating, or is it noise? A spectral test against a monotone curve with autocorrelated noise.

The curve's best monotone law (exponential, softmax, sigmoid or constant) is taken off; what is left is compared with
AR(1) noise of the same length that went through the same removal (the projection off the law's tangent space, so that
the test knows what a fit takes away). Statistic: the highest local maximum of the smoothed periodogram over the AR(1)
spectrum, for periods from 5 logging intervals to a sixth of the curve and three bandwidths; slower waves cannot be
told from a rise in two steps, nor can a spectrum that only climbs towards them. The null distribution is simulated, so
the false-alarm rate is the stated one up to the error of the fitted rho.
"""

from dataclasses import dataclass

import numpy as np
from grpo_clinic import noise
from grpo_clinic.fitting import engine
from grpo_clinic.fitting.shapes import SHAPES, Shape
from grpo_clinic.readers.record import Floats
from numpy.typing import NDArray
from scipy import special

MONOTONE = ("single_exponential", "softmax_law", "sigmoid", "constant")
_WIDTHS = (1, 3, 7)
"""Frequencies over which the periodogram is smoothed."""
_SHORTEST, _FEWEST_CYCLES = 5.0, 6
"""Logging intervals in the shortest period, cycles in the curve at the longest."""
_COARSE = 64
"""Points that the monotone laws are fitted to."""
_BATCH, _ENOUGH = 50, 10
"""Surrogates drawn at a time, and larger ones among them from which no more are drawn."""


@dataclass(frozen=True)
class Oscillation:
    """Result of the test: `p_value`, and the `period` of the peak [steps] (infinite where the band holds none). Then
    its share of the residual variance, the law taken off and the residuals [n]. `late`: root mean square of the wave in
    the last third over that of the first."""

    p_value: float
    period: float
    share: float
    law: str
    residual: Floats
    rho: float
    late: float = 1.0

    @property
    def height(self) -> float:
        """From peak to peak [reward], were it a sine."""
        return float(np.sqrt(8 * self.share * np.var(self.residual)))


def monotone_law(time: Floats, reward: Floats) -> tuple[str, Floats]:
    """The monotone law with the smallest AICc on a curve [n], time starting at 0, and its shape [q].

    Fitted to at most 64 means of neighbours: what it is taken off for is slower than that.
    """
    block = -(-time.size // _COARSE)
    t, r = (one[: time.size // block * block].reshape(-1, block).mean(axis=-1) for one in (time, reward))
    best = min((engine.fit(SHAPES[law], t, r) for law in MONOTONE), key=lambda one: one.aicc)
    return best.shape.name, best.theta


def oscillation_test(step: Floats, reward: Floats, surrogates: int = 499, seed: int = 0) -> Oscillation:
    """Test one curve [n], n >= 24 evenly logged points.

    Surrogates are drawn until ten exceed what was observed, or all are drawn (Besag and Clifford 1991): small p-values
    are multiples of 1/(surrogates + 1), and a large one costs few surrogates.
    """
    law, theta = monotone_law(step - step[0], reward)
    return _tested(step, reward, law, _tangent(SHAPES[law], theta, step - step[0]), surrogates, seed)


def _tested(step: Floats, reward: Floats, law: str, tangent: Floats, surrogates: int, seed: int) -> Oscillation:
    residual = _projected(
        reward - np.median(reward), tangent
    )  # plateau and amplitude are directions of the tangent space too
    rho = float(_correlation(residual[None], tangent)[0])
    band = _band(residual.size)
    observed, peak = _statistic(residual[None], np.array([rho]), band)
    p = _p_value(float(observed[0]), rho, tangent, band, surrogates, seed)
    power = np.abs(np.fft.rfft(residual)) ** 2
    if peak[0] == 0:
        return Oscillation(1.0, np.inf, 0.0, law, residual, rho)
    near = np.abs(np.arange(power.size) - peak[0]) <= 1
    period = residual.size / peak[0] * float(np.median(np.diff(step)))
    share = float(power[near].sum() / max(power[1:].sum(), 1e-300))
    return Oscillation(p, period, share, law, residual, rho, _late(residual, int(peak[0])))


def _late(residual: Floats, peak: int) -> float:
    """How much of a wave there is at the end: the band of half to twice its frequency, where a ring that dies down
    has its power, in the last third over the first."""
    band = np.fft.rfft(residual)
    frequency = np.arange(band.size)
    band[(frequency < peak / 2) | (frequency > 2 * peak)] = 0
    wave, third = np.fft.irfft(band, residual.size), residual.size // 3
    first, last = (float(np.sqrt(np.mean(part**2))) for part in (wave[:third], wave[-third:]))
    return last / max(first, 1e-300)


def _p_value(
    observed: float, rho: float, tangent: Floats, band: NDArray[np.bool_], surrogates: int, seed: int
) -> float:
    rng = np.random.default_rng(seed)
    above = drawn = 0
    while drawn < surrogates:
        count = min(_BATCH, surrogates - drawn)
        fake = _projected(ar1(rng, count, tangent.shape[0], rho), tangent)
        exceeds = _statistic(fake, _correlation(fake, tangent), band)[0] >= observed
        if above + exceeds.sum() >= _ENOUGH:
            last = int(np.flatnonzero(exceeds)[_ENOUGH - above - 1])
            return _ENOUGH / (drawn + last + 1)
        above, drawn = above + int(exceeds.sum()), drawn + count
    return (1 + above) / (surrogates + 1)


def _tangent(shape: Shape, best: Floats, time: Floats) -> Floats:
    """Orthonormal basis [n, k] of what the parameters of a law can move at its best shape [q]."""
    columns, theta = [np.ones_like(time)], best[None]
    if shape.size:
        columns.append(shape.growth(time, theta[:, None, :])[0] - 1)
        for k in range(shape.size):
            shift = np.zeros(shape.size)
            shift[k] = 1e-3
            columns.append(
                (shape.growth(time, (theta + shift)[:, None, :]) - shape.growth(time, (theta - shift)[:, None, :]))[0]
            )
    scaled = np.stack([c / max(float(np.linalg.norm(c)), 1e-12) for c in columns], axis=-1)
    left, size, _ = np.linalg.svd(scaled, full_matrices=False)
    return left[:, size > 1e-6]


def _projected(values: Floats, tangent: Floats) -> Floats:
    return values - (values @ tangent) @ tangent.T


def _correlation(residual: Floats, tangent: Floats) -> Floats:
    """Lag-one autocorrelation [C], first-order corrected for what a fit of k directions takes away from it."""
    n = residual.shape[-1]
    raw = np.sum(residual[:, 1:] * residual[:, :-1], axis=-1) / np.maximum(np.sum(residual**2, axis=-1), 1e-300)
    return np.asarray(np.clip(raw + (tangent.shape[1] * (1 + raw) + 2 * raw) / n, -0.5, 0.95))


def ar1(rng: np.random.Generator, count: int, points: int, rho: float) -> Floats:
    """Noise of unit variance with lag-one autocorrelation rho [count, points]."""
    fresh = rng.normal(size=(count, points))
    series = np.empty_like(fresh)
    series[:, 0] = fresh[:, 0]
    for i in range(1, points):
        series[:, i] = rho * series[:, i - 1] + np.sqrt(1 - rho * rho) * fresh[:, i]
    return series


def _band(points: int) -> NDArray[np.bool_]:
    frequency = np.arange(points // 2 + 1)
    return (frequency >= _FEWEST_CYCLES) & (frequency <= points / _SHORTEST)


def _statistic(residual: Floats, rho: Floats, band: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
    """(largest standardised excess over bandwidths [C], frequency index of the largest [C])."""
    count = residual.shape[-1]
    power = np.abs(np.fft.rfft(residual, axis=-1)) ** 2
    omega = 2 * np.pi * np.arange(power.shape[-1]) / count
    ratio = power * (1 - 2 * rho[:, None] * np.cos(omega) + rho[:, None] ** 2)
    ratio = ratio / np.maximum(ratio[:, 1:].mean(axis=-1, keepdims=True), 1e-300)
    best, place = np.full(len(residual), -np.inf), np.zeros(len(residual), int)
    for width in _WIDTHS:
        total = np.cumsum(np.pad(ratio, ((0, 0), (width // 2 + 1, width // 2))), axis=-1)
        smooth = (total[:, width:] - total[:, :-width]) / width
        summit = (smooth >= np.roll(smooth, 1, axis=-1)) & (smooth >= np.roll(smooth, -1, axis=-1))
        inside = np.where(band & summit, smooth, 0.0)
        peak = inside.argmax(axis=-1)
        excess = (np.take_along_axis(inside, peak[:, None], axis=-1)[:, 0] - 1) * np.sqrt(width)
        place = np.where(excess > best, peak, place)
        best = np.maximum(best, excess)
    return best, place


def wave_score(reward: Floats, span: float, test: Oscillation, level: float = 0.005, share: float = 0.1) -> float:
    """Score of a regular wave, 1 and more: larger than noise, and large beside the span of the curve; one that dies
    down stays below. span: largest less smallest reward possible."""
    width = max(reward.size // 10, 3)
    means = np.convolve(reward - reward[0], np.ones(width) / width, mode="valid")
    score = min(level / test.p_value, test.height / max(float(np.ptp(means)), span / 3, 1e-300) / share)
    return float(score if test.late >= 0.5 else min(score, 0.99))


def growth_score(test: Oscillation, level: float = 0.005, grown: float = 4.0, seed: int = 0) -> float:
    """Score of fluctuations that grow from the middle third to the last, by an F test and by random order."""
    n = test.residual.size
    middle, late = test.residual[n // 3 : 2 * n // 3], test.residual[2 * n // 3 :]
    ratio = float(np.sum(late**2) / late.size / max(float(np.sum(middle**2)) / middle.size, 1e-300))
    shrink = (1 - test.rho**2) / (1 + test.rho**2)
    p = float(special.fdtrc(max(late.size * shrink, 2), max(middle.size * shrink, 2), ratio))
    score = min(level / max(p, 1e-12), ratio / grown)
    if score < 1:
        return score
    rng, both = np.random.default_rng([seed, n - n // 3]), np.concatenate((middle, late))
    drawn = (rng.permutation(both) ** 2 for _ in range(noise.DRAWS))
    ratios = np.array([one[middle.size :].mean() / max(float(one[: middle.size].mean()), 1e-300) for one in drawn])
    return noise.judged(score, float((1 + np.sum(ratios >= ratio)) / (1 + noise.DRAWS)))
