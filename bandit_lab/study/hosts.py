"""Several processes, on one machine or many, that work on one run folder.

Each takes the chunks that are neither done nor taken (`chunks.run`). Nothing is sent from one to another: they meet in
the run folder, which all of them must see. The first one holds the folder's lock; it opens the folder and writes the
results. Each holds a lock of its own too, so that the rest can see that it works. What has to be the same bits
everywhere is noted in `meeting.json` by whoever comes to it first. When the process that holds the folder's lock dies,
another one writes the results.
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
from bandit_lab.study.arithmetic import changes
from bandit_lab.study.chunks import Held, RunLock, durable, holder
from bandit_lab.study.chunks.lock import NAME
from bandit_lab.study.chunks.store import MEETING, read_json
from bandit_lab.study.settings.config import HostSettings
from bandit_lab.study.terminal.errors import Stopped

TOGETHER = 300.0  # seconds in which a process has to find its place
AUTO = "auto"
_BEGUN, _NOTES = "begun", f"{NAME}.notes"
_SHORT, _LONG = 0.05, 2.0  # seconds between two looks into the folder
_LAUNCHERS = (  # of each: what tells a process its index, their number, its index on this machine; there only in a job
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
)


@dataclass(frozen=True)
class Hosts:
    """This process among `count`. patience: seconds without news from the others. folder: of the chunks."""

    index: int = 0
    count: int = 1
    patience: float = 600.0
    folder: Path = Path()

    def enter(self, stack: contextlib.ExitStack, look: Callable[[], Any], what: dict[str, Any], anew: bool) -> bool:
        """Find this process's place in the folder. Returns whether it is the first, which has to open the folder.

        Args:
          stack: holds the locks.
          look: raises ValueError where a run may not begin in the folder; only reads.
          what: `settings` and `arithmetic`, in which all processes have to agree.
          anew: an earlier run is overwritten. Then all have to be here first: who comes late would begin once more.

        Raises ValueError where it finds no place, or where its settings are not those of the others.
        """
        if self.count == 1:
            look()
            stack.enter_context(RunLock(self.folder).hold())
            return True
        here = False
        for _ in _looks(TOGETHER):
            words = self._words()
            if words is None:
                if holder(self.folder) is None and self._is_first(stack, look):
                    self._say(what, of=holder(self.folder))
                    self._stay(stack, here)
                    if anew:
                        self._gather()
                    return True
                continue
            if words["settings"] != what["settings"]:
                raise ValueError("hosts: expected the settings of the first process, got others")
            if different := changes(words["arithmetic"], what["arithmetic"]):
                got = f"another {', '.join(different)} than the first process"
                raise ValueError(f"hosts: expected processes that compute the same bits, got {got}")
            self._stay(stack, here)
            here = True
            if words.get(_BEGUN):
                return False
        self._require_meeting(Held.text(holder(self.folder)))
        return False

    def _is_first(self, stack: contextlib.ExitStack, look: Callable[[], object]) -> bool:
        """Take the folder's lock, if the folder is good for a run and nobody was faster."""
        try:
            look()
        except ValueError:
            if holder(self.folder) is None:  # else another one has just taken the folder and is changing it
                raise
            return False
        return stack.enter_context(RunLock(self.folder).tried())

    def _stay(self, stack: contextlib.ExitStack, here: bool) -> None:
        """Hold the lock by which the others see that this process works."""
        if not here:
            stack.enter_context(RunLock(self.folder, f"{NAME}.{self.index}").hold())

    def _gather(self) -> None:
        here: set[int] = set()
        for _ in _looks(TOGETHER):
            here |= set(self.others_at_work())
            if len(here) == self.count - 1:
                return
        missing = [i for i in range(self.count) if i not in here and i != self.index]
        self._require_meeting(f"no process{'es' if len(missing) > 1 else ''} {', '.join(map(str, missing))}")

    def begin(self) -> None:
        """The first process: the folder is open, all may work."""
        if self.count > 1:
            self._say({_BEGUN: True})

    def agreed(self, name: str, value: Any) -> Any:
        """The same `value` (plain, floats to the last bit) in every process: that of the one that comes first."""
        return value if self.count == 1 else self._say({name: value})[name]

    def take_over(self, stack: contextlib.ExitStack) -> bool:
        """When all chunks are settled: whether the process that was to write the results is gone, and this one is to.

        `stack` then holds the folder's lock.
        """
        return stack.enter_context(RunLock(self.folder).tried())

    def wait(self, left: int, silent: float) -> None:
        """Wait a moment for chunks that others work on. Raises Stopped where nothing was heard of them for too long."""
        if silent > self.patience:
            raise Stopped(f"hosts: the other processes wrote nothing for {self.patience:g} s, {left} chunks left")
        time.sleep(min(max(_SHORT, silent / 2), _LONG))

    def wait_for_others(self) -> None:
        """Wait until the others have left, as they do when all chunks are settled."""
        for _ in _looks(self.patience):
            if not self.others_at_work():
                return

    def others_at_work(self) -> list[int]:
        """The other processes that hold their lock."""
        there = (path.name.removeprefix(f"{NAME}.") for path in self.folder.glob(f"{NAME}.*"))
        others = sorted(int(index) for index in there if index.isdecimal() and len(index) < 32)
        return [i for i in others if i != self.index and holder(self.folder, f"{NAME}.{i}") is not None]

    def _words(self) -> dict[str, Any] | None:
        """What was said in the run that is on its way; None where none is: an earlier run's words are not believed."""
        content = read_json(self.folder / MEETING)
        if content is None:
            return None
        words, who = content["words"], holder(self.folder)
        on_its_way = content["of"] == who if who is not None else _BEGUN in words and bool(self.others_at_work())
        return words if on_its_way else None

    def _say(self, new: dict[str, Any], of: Any = None) -> dict[str, Any]:
        """Add what is not said yet. of: who begins a run, in which nothing is said yet. Returns all that is said."""
        with RunLock(self.folder, _NOTES).hold(self.patience):
            content = read_json(self.folder / MEETING)
            if of is not None or content is None:
                content = {"of": of, "words": {}}
            content["words"] = new | content["words"]
            durable.write_file(self.folder / MEETING, json.dumps(content).encode())
            return content["words"]

    def _require_meeting(self, got: str) -> None:
        _checks.require(False, "hosts.coordinator", f"{self.count} processes that meet in run_dir", got)


ALONE = Hosts()


def check(settings: HostSettings, run_dir: str | None) -> None:
    """Raise ValueError unless the settings name a process among several, or none at all."""
    _checks.positive("hosts.patience", settings.patience)
    if settings.coordinator is None:
        for name in ("count", "index"):
            given = getattr(settings, name)
            _checks.require(given is None, "hosts.coordinator", f"an address, as hosts.{name} is given", None)
        return
    _checks.require(run_dir is not None, "run_dir", "a folder that all processes see (and no -m)", run_dir)
    if settings.coordinator == AUTO:
        return
    port = settings.coordinator.rpartition(":")[2]
    _checks.require(port.isdecimal(), "hosts.coordinator", "address:port, or auto", settings.coordinator)
    for name, least in (("count", 1), ("index", 0)):
        _checks.integer(f"hosts.{name}", getattr(settings, name), least)
    count, index = settings.count or 1, settings.index or 0
    _checks.require(index < count, "hosts.index", f"less than hosts.count = {count}", index)


def join(settings: HostSettings, folder: Path = Path()) -> Hosts:
    """Which of several processes this one is; without a coordinator there is only one. Before JAX is used."""
    if settings.coordinator is None:
        return Hosts(folder=folder)
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
