"""The two-arm bandit as a Markov chain on its logit gap: exact transition operator on a grid, heavy tails included.

Derived here, plain gradient steps (mu = 0), model `refresh`, everything frozen over a block of N steps, x the gap. In
one group given k successes, successes and failures choose arm 1 independently with the probabilities pi_+, pi_-, and a
member contributes +-A_+-(k)/G to the gap gradient (advantages that sum to zero), so its characteristic function is

    f(w) = sum_k P(k) [pi_+ e^{iwA_+/G} + (1-pi_+) e^{-iwA_+/G}]^k [pi_- e^{iwA_-/G} + (1-pi_-) e^{-iwA_-/G}]^{G-k}.

A block adds N * prompts independent groups (or N times the same ones: `batch_reuse`) and the deterministic KL pull. One
Fourier sum per grid point gives the law of the next gap. The probability that no group moves at all (silent, or one
arm only) is kept apart as an atom: a dead policy does not diffuse numerically. The rest is smoothed by a
Gaussian of 1.5 grid spacings, wide enough that the discrete steps do not ring (negative entries stay below 1e-5), after
being shrunk about its mean so that mean and variance of every row stay exact. That needs steps wider than the
smoothing: a smaller learning rate wants a finer grid. Gaps beyond the grid are put on its edge.

Near a vertex almost every group is dead and the KL pull fades too: that is where hot runs collapse, below the
deterministic threshold.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.group_law import GroupLaw

_SMOOTHING = 1.5  # grid spacings
_NEVER = 1e-14  # probability of a number of successes that is left out
_DEAD = 1e-13  # probability of moving at all that counts as none


@dataclass(frozen=True)
class TwoArmChain:
    """Settings of the chain: `success` of both arms, centred `law` at finite G, `kl_weight`, `learning_rate`,
    `refresh_interval` N, `prompts`, `reference_gap`, `batch_reuse`; grid from `low` to `high` with `spacing`.

    Raises ValueError for an infinite group or advantages that do not sum to zero.
    """

    success: tuple[float, float]
    law: GroupLaw
    kl_weight: float
    learning_rate: float
    refresh_interval: int = 1
    prompts: int = 1
    reference_gap: float = 0.0
    batch_reuse: bool = False
    low: float = -16.0
    high: float = 24.0
    spacing: float = field(default=0.1)

    def __post_init__(self) -> None:
        _checks.require(self.law.group_size is not None, "group_size", "a finite group", "infinity")
        _checks.require(self.law.centred, "advantage", "one that sums to zero in a group", self.law.advantage)
        _checks.integer("refresh_interval", self.refresh_interval, 1)
        _checks.integer("prompts", self.prompts, 1)
        _checks.positive("learning_rate", self.learning_rate)

    @cached_property
    def grid(self) -> np.ndarray:
        """Gaps [X] of the grid."""
        return np.arange(self.low, self.high + 0.5 * self.spacing, self.spacing)

    @cached_property
    def good_probability(self) -> np.ndarray:
        """Probability [X] of arm 1 at each gap."""
        return np.exp(-np.logaddexp(0.0, -self.grid))

    @cached_property
    def kernel(self) -> np.ndarray:
        """Transition probabilities [X, X] of one block, rows sum to 1."""
        return np.array([self.step_law(float(x)) for x in self.grid])

    def step_law(self, gap: float) -> np.ndarray:
        """Distribution [X] of the gap one block after `gap`."""
        points = 1 << int(np.ceil(np.log2(4 * len(self.grid))))
        frequency = 2 * np.pi * np.fft.rfftfreq(points, self.spacing)
        smooth = np.exp(-0.5 * (_SMOOTHING * frequency * self.spacing) ** 2)
        good, bad = float(np.exp(-np.logaddexp(0, -gap))), float(np.exp(-np.logaddexp(0, gap)))
        _, dead = self._characteristic(good, bad, frequency[:1])
        groups = self.prompts if self.batch_reuse else self.prompts * self.refresh_interval
        atom = min(dead**groups, 1.0)
        shift, shrink = self._moving_part(good, bad, groups, atom)
        wave, _ = self._characteristic(good, bad, shrink * frequency)
        pull = 2 * self.kl_weight * good * bad * (gap - self.reference_gap)
        centre = gap - self.learning_rate * self.refresh_interval * pull
        moving = (wave**groups - atom) * smooth * np.exp(1j * frequency * shift)
        index = min(max((centre - self.low) / self.spacing, -points), 2 * points)  # beyond, all lands at an end
        whole = int(np.floor(index))
        shifted = np.fft.irfft(moving.conj() * np.exp(-1j * frequency * (index - whole) * self.spacing), points)
        places = whole + np.fft.fftfreq(points, 1 / points).astype(int)
        places = np.clip(places, 0, len(self.grid) - 1)
        row = np.bincount(places, shifted, minlength=len(self.grid))
        part = index - whole
        row[int(np.clip(whole, 0, len(row) - 1))] += atom * (1 - part)
        row[int(np.clip(whole + 1, 0, len(row) - 1))] += atom * part
        return row / row.sum()

    def _moving_part(self, good: float, bad: float, groups: int, atom: float) -> tuple[float, float]:
        """Shift and factor that shrink the moving part about its mean so that smoothing restores its variance."""
        alive = 1 - atom
        if alive < _DEAD:
            return 0.0, 1.0
        policy, means = np.array([good, bad]), np.array(self.success)
        share = self.learning_rate * (self.refresh_interval if self.batch_reuse else 1) / self.prompts
        hit, miss = float(policy @ means), float(policy @ (1 - means))
        mean = groups * share * 2 * good * bad * float(self.law.factor(hit, miss)) * (means[0] - means[1])
        signs = np.array([1.0, -1.0])
        variance = groups * share**2 * float(signs @ binary_covariance(self.law, means, policy) @ signs)
        moving_mean = mean / alive
        moving_variance = (variance + mean**2) / alive - moving_mean**2
        width = (_SMOOTHING * self.spacing) ** 2
        shrink = float(np.sqrt(max(1 - width / moving_variance, 0.0))) if moving_variance > 0 else 0.0
        return moving_mean * (1 - shrink), shrink

    def _characteristic(self, good: float, bad: float, frequency: np.ndarray) -> tuple[np.ndarray, float]:
        """Characteristic function of one group's share of a block step, and the probability that it is dead."""
        size = int(self.law.group_size or 0)
        first, second = self.success
        hit, miss = good * first + bad * second, good * (1 - first) + bad * (1 - second)
        weight, k = self.law.success_weights(hit, miss), np.arange(size + 1)
        up, down = self.law.table()
        right = (good * first / hit, bad * second / hit) if hit > 0 else (0.0, 1.0)
        wrong = (good * (1 - first) / miss, bad * (1 - second) / miss) if miss > 0 else (0.0, 1.0)
        single = (right[0] ** k * wrong[0] ** (size - k)) + (right[1] ** k * wrong[1] ** (size - k))
        still = np.where((up == 0) & (down == 0), 1.0, single)
        still[0] = still[-1] = 1.0
        repeats = self.refresh_interval if self.batch_reuse else 1
        scale = self.learning_rate * repeats / (size * self.prompts)
        total = np.zeros(len(frequency), complex)
        for j in np.flatnonzero(weight > _NEVER):
            if j in (0, size):
                total += weight[j]
                continue
            plus, minus = np.exp(1j * frequency * scale * up[j]), np.exp(1j * frequency * scale * down[j])
            hits = (right[0] * plus + right[1] * plus.conj()) ** j
            total += weight[j] * hits * (wrong[0] * minus + wrong[1] * minus.conj()) ** (size - j)
        return total, min(float(weight @ still), 1.0)

    def start(self, gap: float = 0.0) -> np.ndarray:
        """Point mass [X] at `gap`, split between its two grid neighbours."""
        index = np.clip((gap - self.low) / self.spacing, 0, len(self.grid) - 1 - 1e-9)
        whole = int(np.floor(index))
        mass = np.zeros(len(self.grid))
        mass[whole], mass[whole + 1] = 1 - (index - whole), index - whole
        return mass

    def evolve(self, mass: np.ndarray, blocks: int) -> np.ndarray:
        """Distribution [X] after `blocks` blocks."""
        for _ in range(blocks):
            mass = mass @ self.kernel
        return mass

    def collapsed(self, gap: float, blocks: int, start: float = 0.0) -> float:
        """Probability that the gap lies beyond `gap` after `blocks` blocks from `start`. ValueError off the grid."""
        _checks.require(self.low < gap < self.high, "gap", "a gap inside the grid", gap)
        return float(self.evolve(self.start(start), blocks)[self.grid > gap].sum())

    def mean_probability(self, blocks: int, last: int, gap: float = 0.0) -> float:
        """Mean probability of arm 1 at block points, averaged over the `last` of `blocks` blocks, from `gap`."""
        mass, total = self.start(gap), 0.0
        for t in range(blocks):
            mass = mass @ self.kernel
            total += float(mass @ self.good_probability) if t >= blocks - last else 0.0
        return total / last

    def escape(self, inside: np.ndarray) -> tuple[float, np.ndarray]:
        """Escape rate per block from the gaps where `inside` [X] is true, and the quasi-stationary law [X] there.

        1 - lambda with lambda the largest eigenvalue of the kernel restricted to them (power iteration).
        """
        keep = np.flatnonzero(inside)
        part = self.kernel[np.ix_(keep, keep)]
        values, vectors = np.linalg.eig(part.T)
        top = int(np.argmax(values.real))
        law = np.zeros(len(self.grid))
        law[keep] = np.abs(vectors[:, top].real)
        return float(1 - values[top].real), law / law.sum()

    def absorbed(self, inside: np.ndarray, blocks: int, gap: float = 0.0) -> np.ndarray:
        """Probability [blocks + 1] of having left `inside` by each block, from `gap`."""
        part = self.kernel * np.asarray(inside, float)[None, :]
        mass = self.start(gap) * inside
        history = [1 - mass.sum()]
        for _ in range(blocks):
            mass = mass @ part
            history.append(1 - mass.sum())
        return np.array(history)
