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
        self._open: list[tuple[float, float, int]] = []  # steps of the block that is filled: step, sum, values there

    @property
    def last(self) -> float:
        """The last step, -inf before there is any."""
        if self._open:
            return self._open[-1][0]
        return float(self._step[self._size - 1]) if self._size else -np.inf

    @property
    def size(self) -> int:
        """Full blocks so far."""
        return self._size + (len(self._open) == self.width)

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
        count = len(self._open)
        return sum(step for step, _, _ in self._open) / count, sum(total / n for _, total, n in self._open) / count

    def add(self, step: float, value: float) -> None:
        """Take a finite value; one more at the last step is averaged with what is there. Steps do not decrease."""
        if self._open and step == self._open[-1][0]:
            _, total, count = self._open[-1]
            self._open[-1] = (step, total + value, count + 1)
            return
        if len(self._open) == self.width:
            self._close()
        self._open.append((step, value, 1))

    def _close(self) -> None:
        if self._size == self._room:
            half = self._room // 2
            self._step[:half] = self._step[: self._room].reshape(half, 2).mean(axis=1)
            self._value[:half] = self._value[: self._room].reshape(half, 2).mean(axis=1)
            self._size, self.width = half, 2 * self.width
            if len(self._open) < self.width:
                return
        self._step[self._size], self._value[self._size] = self._mean()
        self._size += 1
        self._open = []

    def cut(self, step: float) -> None:
        """Forget what was logged at this step and later: the run was started again from a checkpoint before it."""
        self._size = int(np.searchsorted(self._step[: self._size], step))
        self._open = [one for one in self._open if one[0] < step]
