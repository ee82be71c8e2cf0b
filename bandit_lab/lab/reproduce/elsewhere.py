"""Measurements as chunks of work, for an engine with workers; the cache keeps what they send back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab.app.chunks import Attempts, Work, key_of
from bandit_lab.lab.reproduce.cache import MEASURED, Cache, key, pack, unpack
from bandit_lab.lab.reproduce.experiment import Experiment, Lab, discover, read_setting

_PACKED = "packed"


@dataclass(frozen=True)
class Measurement:
    """One experiment's measurement, whole. decides: the hash of everything that decides it, as the cache has it."""

    id: str
    quality: str
    decides: str
    plugins: tuple[str, ...]

    kind = "measurement"
    size = 1.0

    @property
    def what(self) -> str:
        """The experiment."""
        return self.id

    def identity(self) -> dict[str, Any]:
        """The experiment, and the hash."""
        return {"id": self.id, "quality": self.quality, "decides": self.decides}

    def compute(self) -> Mapping[str, np.ndarray]:
        """The packed data set. Raises RuntimeError where this process has another text of the experiment."""
        loaded, setting = discover()[self.id].load(), read_setting(self.id, self.quality)
        if key(loaded, setting, self.plugins) != self.decides:
            raise RuntimeError(f"the worker has another {self.id}: its text, its numbers, its logs or the package")
        lab = Lab(lambda name, function: unpack(pack(function())), lambda done, total: None)
        return {_PACKED: np.frombuffer(pack(loaded.measure(setting, lab)), np.uint8)}


def measure(
    experiments: Sequence[Experiment],
    quality: str,
    plugins: Sequence[str],
    cache_of: Callable[[Any, Any], Cache],
    attempts: Attempts,
    progress: Callable[[int, int], None],
) -> dict[str, str]:
    """Have what the caches lack measured, each kept as it comes. Returns experiment -> why it failed.

    cache_of: (loaded experiment, setting) -> its cache.
    """
    work: list[Work] = []
    caches = []
    for one in experiments:
        try:
            loaded, setting = one.load(), read_setting(one.id, quality)
            loaded.check_available(setting)
        except Exception:  # said where its turn comes
            continue
        cache = cache_of(loaded, setting)
        if cache.load(MEASURED) is None:
            work.append(Measurement(one.id, quality, key(loaded, setting, plugins), tuple(plugins)))
            caches.append(cache)
    failed = {}
    for done, (place, found) in enumerate(attempts(work, [key_of(one) for one in work]), start=1):
        if found.reason is None:
            caches[place].store(MEASURED, found.arrays[_PACKED].tobytes())
        else:
            failed[work[place].what] = found.reason
        progress(done, len(work))
    return failed
