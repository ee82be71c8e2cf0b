"""Mean age of the answers that an asynchronous trainer trains on, in closed form.

Derived here. The age of an answer is the number of updates made after its start and before the update that uses it.
Every update adds one to the age of every answer that has been begun and not been taken yet. Counted per update, the
answers that leave are `batch` groups of G, so that exactly (a form of Little's law)

    mean age = (answers begun and not taken, at the moments of update) / (batch G).

What is begun and not taken is (a) being generated, (b) waiting for the rest of its group, (c) in the queue.

(a, b) With all M = engines x concurrency places busy, M/E[l] answers begin per second, those of a group one after the
other every d = E[l]/M, and an answer stays until the last of its group has ended: E[max_i (i d + l_i)] - d (G-1)/2
seconds in the mean, i < G. Hence (a) + (b) = M/E[l] times that: a tail of the lengths makes more answers wait.

(c) Where the engines are the slower side, the trainer waits for its batch and takes all that waits; what has come
since, while it trains for T of the c seconds of an update, is batch T/(c - s), s the pause for new weights. A cycle
lasts c = batch G E[l]/M + s. Where the trainer is the slower side, c = T, and the queue is full: `queue` groups. No
group is begun while it is, so that what is begun stays as it was when the queue became full, until a batch is taken.
That leaves queue + N, with N groups in (a, b). A trainer that takes twice the engines' time for a batch, or longer,
finds so many more finished at its next update that the queue stays full. It then takes floor(N/batch) further batches
before a group is begun: in the mean over updates queue + N - (batch/2) floor(N/batch) are left.

With weights loaded by drained engines, every place waits for the last of its engine's answers at every update: it loses
E[max of `concurrency` residual lengths] - E[residual length] + s, which is added to c instead of s.

A bound on the age holds the sum at max_age x batch groups at the moments of update, so that it is the mean age of all
that is begun where it binds. A share d of the groups is then thrown away at the age max_age + 1, which leaves
max_age - (max_age + 1) d/(1 - d) for the others. Where the trainer is the slower side, groups begin when an update
lets them, and d = P(the longest of G answers takes more than max_age T). Where the engines are, d is left out.

Known limits: drained engines begin anew together, so that less comes soon after an update than in the mean. Where a
bound binds on slow engines, the cycle is longer than said here, and long answers are thrown away. After Dong, Goel and
Yu (Applied Compute, July 2026), who have formulas of this kind for queues and lengths.

A token's age counts from the moment at which it was generated: of an answer that is being generated only the tokens
so far are begun. By Little's law M/E[l] (E[l^2]/2 + E[l (last - own end)]) seconds of tokens are.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bandit_lab import _checks

_FAR, _POINTS = 9.0, 8001
"""Standard deviations of a length's logarithm beyond which nothing is integrated; points of the integrals."""
_NARROWEST, _LEAST = 1e-3, 1e-300
"""Standard deviation of the logarithm that stands for equal lengths; seconds that stand for none."""


class MeanAge(NamedTuple):
    """starts: mean age of an answer at its start. tokens: of a token. Both in updates; seconds_per_update."""

    starts: float
    tokens: float
    seconds_per_update: float


def cluster_age(
    *,
    engines: int,
    concurrency: int,
    group_size: int,
    batch: int,
    answer_seconds: float,
    spread: float,
    train_seconds: float,
    sync_seconds: float = 0.0,
    weights: str = "in_flight",
    queue: int | None = None,
    max_age: int | None = None,
) -> MeanAge:
    """Mean age in updates for a layout; arguments as `grpo.cluster.Cluster` has them. Raises ValueError."""
    _checks.choice("weights", weights, ("in_flight", "drained"))
    places = engines * concurrency
    lengths = _Lengths(answer_seconds, spread)
    gap = answer_seconds / places
    until_whole = lengths.last_of(group_size, gap) - gap * (group_size - 1) / 2
    unfinished = places / answer_seconds * until_whole / group_size  # groups
    pause = sync_seconds if weights == "in_flight" else lengths.lost_by_draining(concurrency) + sync_seconds
    engines_cycle = batch * group_size * answer_seconds / places + pause
    cycle = max(engines_cycle, train_seconds)
    waiting = batch * min(train_seconds / max(cycle - pause, train_seconds), 1.0)
    if train_seconds > engines_cycle:
        further = unfinished // batch if train_seconds >= 2 * engines_cycle else 0.0
        waiting = np.inf if queue is None else queue - batch / 2 * further
    begun = (unfinished + waiting) / batch
    generated = places / answer_seconds * lengths.tokens_begun(group_size, gap) / (group_size * answer_seconds)
    tokens = (generated + waiting) / batch
    if weights == "drained" or train_seconds > engines_cycle:  # then all that was begun is finished before an update
        tokens = begun
    if max_age is None or begun <= max_age:
        return MeanAge(begun, tokens, cycle)
    late = 1 - lengths.below(np.array(max_age * train_seconds)) ** group_size if train_seconds > engines_cycle else 0.0
    bound = max_age - (max_age + 1) * float(late / (1 - late))
    return MeanAge(bound, min(tokens, bound), cycle)


class _Lengths:
    """Log-normal lengths of mean m and standard deviation spread x m, in seconds."""

    def __init__(self, mean: float, spread: float) -> None:
        self.mean, self.square = mean, mean**2 * (1 + spread**2)
        self.sigma = max(float(np.sqrt(np.log1p(spread**2))), _NARROWEST)
        self.centre = float(np.log(mean)) - self.sigma**2 / 2

    def below(self, x: np.ndarray) -> np.ndarray:
        """P(l <= x)."""
        return ndtr(self._score(x))

    def part_below(self, x: np.ndarray) -> np.ndarray:
        """E[l; l <= x]."""
        return self.mean * ndtr(self._score(x) - self.sigma)

    def _score(self, x: np.ndarray) -> np.ndarray:
        return (np.log(np.maximum(x, _LEAST)) - self.centre) / self.sigma

    def last_of(self, count: int, gap: float) -> float:
        """E[max over i < count of (i gap + l_i)]."""
        return self._integral(
            lambda x: 1 - np.prod([self.below(x - i * gap) for i in range(count)], axis=0), count * gap
        )

    def lost_by_draining(self, count: int) -> float:
        """E[max of `count` residual lengths] - E[residual length]; residuals of answers met at a random moment."""

        def residual(x: np.ndarray) -> np.ndarray:
            return (x * (1 - self.below(x)) + self.part_below(x)) / self.mean

        return self._integral(lambda x: 1 - residual(x) ** count) - self.square / (2 * self.mean)

    def tokens_begun(self, count: int, gap: float) -> float:
        """E[l^2]/2 + E[l (last - own end)]: tokens of one answer [s^2] until the last of its group has ended."""

        def waited(x: np.ndarray) -> np.ndarray:
            """Sum over answers of E[l; own end <= x] P(the others' last > x)."""
            below = [self.below(x - i * gap) for i in range(count)]
            others = [np.prod(below[:i] + below[i + 1 :], axis=0) for i in range(count)]
            return np.sum([self.part_below(x - i * gap) * (1 - other) for i, other in enumerate(others)], axis=0)

        return self.square / 2 + (self._integral(waited, count * gap) / count if count > 1 else 0.0)

    def _integral(self, of: Callable[[np.ndarray], np.ndarray], further: float = 0.0) -> float:
        """Over x from 0 to where no length and no offset up to `further` reaches; trapezoids, even in the logarithm."""
        low, high = np.exp(self.centre - _FAR * self.sigma), np.exp(self.centre + _FAR * self.sigma) + further
        x = np.concatenate([[0.0], np.geomspace(low, high, _POINTS)])
        return float(np.trapezoid(of(x), x))
