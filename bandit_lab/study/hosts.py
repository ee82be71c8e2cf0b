"""Several processes, on one machine or many, that work on one run folder.

Chunk i of every list belongs to process i mod count. Nothing is exchanged while chunks are computed: they meet in the
run folder, which all processes must see. `jax.distributed` says who is who and carries the few numbers that have to be
the same bits everywhere. Process 0 holds the folder's lock and writes plan and results; every other one holds a lock of
its own there while it works, so that the rest can see that it died.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.study.chunks import DONE, FAILED, ChunkStore, Report, RunLock, holder
from bandit_lab.study.chunks.lock import NAME
from bandit_lab.study.settings.host import AUTO, HostSettings
from bandit_lab.study.terminal.errors import Stopped

MEETING = 300  # seconds in which all processes have to be there
_OPTIONS = {
    "jax_enable_recoverability": True,  # without, the death of one process ends the others
    "jax_enable_preemption_service": False,
    "jax_cpu_collectives_implementation": None,  # nothing is exchanged: it would listen on a port of its own
}
_SHORT, _LONG = 0.05, 2.0  # seconds between two looks into the store


@dataclass(frozen=True)
class Hosts:
    """This process among `count`. patience: seconds without a new chunk from one of them."""

    index: int = 0
    count: int = 1
    patience: float = 600.0

    def mine(self, chunk: int) -> bool:
        """Whether a chunk of a list belongs to this process."""
        return chunk % self.count == self.index

    def agreed(self, name: str, value: Any) -> Any:
        """Process 0's `value` (plain, floats to the last bit) in every process; `name` is used once."""
        if self.count == 1:
            return value
        with _stopped_by_loss():
            if self.index == 0:
                _client().key_value_set(f"bandit_lab/{name}", json.dumps(value))
                return value
            return json.loads(_client().blocking_key_value_get(f"bandit_lab/{name}", int(self.patience * 1000)))

    def meet(self, name: str) -> None:
        """Wait until every process has come here."""
        if self.count > 1:
            with _stopped_by_loss():
                _client().wait_at_barrier(f"bandit_lab/{name}", int(self.patience * 1000))

    @contextlib.contextmanager
    def at_work(self, folder: Path) -> Iterator[None]:
        """Hold this process's own lock in the store's folder (process 0 holds the folder's). It is given up after the
        connection: whoever sees it free may end without ending this process."""
        with RunLock(folder, _lock(self.index)).hold():
            try:
                yield
            finally:
                self.part()

    def part(self) -> None:
        """Leave the other processes."""
        if self.count > 1:
            import jax

            jax.distributed.shutdown()

    def others_at_work(self, folder: Path) -> list[int]:
        """The other processes that hold their lock."""
        return [i for i in range(self.count) if i != self.index and holder(folder, _lock(i)) is not None]

    @contextlib.contextmanager
    def leaving_last(self, folder: Path) -> Iterator[None]:
        """For process 0: at the end, also when a process was lost, wait until the others hold no lock any more."""
        try:
            yield
        except Stopped:
            self._wait_for_others(folder)
            raise
        self._wait_for_others(folder)

    def _wait_for_others(self, folder: Path) -> None:
        end = time.monotonic() + self.patience
        while self.others_at_work(folder) and time.monotonic() < end:
            time.sleep(_SHORT)

    def wait_for_chunks(self, store: ChunkStore, report: Report, advance: Callable[[int, int], None]) -> None:
        """Wait for what the report left to other processes, and take their failures into it.

        Raises:
          Stopped: a process has ended or has been silent for too long, and chunks of it are missing.
        """
        waiting = {i: [k for k in report.left if k % self.count == i] for i in range(self.count)}
        total, seen, pause = len(report.keys), time.monotonic(), _SHORT
        while missing := sum(len(chunks) for chunks in waiting.values()):
            at_work = self.others_at_work(store.folder)  # before the records: what was written until then counts
            for chunks in waiting.values():
                while chunks and _settled(store, report, chunks[0]):
                    del chunks[0]
            left = sum(len(chunks) for chunks in waiting.values())
            if left < missing:
                advance(total - left, total)
                seen, pause = time.monotonic(), _SHORT
                continue
            late = [i for i, chunks in waiting.items() if chunks]
            ended = [i for i in late if i not in at_work]
            if ended:
                raise Stopped(f"hosts: {_names(ended)} of {self.count} ended with {left} chunks left")
            if time.monotonic() - seen > self.patience:
                text = f"{_names(late)} of {self.count} wrote nothing for {self.patience:g} s"
                raise Stopped(f"hosts: {text}, {left} chunks left")
            time.sleep(pause)
            pause = min(pause * 1.5, _LONG)
        report.left.clear()


ALONE = Hosts()


def join(settings: HostSettings) -> Hosts:
    """Meet the other processes, once; without a coordinator there are none. To be called before JAX is used."""
    if settings.coordinator is None:
        return ALONE
    import jax

    if not jax.distributed.is_initialized():
        for option, value in _OPTIONS.items():
            with contextlib.suppress(AttributeError, ValueError):  # not in every version
                jax.config.update(option, value)
        detection = None if settings.coordinator == AUTO else "deactivate"
        address = None if settings.coordinator == AUTO else settings.coordinator
        try:
            jax.distributed.initialize(
                address,
                settings.count,
                settings.index,
                cluster_detection_method=detection,
                coordinator_bind_address=_listening(address),
                initialization_timeout=MEETING,
                shutdown_timeout_seconds=30,
            )
        except (RuntimeError, ValueError) as error:
            first = str(error).splitlines()[0]
            meeting = f"{settings.count or 'all'} processes that meet, and process 0 on a machine with that address"
            _checks.require(False, "hosts.coordinator", meeting, first)
    return Hosts(jax.process_index(), jax.process_count(), settings.patience)


def _listening(address: str | None) -> str | None:
    """Where process 0 listens: where it was asked to, and not on every interface, which is JAX's default. JAX's own
    variable says otherwise where this machine does not have that address (behind a proxy, in a container)."""
    return os.environ.get("JAX_COORDINATOR_BIND_ADDRESS") or address


def _client() -> Any:
    """The key-value store and barriers of `jax.distributed`, which has no public name for them."""
    from jax._src import distributed

    return distributed.global_state.client


@contextlib.contextmanager
def _stopped_by_loss() -> Iterator[None]:
    """Inside, an error of the connection between processes leaves as `Stopped`."""
    import jax

    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        raise Stopped(f"hosts: a process was lost or is late ({str(error).splitlines()[0]})") from error


def _lock(index: int) -> str:
    return f"{NAME}.{index}" if index else NAME


def _names(processes: list[int]) -> str:
    return f"process{'es' if len(processes) > 1 else ''} {', '.join(map(str, processes))}"


def _settled(store: ChunkStore, report: Report, chunk: int) -> bool:
    record = store.record(report.keys[chunk])
    if record is None:
        return False
    if record.status == FAILED:
        report.failed[chunk] = record.reason or "failed"
        return True
    if record.status == DONE and store.is_done(report.keys[chunk]):
        report.found += 1
        return True
    return False
