"""Several processes, on one machine or many, that work on one run folder.

Chunk i of every list belongs to process i mod count. Nothing is sent from one to another: they meet in the run folder,
which all of them must see. Process 0 holds the folder's lock, writes plan and results, and notes in `meeting.json` what
has to be the same bits everywhere. Every other one holds the lock of its share while it works, so that the rest can see
that it died.
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
from bandit_lab.study.chunks import DONE, FAILED, ChunkStore, Report, RunLock, durable, holder
from bandit_lab.study.chunks.lock import NAME
from bandit_lab.study.chunks.store import MEETING, read_json
from bandit_lab.study.settings.host import AUTO, HostSettings
from bandit_lab.study.terminal.errors import Stopped

TOGETHER = 300.0  # seconds in which all processes have to be there
_INVITATION, _BEGIN = "invitation", "begin"
_SHORT, _LONG = 0.05, 2.0  # seconds between two looks into the folder
_LAUNCHERS = (  # of each: what tells a process its index, their number, its index on this machine; there only in a job
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
)


@dataclass(frozen=True)
class Hosts:
    """This process among `count`. patience: seconds without news from another one. folder: of the chunks."""

    index: int = 0
    count: int = 1
    patience: float = 600.0
    folder: Path = Path()

    def mine(self, chunk: int) -> bool:
        """Whether a chunk of a list belongs to this process."""
        return chunk % self.count == self.index

    def gather(self, word: dict[str, Any]) -> None:
        """Process 0, which holds the folder's lock: invite the others, wait until each holds the lock of its share.

        Raises ValueError if one of them does not come.
        """
        if self.count == 1:
            return
        self._say(_INVITATION, word)
        here: set[int] = set()
        for _ in _looks(TOGETHER):
            here |= set(self.others_at_work(self.folder))
            if len(here) == self.count - 1:
                return
        self._require_meeting(f"no {_names([i for i in range(1, self.count) if i not in here])}")

    def begin(self) -> None:
        """Process 0: the folder is ready."""
        if self.count > 1:
            self._say(_BEGIN, True)

    def invited(self, is_finished: Callable[[], bool]) -> dict[str, Any] | None:
        """The others: what process 0 says of the run, or None where the run is finished already.

        Raises ValueError if process 0 does not come. `is_finished` looks at the folder as process 0 will, and may
        raise ValueError where that would refuse it.
        """
        for _ in _looks(TOGETHER):
            word = (self._words() or {}).get(_INVITATION)
            if word is not None:
                return word
            try:
                if holder(self.folder) is None and is_finished():
                    return None
            except ValueError:
                if holder(self.folder) is None:  # else process 0 has just taken the folder and is changing it
                    raise
        self._require_meeting("no process 0")
        return None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """The others: hold the lock of this process's share. Inside, wait for the beginning by `agreed`."""
        with RunLock(self.folder, _lock(self.index)).hold():
            yield

    def wait_for_begin(self) -> None:
        """The others: wait until all hold their locks and the folder is ready."""
        self._heard(_BEGIN, TOGETHER)

    def agreed(self, name: str, value: Any) -> Any:
        """Process 0's `value` (plain, floats to the last bit) in every process; `name` is used once."""
        if self.count == 1:
            return value
        if self.index > 0:
            return self._heard(name, self.patience)
        self._say(name, value)
        return value

    def _say(self, name: str, value: Any) -> None:
        content = {"of": holder(self.folder), "words": (self._words() or {}) | {name: value}}
        durable.write_file(self.folder / MEETING, json.dumps(content).encode())

    def _words(self) -> dict[str, Any] | None:
        """What process 0, which works now, has said; None where it does not work. An earlier one's words are not
        believed."""
        who, content = holder(self.folder), read_json(self.folder / MEETING)
        return content.get("words") if content is not None and who is not None and content.get("of") == who else None

    def _heard(self, name: str, seconds: float) -> Any:
        for _ in _looks(seconds):
            words = self._words()
            if words is None:
                raise Stopped(f"hosts: process 0 of {self.count} ended")
            if name in words:
                return words[name]
        raise Stopped(f"hosts: process 0 of {self.count} wrote nothing for {seconds:g} s")

    def others_at_work(self, folder: Path) -> list[int]:
        """The other processes that hold their lock."""
        return [i for i in range(self.count) if i != self.index and holder(folder, _lock(i)) is not None]

    def wait_for_others(self) -> None:
        """Process 0: wait until the others have left, as they do when all chunks are there."""
        for _ in _looks(self.patience):
            if not self.others_at_work(self.folder):
                return

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

    def _require_meeting(self, got: str) -> None:
        _checks.require(False, "hosts.coordinator", f"{self.count} processes that meet in run_dir", got)


ALONE = Hosts()


def join(settings: HostSettings, folder: Path = Path()) -> Hosts:
    """Which of several processes this one is; without a coordinator there is only one. Before JAX is used."""
    if settings.coordinator is None:
        return ALONE
    index, count = settings.index, settings.count
    if index is None or count is None:
        found = _from_launcher()
        index, count = (found[0] if index is None else index), (found[1] if count is None else count)
    return Hosts(index, count, settings.patience, folder)


def _from_launcher() -> tuple[int, int]:
    """(index, count) of this process as Slurm or Open MPI say; else what `jax.distributed` finds, as it does on TPUs,
    whose processes have to be connected.

    Each process of a machine uses one of its GPUs, as with `jax.distributed`.
    """
    import jax

    for names in _LAUNCHERS:
        if set(names) <= set(os.environ):
            index, count, here = (int(os.environ[name]) for name in names[:3])
            for devices in ("jax_cuda_visible_devices", "jax_rocm_visible_devices"):
                jax.config.update(devices, str(here))
            return index, count
    if not jax.distributed.is_initialized():
        try:
            jax.distributed.initialize(initialization_timeout=int(TOGETHER))
        except (RuntimeError, ValueError) as error:
            got = str(error).splitlines()[0]
            _checks.require(False, "hosts.coordinator", f"{AUTO} under Slurm, Open MPI or on TPUs", got)
    return jax.process_index(), jax.process_count()


def _looks(seconds: float) -> Iterator[None]:
    """Moments at which to look into the folder, for so long, less and less often."""
    end, pause = time.monotonic() + seconds, _SHORT
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.2, _LONG)
        yield


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
