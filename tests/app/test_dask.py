"""`engine=dask`: the bytes of one process, and nothing is lost where a worker, the scheduler or the client dies."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bandit_lab.app.chunks import Attempt, ChunkStore, run_chunks
from bandit_lab.app.engine.dask import _local_cluster

pytest.importorskip("distributed", reason="the optional package distributed is not installed")

ROOT = Path(__file__).resolve().parents[2]
SWEEP = (
    *("sweep", "sweep.refresh_interval=[1,2,3,4]", "sweep.learning_rate={num: 6}", "momentum=0.5", "group_size=4"),
    *("seeds=40", "steps=20", "sampled.multiple=[0.1,0.3,0.5,1]", "pictures=false", "chunk.rows=1", "chunk.cells=4"),
)
WORKERS = ("engine=dask", "engine.workers=2")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.fixture(scope="module", autouse=True)
def _programs(tmp_path_factory):
    """Processes find the programs that those before them compiled, in a folder of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENT, "JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("programs")))
        patch.setitem(ENVIRONMENT, "JAX_ENABLE_COMPILATION_CACHE", "true")
        yield


def started(command, cwd=None):
    """A process in a session of its own, so that Ctrl-C can be sent to all that it starts."""
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def sweep(folder, *more, cwd=None):
    return started(["bandit_lab", *SWEEP, f"run_dir={folder}", *more], cwd)


def ended(process):
    """(exit code, stdout, stderr)."""
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


def files(folder):
    store = folder / "results.zarr"
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def wait_for(there, process):
    while not there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def chunks_in(folder, least=2):
    return lambda: len(list((folder / "chunks").glob("*.npz"))) >= least


def computing(process):
    """The workers of a client."""
    import psutil

    workers = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            workers += [one] if "spawn_main" in str(one.cmdline()) else []
    return workers


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The results of one process, in chunks of the usual size."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert ended(sweep(folder, "chunk.rows=null", "chunk.cells=null"))[0] == 0
    return files(folder)


@pytest.mark.slow
def test_two_workers_write_the_bytes_of_one_process(tmp_path, alone):
    """Where one is killed half-way a new one takes its place."""
    folder = tmp_path / "run"
    process = sweep(folder, *WORKERS)
    wait_for(chunks_in(folder), process)
    computing(process)[0].kill()
    code, _, err = ended(process)
    assert (code, err) == (0, "")
    assert files(folder) == alone
    assert not (folder / "chunks").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_client_that_ends_takes_its_workers_along_and_goes_on_later(tmp_path, alone, number):
    folder = tmp_path / "run"
    process = sweep(folder, *WORKERS)
    wait_for(chunks_in(folder), process)
    workers = computing(process)
    assert len(workers) == 2
    start = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.kill()
    code, _, err = ended(process)
    if number == signal.SIGINT:
        assert code == 3
        assert err.count("\n") == 1
        assert "continue it with" in err
        assert time.monotonic() - start < 4
    while any(one.is_running() for one in workers):
        assert time.monotonic() - start < 30
        time.sleep(0.1)
    there = {path.name for path in (folder / "chunks").glob("*.npz")}
    assert len(there) >= 2
    assert ended(sweep(folder))[0] == 0  # without dask: the chunks are the same
    assert files(folder) == alone


@pytest.fixture
def cluster(tmp_path):
    """A scheduler with a file, and what starts workers for it."""
    file = tmp_path / "scheduler.json"
    options = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    running = [started(["distributed.cli.dask_scheduler", *options, "--port", "0"])]

    def worker():
        running.append(started(["distributed.cli.dask_worker", *options, "--nthreads", "1"], cwd=tmp_path))

    wait_for(file.exists, running[0])
    yield file, running[0], worker
    for process in running:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.nightly
def test_a_scheduler_that_dies_loses_nothing(tmp_path, alone, cluster):
    file, scheduler, worker = cluster
    folder = tmp_path / "run"
    worker()
    process = sweep(folder, "engine=dask", f"engine.scheduler_file={file}")
    wait_for(chunks_in(folder), process)
    os.killpg(scheduler.pid, signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 3
    assert "engine: the scheduler is gone; what is finished is kept" in err
    assert ended(sweep(folder))[0] == 0
    assert files(folder) == alone


def test_nobody_without_the_key_is_served_by_a_local_cluster():
    """A scheduler runs what it is sent as this user: another process that finds its port must not get in."""
    from distributed import Client

    with _local_cluster(1) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://127.0.0.1")
        for other in (address, address.replace("tls", "tcp")):
            with pytest.raises((OSError, ValueError, TypeError, RuntimeError)):
                Client(other, timeout=5, set_as_default=False)
        with Client(cluster, timeout=30, set_as_default=False) as client:
            assert client.submit(int, "3").result(timeout=30) == 3


class Piece:
    kind, what, size = "piece", "piece", 1.0

    def __init__(self, number):
        self.number = number

    def identity(self):
        return {"number": self.number}


def test_chunks_that_an_engine_gives_back_in_another_order_are_kept_under_their_keys(tmp_path):
    store = ChunkStore(tmp_path)
    store.open({})
    pieces, seen = [Piece(number) for number in range(5)], []

    def backwards(work, keys):
        for place in reversed(range(len(work))):
            number = work[place].number
            yield place, Attempt({"number": [number]}, 0.1, "too hot" if number == 3 else None)

    store.open({})
    report = run_chunks(store, pieces, lambda done, total: seen.append((done, total)), backwards)
    assert (report.found, report.computed, report.failed) == (0, 4, {3: "too hot"})
    assert seen == [(done, 5) for done in range(1, 6)]
    assert [store.load(report.keys[number])["number"].item() for number in (0, 1, 2, 4)] == [0, 1, 2, 4]
    again = run_chunks(store, pieces, lambda done, total: None, backwards)
    assert (again.found, again.computed, again.failed) == (4, 0, {3: "too hot"})
