"""What the processes of one run add up: each has groups of its own, and all of them measure at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import distributed


class OtherProcessFailedError(RuntimeError):
    """Another process of this run could not go on with a measurement."""


def _announce(good: bool) -> None:
    """Tell all processes whether this one can go on; raises where it can and another cannot."""
    every = [good] * distributed.get_world_size()
    distributed.all_gather_object(every, good)
    if good and not all(every):
        raise OtherProcessFailedError("another process could not go on with the measurement")


@contextmanager
def agreed(several: bool) -> Iterator[None]:
    """Inside, a failure of one process is one of all, before any of them waits in the next exchange.

    Every exchange of `Ranks` begins with each process saying that it can go on. One that fails says so instead, once.
    """
    try:
        yield
    except OtherProcessFailedError:
        raise
    except Exception:
        if several:
            _announce(False)
        raise
    if several:
        _announce(True)


@dataclass(frozen=True)
class Ranks:
    """counts: groups of every process, in order; one process alone is `(n,)`. rank: this one."""

    counts: tuple[int, ...]
    rank: int = 0

    @classmethod
    def of(cls, groups: int) -> Self:
        """All processes of the default group of torch.distributed, each with so many groups."""
        _announce(True)
        counts: list[int] = [0] * distributed.get_world_size()
        distributed.all_gather_object(counts, groups)
        return cls(tuple(counts), distributed.get_rank())

    @property
    def total(self) -> int:
        """Groups of all processes."""
        return sum(self.counts)

    def own(self, every: np.ndarray) -> np.ndarray:
        """The part of this process in an array over all groups."""
        start = sum(self.counts[: self.rank])
        return every[start : start + self.counts[self.rank]]

    def add(self, one: torch.Tensor) -> torch.Tensor:
        """The sum over processes, in place."""
        if len(self.counts) > 1:
            _announce(True)
            distributed.all_reduce(one)
        return one

    def join(self, each: np.ndarray) -> np.ndarray:
        """Arrays over this process's groups as one over all."""
        if len(self.counts) == 1:
            return each
        _announce(True)
        parts: list[np.ndarray] = [each] * len(self.counts)
        distributed.all_gather_object(parts, each)
        return np.concatenate(parts)
