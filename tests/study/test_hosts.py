"""Several processes on one run folder: the same bytes as one process, and clear ends where one is lost."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from settings import nightly_but

from bandit_lab.study import hosts
from bandit_lab.study.chunks import DONE, FAILED, ChunkStore, Record, Report, RunLock
from bandit_lab.study.hosts import ALONE, Hosts
from bandit_lab.study.settings import host as host_settings
from bandit_lab.study.settings.host import HostSettings
from bandit_lab.study.terminal.errors import Stopped

TESTS = Path(__file__).resolve().parents[1]
SWEEP = (
    *("sweep", "sweep.refresh_interval=[1,2,3,4]", "sweep.learning_rate={num: 6}", "momentum=0.5", "group_size=4"),
    *("seeds=40", "steps=20", "sampled.multiple=[0.1,0.3,0.5,1]", "pictures=false"),
)
SMALL_CHUNKS = ("chunk.rows=1", "chunk.cells=4")


@pytest.fixture(scope="module", autouse=True)
def _programs(tmp_path_factory):
    """Processes find the programs that those before them compiled, in a folder of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("programs")))
        patch.setenv("JAX_ENABLE_COMPILATION_CACHE", "true")
        yield


def started(folder: Path, arguments: tuple[str, ...], script: tuple[str, ...] = ("-m", "bandit_lab"), devices: int = 1):
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent), "JAX_NUM_CPU_DEVICES": str(devices)}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    command = [sys.executable, *script, *SWEEP, f"run_dir={folder}", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def by_processes(
    count: int, folder: Path, dying: int | None = None, more: tuple[str, ...] = (), devices: int = 1
) -> list:
    """(exit code, stdout, stderr) of each of `count` processes on one folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = []
    for index in range(count):
        script = (str(TESTS / "study" / "worker_that_dies.py"),) if index == dying else ("-m", "bandit_lab")
        place = f"hosts.coordinator={address}", f"hosts.count={count}", f"hosts.index={index}"
        arguments = (*SMALL_CHUNKS, *place, *(more if index == count - 1 else ()))
        running.append(started(folder, arguments, script, devices))
    ended = [process.communicate(timeout=300) for process in running]
    return [(process.returncode, *texts) for process, texts in zip(running, ended, strict=True)]


def files(folder: Path) -> dict[str, bytes]:
    store = folder / "results.zarr"
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The results of one process with one device, in chunks of the usual size."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    process = started(folder, ())
    assert process.communicate(timeout=300)[1] == ""
    assert process.returncode == 0
    return files(folder)


@pytest.mark.slow
@pytest.mark.parametrize("count", nightly_but([2], [2, 4]))
def test_several_processes_write_the_bytes_of_one(tmp_path, alone, count):
    """All of them work, one writes. Other seeds are other bytes."""
    ended = by_processes(count, tmp_path / "run")
    assert [code for code, _, _ in ended] == [0] * count, ended
    for index, (_, out, _) in enumerate(ended[1:], 1):
        assert f"process {index} of {count}" in out
        assert ": 0 chunks computed" not in out
    assert files(tmp_path / "run") == alone
    assert not (tmp_path / "run" / "chunks").exists()


@pytest.mark.nightly
def test_a_lost_process_leaves_its_chunks_and_the_same_command_completes_them(tmp_path, alone):
    """Also with another number of devices than it began with."""
    folder = tmp_path / "run"
    (code, _, complaint), (lost, _, _) = by_processes(2, folder, dying=1)
    assert (code, lost) == (3, 137)
    assert "process 1 of 2 ended with" in complaint
    assert f"run_dir={folder}" in complaint
    kept = {path.name: path.read_bytes() for path in (folder / "chunks").glob("*.npz")}
    assert len(kept) > 2
    ended = by_processes(2, folder, devices=2)
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert files(folder) == alone


@pytest.mark.nightly
def test_the_loss_of_process_0_is_said_by_the_others_and_the_same_command_completes_the_run(tmp_path, alone):
    folder = tmp_path / "run"
    (lost, _, _), (code, _, complaint) = by_processes(2, folder, dying=0)
    assert (lost, code) == (137, 3)
    assert "hosts: process 0 of 2 ended" in complaint
    assert complaint.count("\n") == 1
    assert by_processes(2, folder)[0][0] == 0
    assert files(folder) == alone


@pytest.mark.nightly
def test_processes_with_different_settings_do_not_mix(tmp_path):
    first, second = by_processes(2, tmp_path / "run", more=("seed=1",))
    assert second[0] == 2
    assert "expected the settings of process 0" in second[2]
    assert first[0] == 3
    assert "process 1 of 2 ended" in first[2]


LISTENING = """
import os, re, sys
from pathlib import Path
from bandit_lab.study.chunks import RunLock
from bandit_lab.study.hosts import join
from bandit_lab.study.settings.host import HostSettings

hosts = join(HostSettings("127.0.0.1:1", 2, int(sys.argv[1])), Path(sys.argv[2]))
if hosts.index == 0:
    with RunLock(hosts.folder).hold():
        hosts.gather({})
        hosts.begin()
        print(hosts.agreed("rates", [0.1, 2 / 3]))
        hosts.wait_for_others()
else:
    assert hosts.invited(lambda: False) == {}
    with hosts.at_work():
        hosts.wait_for_begin()
        print(hosts.agreed("rates", None))
        planted = __import__("socket").create_server(("127.0.0.1", 0)) if sys.argv[3:] else None
        paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        links = [os.readlink(path) for path in paths if os.path.islink(path)]
        mine = {match[1] for match in (re.fullmatch(r"socket:.(\\d+).", link) for link in links) if match}
        rows = [line.split() for table in ("tcp", "tcp6") for line in open(f"/proc/self/net/{table}").readlines()[1:]]
        print(*(row[1] for row in rows if row[3] == "0A" and row[9] in mine))
"""


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="the sockets are looked up in /proc")
@pytest.mark.parametrize("planted", [(), ("planted",)])
def test_processes_agree_by_the_folder_and_nobody_listens(tmp_path, planted):
    """Planted: a socket, which the table then shows. A meeting of an earlier process is not believed."""
    (tmp_path / "meeting.json").write_text('{"of": null, "words": {"invitation": {"old": 1}, "begin": true}}')
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", LISTENING, str(index), str(tmp_path), *planted],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in (1, 0)
    ]
    second, first = (process.communicate(timeout=300)[0].splitlines() for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert first == [str([0.1, 2 / 3])]
    assert second[0] == first[0]
    assert len(second[1].split()) == len(planted)


def test_a_process_that_does_not_come_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "TOGETHER", 0.2)
    with (
        RunLock(tmp_path).hold(),
        pytest.raises(
            ValueError, match=r"hosts.coordinator: expected 3 processes that meet in run_dir, got 'no processes 1, 2'"
        ),
    ):
        Hosts(0, 3, 60.0, tmp_path).gather({})
    with pytest.raises(ValueError, match="got 'no process 0'"):
        Hosts(1, 3, 60.0, tmp_path).invited(lambda: False)
    with pytest.raises(Stopped, match="process 0 of 3 ended"):
        Hosts(1, 3, 60.0, tmp_path).agreed("rates", None)


def test_slurm_and_open_mpi_say_who_is_who(monkeypatch):
    auto = HostSettings("auto")
    chosen: dict[str, str] = {}
    monkeypatch.setattr("jax.config.update", chosen.__setitem__)
    for name, value in (("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("jax.distributed.initialize", lambda **_: (_ for _ in ()).throw(ValueError("nobody\nknows")))
    with pytest.raises(ValueError, match=r"hosts.coordinator: expected auto under Slurm, .*, got 'nobody'"):
        hosts.join(auto)  # the variables of a job, not of one of its processes
    monkeypatch.setenv("SLURM_STEP_NODELIST", "a[1-2]")
    assert hosts.join(auto) == Hosts(3, 8)
    assert chosen["jax_cuda_visible_devices"] == "1"
    assert hosts.join(HostSettings("auto", count=2, index=1)) == Hosts(1, 2)
    for name in ("RANK", "SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", "4")
    monkeypatch.delenv("SLURM_PROCID")
    assert hosts.join(auto) == Hosts(4, 4)


@pytest.mark.parametrize(
    ("given", "run_dir", "expected"),
    [
        ({"count": 2}, "x", "hosts.coordinator: expected an address"),
        ({"coordinator": "here", "count": 2, "index": 0}, "x", "hosts.coordinator: expected address:port"),
        ({"coordinator": "here:1", "count": 2, "index": 2}, "x", "hosts.index: expected less than hosts.count = 2"),
        ({"coordinator": "here:1", "count": 2}, "x", "hosts.index: expected"),
        ({"coordinator": "auto"}, None, "run_dir: expected a folder that all processes see"),
        ({"patience": 0.0}, "x", "hosts.patience: expected"),
    ],
)
def test_bad_places_are_named(given, run_dir, expected):
    with pytest.raises(ValueError, match=expected):
        host_settings.check(HostSettings(**given), run_dir)
    host_settings.check(HostSettings(), None)


def silent(done, total):
    pass


def test_every_chunk_has_one_owner():
    for count in (1, 2, 5):
        owners = [[h.mine(chunk) for h in (Hosts(i, count) for i in range(count))] for chunk in range(12)]
        assert all(sum(owner) == 1 for owner in owners)
    assert ALONE.agreed("x", [0.1]) == [0.1]


@pytest.fixture
def store(tmp_path):
    store = ChunkStore(tmp_path)
    store.open({})
    return store


def waiting_for(store: ChunkStore, patience: float = 60.0) -> Report:
    """Process 0 of 2 has done chunk 0 and waits for 1 and 3, which belong to process 1."""
    report = Report(["a" * 64, "b" * 64, "c" * 64, "d" * 64], left=[1, 3])
    Hosts(0, 2, patience).wait_for_chunks(store, report, silent)
    return report


def test_what_others_wrote_is_found_and_their_failures_are_taken(store):
    """The file decides: a record that says done without its arrays is waited for."""
    store.save(Record("b" * 64, "kind", "what", "working", 1.0), {})
    store.fail(Record("d" * 64, "kind", "what", "working", 1.0), "too hot")
    report = waiting_for(store)
    assert (report.found, report.failed, report.left) == (1, {3: "too hot"}, [])
    store.forget_failures()
    assert store.record("d" * 64) is None
    assert store.record("b" * 64).status == DONE
    (store.folder / f"{'b' * 32}.npz").write_bytes(b"")
    with pytest.raises(Stopped, match="process 1 of 2 ended with 2 chunks left"):
        waiting_for(store)
    assert FAILED not in {record.status for record in store.records().values()}


def test_a_process_that_is_there_but_silent_is_given_up_on(store):
    with RunLock(store.folder, "lock.1").hold():
        start = time.monotonic()
        with pytest.raises(Stopped, match=r"process 1 of 2 wrote nothing for 0.2 s, 2 chunks left"):
            waiting_for(store, 0.2)
        assert time.monotonic() - start >= 0.2
