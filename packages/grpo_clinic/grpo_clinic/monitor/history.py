"""One logged quantity in bounded memory: block means, whose blocks double in width when the room is full."""

from bisect import bisect_left

import numpy as np

from grpo_clinic.readers.record import Series

ROOM = 512
"""Block means that are kept; at least half of them once the room has been full."""


class History:
    """Values as they come, thinned evenly: every block mean is over `width` steps, all of them equally many."""

    def __init__(self, room: int = ROOM) -> None:
        self.width, self._room = 1, room + room % 2
        self._step: list[float] = []
        self._value: list[float] = []
        self._open: list[tuple[float, float, int]] = []
        """The block that is filled: of each of its steps the step, the mean and the number of its values."""

    @property
    def size(self) -> int:
        """Full blocks so far."""
        return len(self._step) + (len(self._open) == self.width)

    def series(self, key: str) -> Series:
        """Mean step and mean value of every full block [n]."""
        step, value = self._step, self._value
        if len(self._open) == self.width:
            mean = self._mean()
            step, value = [*step, mean[0]], [*value, mean[1]]
        return Series(np.array(step), np.array(value), key)

    def _mean(self) -> tuple[float, float]:
        step, value, _ = zip(*self._open, strict=True)
        return sum(step) / len(step), sum(value) / len(value)

    def add(self, step: float, value: float) -> None:
        """Take a finite value; one more at the last step is averaged with what is there. Steps do not decrease."""
        if self._open and step == self._open[-1][0]:
            _, mean, count = self._open[-1]
            self._open[-1] = step, mean + (value - mean) / (count + 1), count + 1
            return
        if len(self._open) == self.width:
            if len(self._step) == self._room:
                self._step, self._value = (
                    [0.5 * (a + b) for a, b in zip(column[::2], column[1::2], strict=True)]
                    for column in (self._step, self._value)
                )
                self.width *= 2
            else:
                block = self._mean()
                self._step.append(block[0])
                self._value.append(block[1])
                self._open = []
        self._open.append((step, value, 1))

    def cut(self, step: float) -> None:
        """Forget what was logged at this step and later: the run was started again from a checkpoint before it."""
        for column in (self._value, self._step):
            del column[bisect_left(self._step, step) :]
        self._open = [one for one in self._open if one[0] < step]
