"""One logged quantity in bounded memory: block means, whose blocks double in width when the room is full."""

import numpy as np

from grpo_clinic.readers.record import Floats

ROOM = 512
"""Block means that are kept; at least half of them once the room has been full."""


class History:
    """Values as they come, thinned evenly: every block mean is over `width` steps, all of them equally many."""

    def __init__(self, room: int = ROOM) -> None:
        self.width = 1
        self._room = room + room % 2
        self._step: Floats = np.empty(self._room)
        self._value: Floats = np.empty(self._room)
        self._size = 0
        self._open: Floats = np.empty((3, 1))
        """The block that is filled [3, width]: its steps, and the sum and the number of the values at each."""
        self._filled = 0

    @property
    def last(self) -> float:
        """The last step, -inf before there is any."""
        if self._filled:
            return float(self._open[0, self._filled - 1])
        return float(self._step[self._size - 1]) if self._size else -np.inf

    @property
    def size(self) -> int:
        """Full blocks so far."""
        return self._size + (self._filled == self.width)

    @property
    def step(self) -> Floats:
        """Mean step of every full block [n], increasing."""
        return self._full(self._step, 0)

    @property
    def value(self) -> Floats:
        """Mean value of every full block [n]."""
        return self._full(self._value, 1)

    def _full(self, closed: Floats, which: int) -> Floats:
        closed = closed[: self._size]
        return np.append(closed, self._mean()[which]) if self.size > self._size else closed.copy()

    def _mean(self) -> Floats:
        """Step and value of the block that is filled [2]."""
        held = self._open[:2, : self._filled].copy()
        held[1] /= self._open[2, : self._filled]
        return _means(held)

    def add(self, step: float, value: float) -> None:
        """Take a finite value; one more at the last step is averaged with what is there. Steps do not decrease."""
        if self._filled and step == self._open[0, self._filled - 1]:
            self._open[1:, self._filled - 1] += value, 1
            return
        if self._filled == self.width:
            self._close()
        self._open[:, self._filled] = step, value, 1
        self._filled += 1

    def extend(self, step: Floats, value: Floats) -> None:
        """`add` for finite values [n] at increasing steps [n] behind the last one."""
        first = 0
        while first < step.size:
            if self._filled == self.width:
                self._close()
            whole = 0 if self._filled else min((step.size - first - 1) // self.width, self._room - self._size)
            last = min(first + (whole * self.width or self.width - self._filled), step.size)
            if whole:  # the last value stays out: its block is open to one more at its step
                blocks = slice(self._size, self._size + whole)
                self._step[blocks], self._value[blocks] = (
                    _means(one[first:last].reshape(whole, self.width)) for one in (step, value)
                )
                self._size += whole
            else:
                place = slice(self._filled, self._filled + last - first)
                self._open[0, place], self._open[1, place] = step[first:last], value[first:last]
                self._open[2, place] = 1
                self._filled = place.stop
            first = last

    def _close(self) -> None:
        if self._size == self._room:
            half = self._room // 2
            self._step[:half] = self._step[: self._room].reshape(half, 2).mean(axis=1)
            self._value[:half] = self._value[: self._room].reshape(half, 2).mean(axis=1)
            self._size, self.width = half, 2 * self.width
            self._open = np.concatenate((self._open, np.empty_like(self._open)), axis=1)
            return
        self._step[self._size], self._value[self._size] = self._mean()
        self._size += 1
        self._filled = 0

    def cut(self, step: float) -> None:
        """Forget what was logged at this step and later: the run was started again from a checkpoint before it."""
        self._size = int(np.searchsorted(self._step[: self._size], step))
        self._filled = int(np.searchsorted(self._open[0, : self._filled], step))


def _means(rows: Floats) -> Floats:
    """Means of the rows [..., n], summed from first to last: the same bits however the values came."""
    return np.cumsum(rows, axis=-1)[..., -1] / rows.shape[-1]
