"""Forward-filled values: a quantity logged every k steps but written at every step looks like a staircase.

Left in, the k - 1 copies make the noise look k times smaller than it is. A staircase is told from a coarse but
honest reward (multiples of 1/G repeat by chance too) by *where* the value changes: at multiples of one k, always.
"""

import numpy as np

from bandit_lab.curves.record import Floats

_FEWEST_CHANGES = 5
"""Changes of value that a staircase has at least."""


def stride(value: Floats) -> int:
    """Rows per tread of the staircase `value` [n]; 1 if it is none.

    Chance repeats of an honest series put the changes at k, 2k, 3k, ... with probability about k^-changes, so at
    least five changes are asked for and all but 2 % of the distances must be multiples of the commonest one.
    """
    changes = np.flatnonzero(np.diff(value) != 0) + 1
    if changes.size < _FEWEST_CHANGES:
        return 1
    gaps = np.diff(changes)
    tread = int(np.bincount(gaps).argmax())
    if tread < 2 or np.mean(gaps % tread == 0) < 0.98 or changes.size * tread < 0.5 * value.size:
        return 1
    return tread


def first_of_each_tread(value: Floats, tread: int) -> np.ndarray:
    """Indices [m] of the rows at which a new value was logged, one per tread, the first one included."""
    changes = np.flatnonzero(np.diff(value) != 0) + 1
    phase = int(np.bincount(changes % tread, minlength=tread).argmax())
    kept = np.arange(phase, value.size, tread)
    return kept if phase == 0 else np.concatenate(([0], kept))
