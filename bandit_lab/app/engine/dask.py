"""Workers of `dask.distributed` (extra `dask`): processes of this machine, or a cluster that is there already.

A chunk is submitted under its key. A worker that dies loses the chunk it was at; the scheduler gives it to another one.
"""

import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.chunks import Attempt, Attempts, Work, reason_of
from bandit_lab.app.engine import register_engine
from bandit_lab.app.progress import Stopped

JOIN = 60  # seconds for a scheduler to answer and for its first worker to come
RETRIES = 2
_AHEAD = 2  # chunks submitted per thread of a worker: one at work, one that waits beside it


@register_engine("dask")
@dataclass(frozen=True)
class _Dask:
    """Workers of dask.distributed: `workers` processes of this machine (null: one per core), or those of the scheduler
    at `address` (`tcp://host:8786`) or in `scheduler_file`.
    """

    workers: int | None = None
    address: str | None = None
    scheduler_file: str | None = None

    def __post_init__(self) -> None:
        there = importlib.util.find_spec("distributed") is not None
        _checks.require(there, "engine", "the package of dask's workers (pip install distributed)", "none installed")
        given = [name for name in ("workers", "address", "scheduler_file") if getattr(self, name) is not None]
        _checks.require(len(given) < 2, f"engine.{given[-1] if given else ''}", "one place", " and ".join(given))
        if self.workers is not None:
            _checks.integer("engine.workers", self.workers, 1)
        if self.scheduler_file is not None:
            there = Path(self.scheduler_file).is_file()
            _checks.require(there, "engine.scheduler_file", "a file that a scheduler wrote", self.scheduler_file)

    @contextmanager
    def opened(self, plugins: Sequence[str]) -> Iterator[Attempts]:
        """With workers that have the plug-ins and the same versions and device as this process.

        Raises:
          ValueError: no scheduler, no worker, or one with another device or version.
        """
        from bandit_lab.app.engine._dask_worker import Ready, signature

        with self._place() as (key, place), _client(key, place) as client:
            ready = Ready(plugins, key == "workers")
            ours = signature()
            for worker, theirs in _signatures(client, ready, signature).items():
                other = ", ".join(name for name in ours if theirs.get(name) != ours[name])
                got = f"another {other} on {worker}"
                _checks.require(theirs == ours, "engine", "workers of the same versions", got)
            yield partial(_attempts, client)

    @contextmanager
    def _place(self) -> Iterator[tuple[str, Any]]:
        """Where a client finds the scheduler: the setting that says it, and its value."""
        if self.address is not None:
            yield "address", self.address
        elif self.scheduler_file is not None:
            yield "scheduler_file", self.scheduler_file
        else:
            sys.warnoptions.append("ignore:resource_tracker")  # of multiprocessing's, that outlives us after Ctrl-C
            with _local_cluster(self.workers) as cluster:
                yield "workers", cluster


def _local_cluster(workers: int | None) -> Any:
    """Processes of this machine, reached on the loopback alone.

    They talk by TLS with a key that this process alone has made: a scheduler runs what it is sent, whoever sends it.
    """
    from dask.system import CPU_COUNT
    from distributed import Nanny, Scheduler, SpecCluster
    from distributed.security import Security

    key = Security.temporary()
    secure = {"security": key, "protocol": "tls"}
    local = {"host": "127.0.0.1", "dashboard": False} | secure
    scheduler = {"cls": Scheduler, "options": local | {"port": 0}}
    options = local | {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    processes = {place: {"cls": Nanny, "options": options} for place in range(workers or CPU_COUNT)}
    try:
        return SpecCluster(processes, scheduler, security=key, silence_logs=logging.CRITICAL)
    except RuntimeError as error:  # a process that is killed while it starts
        raise Stopped(f"engine: workers could not be started ({error})") from error


@contextmanager
def _client(key: str, place: Any) -> Iterator[Any]:
    """A client whose scheduler has a worker."""
    from distributed import Client

    option = "address" if key == "workers" else key
    try:
        client = Client(**{option: place}, timeout=JOIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"engine.{key}: expected a scheduler that answers, got {str(error)[:120]}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=JOIN)
        except TimeoutError:
            raise ValueError(f"engine.{key}: expected a worker within {JOIN} s, got none ({place})") from None
        yield client


def _signatures(client: Any, ready: Any, signature: Callable[[], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each worker's signature, once all are prepared. Where one dies meanwhile, its replacement and the others are."""
    for _ in range(1 + RETRIES):
        with suppress(OSError):  # whose connection closes, or who does not answer
            client.wait_for_workers(1, timeout=JOIN)
            client.register_plugin(ready)
            return dict(client.run(signature))
    raise Stopped("engine: workers died while they were prepared (was there enough memory?)")


def _attempts(client: Any, work: Sequence[Work], keys: Sequence[str]) -> Iterator[tuple[int, Attempt]]:
    """Chunks as they are finished. Few are under way at a time, so that the scheduler holds few results.

    They are sent as bytes: the scheduler would unpickle anything else, without plug-ins and in single precision.
    """
    import cloudpickle
    from distributed import as_completed

    from bandit_lab.app.engine._dask_worker import computed

    def submit(place: int) -> Any:
        packed = cloudpickle.dumps(work[place])
        return client.submit(computed, packed, keys[place], key=f"chunk-{keys[place]}", retries=RETRIES)

    threads = sum(client.nthreads().values())
    waiting = iter(range(len(work)))
    under_way = {submit(place): place for place in islice(waiting, _AHEAD * threads)}
    finished = as_completed(list(under_way), loop=client.loop)
    try:
        for future in finished:
            yield under_way.pop(future), _result(future)
            if (place := next(waiting, None)) is not None:
                under_way[another := submit(place)] = place
                finished.add(another)
    finally:
        client.cancel(list(under_way))


def _result(future: Any) -> Attempt:
    if future.status in ("lost", "cancelled"):
        raise Stopped("engine: the scheduler is gone; what is finished is kept")
    error = future.exception()
    return Attempt({}, 0.0, reason_of(error)) if error is not None else future.result()
