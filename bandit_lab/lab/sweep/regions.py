"""Regions of a phase diagram: what happened as colour, with the edges where the lines of the thresholds run.

What is known belongs to refresh intervals and learning rates of the grid. Between two refresh intervals the edge of a
region is straight on the two logarithms. Where the predicted line is known between them, it is bent as that line is.
Within a step of the learning rate it lies where the threshold was measured, beyond the grid where it is predicted. A
column in which a region comes back (an island) is drawn as cells.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap

from bandit_lab.app.plots import style as s


def shade(
    axes: Axes,
    interval: np.ndarray,
    rate: np.ndarray,
    outcome: np.ndarray,
    measured: Mapping[int, np.ndarray],
    bends: Mapping[int, tuple[np.ndarray, np.ndarray]] | None = None,
) -> None:
    """Colour the plane. interval [N], rate [L], both rising. outcome: [L, N] codes.

    measured: outcome code -> [N] learning rate from which on runs have it: measured, predicted where nothing was
    measured, NaN where neither is known.
    bends: outcome code -> (refresh intervals [M], predicted learning rate there [M]).
    """
    colours = ListedColormap([s.FILL[code] for code in sorted(s.FILL)])
    norm = BoundaryNorm(np.arange(-0.5, len(s.FILL)), len(s.FILL))
    rises = np.all(np.diff(outcome, axis=0) >= 0, axis=0)
    sides = _edges(interval)
    for first, last in _runs(rises):
        if not rises[first]:
            columns = slice(first, last + 1)
            axes.pcolormesh(
                sides[first : last + 2], _edges(rate), outcome[:, columns], cmap=colours, norm=norm, rasterized=True,
                zorder=0,
            )  # fmt: skip
            continue
        ends = ([sides[first]] if first else [], [sides[last + 1]] if last < len(interval) - 1 else [])
        place = np.concatenate([ends[0], interval[first : last + 1], ends[1]])
        for code in range(int(outcome[0].min()), len(s.FILL)):
            known = measured.get(code, np.full(len(interval), np.nan))
            low = np.array([edge(rate, outcome[:, n], code, known[n]) for n in range(first, last + 1)])
            low = np.concatenate([low[:1] if first else [], low, low[-1:] if ends[1] else []])
            at, low = _bent(place, low, *(bends or {}).get(code, (place, low)))
            axes.fill_between(at, low, np.maximum(low, rate[-1]), color=s.FILL[code], linewidth=0, zorder=0)


def _bent(place: np.ndarray, low: np.ndarray, interval: np.ndarray, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An edge at `place` [P] that runs between as a line [M] does, moved onto it on the logarithms."""
    if not np.all(np.isfinite(line) & (line > 0)) or not np.all(np.isfinite(low) & (low > 0)):
        return place, low
    at = np.union1d(place, interval[(interval > place[0]) & (interval < place[-1])])
    course = np.interp(np.log(at), np.log(interval), np.log(line))
    off = np.log(low) - np.interp(np.log(place), np.log(interval), np.log(line))
    return at, np.exp(course + np.interp(np.log(at), np.log(place), off))


def edge(rate: np.ndarray, column: np.ndarray, code: int, measured: float) -> float:
    """Learning rate from which on a rising column has at least this code: the known one, if the grid agrees.

    Beyond the grid it is where the line of the thresholds goes, so that the edge leaves the picture with that line.
    """
    at = int(np.searchsorted(column, code))
    if at == 0:
        return float(measured) if measured < rate[0] else float(rate[0])
    if at == len(column):
        return float(measured) if measured > rate[-1] else float(rate[-1])
    low, high = float(rate[at - 1]), float(rate[at])
    return float(measured) if low <= measured <= high else float(np.sqrt(low * high))


def _runs(kinds: np.ndarray) -> Iterator[tuple[int, int]]:
    """(first, last) of every stretch of equal values."""
    starts = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]]))
    yield from zip(starts, np.concatenate([starts[1:] - 1, [len(kinds) - 1]]), strict=True)


def _edges(centres: np.ndarray) -> np.ndarray:
    """Cell edges halfway between the centres on the log."""
    logs = np.log(centres)
    inner = 0.5 * (logs[1:] + logs[:-1])
    return np.exp(np.concatenate([[logs[0] - (inner[0] - logs[0])], inner, [logs[-1] + (logs[-1] - inner[-1])]]))
