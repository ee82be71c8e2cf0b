"""How often noise alone does as much: the run's own noise, drawn again in random order.

Rewards of few prompts, and rewards with a rare bonus, are discrete and skewed. Standard errors of a normal law do not
hold their level for them. So what is left of the reward beside a running median is drawn with replacement: noise of
this run's own law, without trend and without order. The median leaves a lone large value where it stands.

Noise that is alike from row to row is not drawn here. For it the tests ask for many standard errors besides.
"""

from collections.abc import Iterator

import numpy as np

from grpo_clinic.readers.record import Floats

DRAWS = 199
"""Series of noise that are drawn; a test at level .005 asks that none of them does as much."""
_WIDTH = 5
_LOST = 0.887
"""Variance of normal noise beside a running median of five, over its variance."""
_CELLS = 1_000_000
"""Numbers drawn at once."""


def noise_alone(reward: Floats, seed: int, draws: int = DRAWS) -> Iterator[Floats]:
    """Series of noise [some, n] of the law of the rewards [n], n >= 8; `draws` of them in all."""
    rest = _beside_median(reward)
    rng = np.random.default_rng([seed, reward.size])
    while draws:
        some = min(draws, max(_CELLS // reward.size, 1))
        yield rng.choice(rest, (some, reward.size))
        draws -= some


def p_value(exceeds: Iterator[np.ndarray]) -> float:
    """(1 + number of drawn series that do as much) / (1 + number of series), from flags in parts."""
    flags = np.concatenate([*exceeds])
    return float((1 + flags.sum()) / (1 + flags.size))


def judged(score: float, p: float, level: float) -> float:
    """The score, below 1 where noise alone does as much more often than the level; no test is finer than its draws."""
    return score if p <= max(level, 1 / (DRAWS + 1)) else min(score, level / p)


def running_means(values: Floats, width: int) -> Floats:
    """Means over `width` points along the last axis [..., n - width + 1]."""
    total = np.cumsum(np.concatenate((np.zeros((*values.shape[:-1], 1)), values), axis=-1), axis=-1)
    return (total[..., width:] - total[..., :-width]) / width


def _beside_median(reward: Floats) -> Floats:
    """What is left [n - 3], the second reward beside the median of three. The first and the last two are left out: a
    rise or a fall that has only begun there is no noise."""
    half = _WIDTH // 2
    middle = np.sort(np.lib.stride_tricks.sliding_window_view(reward, _WIDTH), axis=-1)[:, half]
    rest = (reward[1:-half] - np.concatenate(([np.median(reward[:3])], middle))) / np.sqrt(_LOST)
    return np.asarray(rest - rest.mean())
