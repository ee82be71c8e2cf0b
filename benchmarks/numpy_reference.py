"""The same workload in vectorised NumPy: what a careful user would write without JAX, and the yardstick.

float32, arms leading, seeds in blocks that stay in the second cache, a thread per core, preallocated buffers. Groups
are drawn as 15-bit integers from raw generator words, compared with cumulative probabilities rounded to 2^-15 at random
(one uniform per policy: every marginal is exact); only counts are kept.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.workload import Case

f32 = np.float32
SEEDS = 2048  # of one block
CELLS = 4096  # of one block of the mean field
EPS = f32(1e-6)


@dataclass(frozen=True)
class Curves:
    """Mean and population variance [T] of the expected reward over `count` runs.

    kurtosis: [T] fourth moment over squared variance where it was asked for.
    """

    count: int
    mean: np.ndarray
    variance: np.ndarray
    kurtosis: np.ndarray | None = None


def pooled(parts: list[Curves]) -> Curves:
    """All runs of several sets together (Chan's formula)."""
    count, mean, square = 0, np.zeros(1), np.zeros(1)
    for part in parts:
        total, change = count + part.count, part.mean - mean
        square = square + part.variance * part.count + change**2 * (count * part.count / total)
        mean, count = mean + change * (part.count / total), total
    return Curves(count, mean, square / count)


def kurtosis(case: Case, seed: int) -> np.ndarray:
    """Fourth moment over squared variance [T] of J, by which the error of a variance is known."""
    by_step = simulate(replace(case, seeds=min(case.seeds, SEEDS)), seed, 1, with_kurtosis=True).kurtosis
    assert by_step is not None
    return by_step


def simulate(case: Case, seed: int, threads: int, with_kurtosis: bool = False) -> Curves:
    """All seeds of a case (all cells of the mean field). with_kurtosis: of the first block only."""
    block = _mean_field if case.mean_field else _sampled
    width = CELLS if case.mean_field else SEEDS
    starts = range(0, case.seeds, width)
    streams = np.random.SeedSequence(seed).spawn(len(starts))

    def part(i: int) -> Curves:
        lanes = slice(starts[i], min(starts[i] + width, case.seeds))
        return block(case, lanes, np.random.Generator(np.random.SFC64(streams[i])), with_kurtosis)

    if len(starts) == 1:
        return part(0)
    with ThreadPoolExecutor(threads) as pool:
        return pooled(list(pool.map(part, range(len(starts)))))


class _Record:
    """Streaming moments of J. Two passes: E[J^2] - E[J]^2 in float32 would be negative late in training."""

    def __init__(self, count: int, steps: int, with_kurtosis: bool) -> None:
        self.count, self.mean, self.variance = count, np.empty(steps), np.empty(steps)
        self.kurtosis = np.empty(steps) if with_kurtosis else None

    def add(self, t: int, reward: np.ndarray) -> None:
        """J of every run at one step."""
        self.mean[t] = middle = reward.mean()
        away = reward - f32(middle)
        self.variance[t] = spread = float(np.dot(away, away)) / self.count
        if self.kurtosis is not None:
            self.kurtosis[t] = np.mean(away.astype(float) ** 4) / max(spread**2, 1e-300)

    def curves(self) -> Curves:
        return Curves(self.count, self.mean, self.variance, self.kurtosis)


def _sampled(case: Case, lanes: slice, rng: np.random.Generator, with_kurtosis: bool) -> Curves:
    arms, seeds = case.arms, lanes.stop - lanes.start
    r, means, beta = case.rewards, case.rewards[:, None], f32(case.kl_weight)
    eta, mu = f32(case.learning_rate), f32(case.momentum)
    reference = case.reference_logits[:, None]
    cells = 2 * arms if case.bernoulli else arms
    theta, velocity, policy, pull, work = np.zeros((5, arms, seeds), f32)
    table, limits = np.empty((cells, seeds), f32), np.empty((cells, seeds), np.uint16)
    reward, record = np.empty(seeds, f32), _Record(seeds, case.steps, with_kurtosis)
    group = _group(case, rng, seeds)
    for t in range(case.steps):
        np.subtract(theta, theta.max(0), out=policy)
        np.exp(policy, out=policy)
        policy *= 1 / policy.sum(0)
        np.dot(r, policy, out=reward)
        record.add(t, reward)
        if t % case.interval == 0:
            np.subtract(theta, reference, out=work)
            np.multiply(policy, work, out=pull)
            pull -= policy * pull.sum(0)
            pull *= beta
            if case.bernoulli:
                np.multiply(policy, means, out=table[0::2])
                np.subtract(policy, table[0::2], out=table[1::2])
                np.cumsum(table, 0, out=table)
            else:
                np.cumsum(policy, 0, out=table)
            table *= f32(2**15)
            table += rng.random(seeds, f32)
            np.copyto(limits, table, casting="unsafe")
        group(limits, work)
        work -= pull
        velocity *= mu
        velocity += work
        np.multiply(velocity, eta, out=work)
        theta += work
    return record.curves()


def _group(case: Case, rng: np.random.Generator, seeds: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function that draws a group of every seed: (limits [cells, seeds], out) -> its signal."""
    arms, size, share = case.arms, case.group_size, f32(1 / case.group_size)
    r, means = case.rewards, case.rewards[:, None]
    cells = 2 * arms if case.bernoulli else arms
    counted = np.uint8 if size < 256 else np.uint16
    counts, less = np.zeros((cells + 1, seeds), counted), np.empty((size, seeds), bool)
    counts[cells] = size
    words = -(-size * seeds // 4)

    def group(limits: np.ndarray, work: np.ndarray) -> np.ndarray:
        draws = rng.bit_generator.random_raw(words).view(np.uint16)[: size * seeds].reshape(size, seeds)
        draws &= np.uint16(2**15 - 1)
        for k in range(cells - 1):
            np.less(draws, limits[k], out=less)
            np.add.reduce(less.view(np.uint8), 0, dtype=counted, out=counts[k + 1])
        n = np.subtract(counts[1:], counts[:-1]).astype(f32)
        if case.bernoulli:
            won = n[0::2]
            n = won + n[1::2]
            middle = won.sum(0) * share
            scale = share / (np.sqrt(np.maximum(middle - middle * middle, 0)) + EPS)
            np.multiply(n, middle, out=work)
            np.subtract(won, work, out=work)
        else:
            away = means - np.dot(r, n) * share
            np.multiply(n, away, out=work)
            scale = share / (np.sqrt(np.einsum("ks,ks->s", work, away) * share) + EPS)
        work *= scale
        return work

    return group


def _mean_field(case: Case, lanes: slice, rng: np.random.Generator, with_kurtosis: bool) -> Curves:
    r, means, beta = case.rewards, case.rewards[:, None], f32(case.kl_weight)
    eta, mu = (x[lanes].astype(f32) for x in case.grid)
    reference, width = case.reference_logits[:, None], lanes.stop - lanes.start
    theta, velocity, policy, work, away, over = np.zeros((6, case.arms, width), f32)
    reward, record = np.empty(width, f32), _Record(width, case.steps, with_kurtosis)
    for t in range(case.steps):
        np.subtract(theta, theta.max(0), out=policy)
        np.exp(policy, out=policy)
        policy *= 1 / policy.sum(0)
        np.dot(r, policy, out=reward)
        record.add(t, reward)
        np.subtract(means, reward, out=away)
        away *= 1 / (np.sqrt(np.einsum("ks,ks,ks->s", policy, away, away)) + EPS)
        np.subtract(theta, reference, out=over)
        over -= np.einsum("ks,ks->s", policy, over)
        over *= beta
        away -= over
        away *= policy
        velocity *= mu
        velocity += away
        np.multiply(velocity, eta, out=work)
        theta += work
    return record.curves()
