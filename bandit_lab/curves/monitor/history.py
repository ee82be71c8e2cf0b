"""One logged quantity in bounded memory: block means, whose blocks double in width when the room is full."""

import numpy as np

from bandit_lab.curves.record import Floats

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
        self._plain = True
        self._open: tuple[list[float], list[float], list[int]] = ([], [], [])
        """The block that is filled: its steps, and the sum and the number of the values at each."""

    @property
    def last(self) -> float:
        """The last step, -inf before there is any."""
        if self._open[0]:
            return self._open[0][-1]
        return float(self._step[self._size - 1]) if self._size else -np.inf

    @property
    def size(self) -> int:
        """Full blocks so far."""
        return self._size + (len(self._open[0]) == self.width)

    @property
    def step(self) -> Floats:
        """Mean step of every full block [n], increasing."""
        return np.append(self._step[: self._size], self._mean()[:1] if self.size > self._size else [])

    @property
    def value(self) -> Floats:
        """Mean value of every full block [n]."""
        return np.append(self._value[: self._size], self._mean()[1:] if self.size > self._size else [])

    def _mean(self) -> tuple[float, float]:
        """Step and value of the block that is filled."""
        steps, sums, counts = self._open
        values = sums if self._plain else [total / n for total, n in zip(sums, counts, strict=True)]
        return sum(steps) / len(steps), sum(values) / len(steps)

    def add(self, step: float, value: float) -> None:
        """Take a finite value; one more at the last step is averaged with what is there. Steps do not decrease."""
        steps, sums, counts = self._open
        if steps and step == steps[-1]:
            sums[-1] += value
            counts[-1] += 1
            self._plain = False
            return
        if len(steps) == self.width:
            self._close()
        steps, sums, counts = self._open  # anew after a block was closed
        steps.append(step)
        sums.append(value)
        counts.append(1)

    def extend(self, step: Floats, value: Floats) -> None:
        """`add` for finite values [n] at increasing steps [n] behind the last one."""
        first = 0
        while first < step.size:
            if len(self._open[0]) == self.width:
                self._close()
            last = min(first + self.width - len(self._open[0]), step.size)
            for held, new in zip(self._open, (step, value), strict=False):
                held += new[first:last].tolist()
            self._open[2].extend([1] * (last - first))
            first = last

    def _close(self) -> None:
        if self._size == self._room:
            half = self._room // 2
            self._step[:half] = self._step[: self._room].reshape(half, 2).mean(axis=1)
            self._value[:half] = self._value[: self._room].reshape(half, 2).mean(axis=1)
            self._size, self.width = half, 2 * self.width
            if len(self._open[0]) < self.width:
                return
        self._step[self._size], self._value[self._size] = self._mean()
        self._size += 1
        self._open, self._plain = ([], [], []), True

    def cut(self, step: float) -> None:
        """Forget what was logged at this step and later: the run was started again from a checkpoint before it."""
        self._size = int(np.searchsorted(self._step[: self._size], step))
        kept = int(np.searchsorted(self._open[0], step))
        for held in self._open:
            del held[kept:]
