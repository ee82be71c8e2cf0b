"""Means and variances over very many seeds: the same bits however the seeds were split.

Floating-point sums depend on their order, so the order is fixed: seeds are gathered in units of `UNIT`, each unit's
moments are formed in the same way everywhere, and units are pooled one after the other. Work may then be cut between
units at will: into calls, chunks, devices or hosts.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bandit_lab import _checks

UNIT = 4096
"""Seeds of a unit, a multiple of every block width. Part of what defines a result, bit for bit."""


class Moments(NamedTuple):
    """Moments of the expected reward in U units of seeds, float64.

    seeds: [U] how many. mean: [C, U, T + 1]. square: [C, U, T + 1] sum of squared deviations from that mean.
    """

    seeds: np.ndarray
    mean: np.ndarray
    square: np.ndarray


def merge(
    total: tuple[float, np.ndarray, np.ndarray], part: tuple[float, np.ndarray, np.ndarray]
) -> tuple[float, np.ndarray, np.ndarray]:
    """(count, mean, square) of two sets of seeds together (Chan, Golub and LeVeque 1983)."""
    old, mean, square = total
    more, part_mean, part_square = part
    count = old + more
    change = part_mean - mean
    return count, mean + change * (more / count), square + (part_square + change**2 * (old * more / count))


def pool(parts: Iterable[Moments]) -> tuple[np.ndarray, np.ndarray]:
    """(mean [C, T + 1], population variance [C, T + 1]) over all seeds: units in the order in which they come.

    Args:
      parts: moments of consecutive ranges of seeds, one at a time in memory.

    Raises:
      ValueError: no part.
    """
    total: tuple[float, np.ndarray, np.ndarray] | None = None
    for part in parts:
        for unit, count in enumerate(part.seeds):
            more = float(count), part.mean[:, unit], part.square[:, unit]
            total = more if total is None else merge(total, more)
    _checks.require(total is not None, "parts", "at least one range of seeds", _checks.NOTHING)
    count, mean, square = total  # type: ignore[misc]
    return mean, square if count == 1 else square / count  # of one seed many cells: a pass over them less
