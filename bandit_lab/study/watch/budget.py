"""What watching may cost: a share of one core, over all the time that it has lasted."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Budget:
    """Lets costly things happen as often as the share allows, by what they cost last time [CPU seconds]."""

    def __init__(self, share: float = 0.03, guess: float = 3.0) -> None:
        self._share, self._guess = share, guess
        self._start = time.monotonic()
        self._cost: dict[str, float] = {}
        self._done: dict[str, float] = {}

    def afford(self, name: str) -> bool:
        """Whether the process has spent little enough for this to happen now; one thing at a time in its turn."""
        cost = self._cost.get(name, self._guess)
        now = time.monotonic()
        if now - self._done.get(name, self._start) < cost / self._share:
            return False
        return time.process_time() + cost <= self._share * (now - self._start) + self._guess

    def spend(self, name: str, action: Callable[[], T]) -> T:
        """Do it and remember what it cost."""
        before = time.process_time()
        try:
            return action()
        finally:
            self._cost[name] = time.process_time() - before
            self._done[name] = time.monotonic()
