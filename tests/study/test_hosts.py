"""Several processes on one run folder: the same bytes as one process, and nothing is lost where one is."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from settings import nightly_but

from bandit_lab.study import hosts
from bandit_lab.study.chunks import ChunkStore, Record, RunLock, run_chunks
from bandit_lab.study.chunks.run import key_of
from bandit_lab.study.hosts import ALONE, Hosts
from bandit_lab.study.settings.config import HostSettings
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


def computed(ended: list, folder: Path) -> list[int]:
    """Chunks that each process computed; the one that wrote the results says it in the manifest."""
    said = [re.search(r"process \d+ of \d+: (\d+) chunks computed here", out) for _, out, _ in ended]
    chunks = json.loads((folder / "manifest.json").read_bytes())["chunks"]
    by_others = [int(one[1]) for one in said if one]
    assert chunks["total"] == chunks["computed_here"] + chunks["found"]
    return [*by_others, chunks["computed_here"]]


@pytest.mark.slow
@pytest.mark.parametrize("count", nightly_but([2], [2, 4]))
def test_several_processes_write_the_bytes_of_one(tmp_path, alone, count):
    """Every chunk is computed once, by whoever is free. One process writes. Other seeds are other bytes."""
    ended = by_processes(count, tmp_path / "run")
    assert [code for code, _, _ in ended] == [0] * count, ended
    assert sum("chunks computed here" not in out for _, out, _ in ended) == 1
    total = json.loads((tmp_path / "run" / "manifest.json").read_bytes())["chunks"]["total"]
    assert sum(computed(ended, tmp_path / "run")) == total > 8
    assert files(tmp_path / "run") == alone
    assert not (tmp_path / "run" / "chunks").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("dying", [0, 1])
def test_the_chunks_of_a_lost_process_are_computed_by_the_other(tmp_path, alone, dying):
    """Whichever of them it is: the other one ends with the whole results."""
    folder = tmp_path / "run"
    ended = by_processes(2, folder, dying=dying, devices=2)
    assert [code for code, _, _ in ended] == [137 if index == dying else 0 for index in (0, 1)], ended
    assert files(folder) == alone
    assert not (folder / "chunks").exists()


@pytest.mark.nightly
def test_processes_with_different_settings_do_not_mix(tmp_path, alone):
    ended = by_processes(2, tmp_path / "run", more=("seed=1",))
    assert sorted(code for code, _, _ in ended) == [0, 2]
    refused = next(text for code, _, text in ended if code == 2)
    assert "hosts: expected the settings of the first process, got others" in refused
    assert (files(tmp_path / "run") == alone) == (ended[0][0] == 0)


LISTENING = """
import contextlib, os, re, sys
from pathlib import Path
from bandit_lab.study.hosts import join
from bandit_lab.study.settings.config import HostSettings

index = int(sys.argv[1])
hosts = join(HostSettings("127.0.0.1:1", 2, index), Path(sys.argv[2]))
with contextlib.ExitStack() as stack:
    first = hosts.enter(stack, lambda: None, {"settings": "same", "arithmetic": {}}, anew=True)
    if first:
        hosts.begin()
    print(hosts.agreed("rates", [0.1 + index, 2 / 3]))
    planted = __import__("socket").create_server(("127.0.0.1", 0)) if sys.argv[3:] else None
    paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in paths if os.path.islink(path)]
    mine = {match[1] for match in (re.fullmatch(r"socket:.(\\d+).", link) for link in links) if match}
    rows = [line.split() for table in ("tcp", "tcp6") for line in open(f"/proc/self/net/{table}").readlines()[1:]]
    print(*(row[1] for row in rows if row[3] == "0A" and row[9] in mine))
    if first:
        hosts.wait_for_others()
"""


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="the sockets are looked up in /proc")
@pytest.mark.parametrize("planted", [(), ("planted",)])
def test_processes_agree_by_the_folder_and_nobody_listens(tmp_path, planted):
    """Planted: a socket, which the table then shows. A meeting of an earlier process is not believed."""
    (tmp_path / "meeting.json").write_text('{"of": null, "words": {"settings": "old", "begun": true, "rates": [3.0]}}')
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
    assert first[0] in (str([0.1, 2 / 3]), str([1.1, 2 / 3]))
    assert second[0] == first[0]
    assert [len(one[1].split()) for one in (first, second)] == [len(planted)] * 2


def nothing() -> None:
    pass


WHAT: dict = {"settings": "same", "arithmetic": {}}


def test_who_finds_no_place_is_told(tmp_path, monkeypatch):
    """Where a run is overwritten all have to come; nobody joins a process that works alone, or other settings."""
    monkeypatch.setattr(hosts, "TOGETHER", 0.2)
    expected = r"hosts.coordinator: expected 3 processes that meet in run_dir, got 'no processes 1, 2'"
    with contextlib.ExitStack() as stack, pytest.raises(ValueError, match=expected):
        Hosts(0, 3, 60.0, tmp_path).enter(stack, nothing, WHAT, anew=True)
    with (
        RunLock(tmp_path).hold(),
        contextlib.ExitStack() as stack,
        pytest.raises(ValueError, match="one held by process"),
    ):
        Hosts(1, 3, 60.0, tmp_path).enter(stack, nothing, WHAT, anew=False)
    with contextlib.ExitStack() as stack:
        assert Hosts(0, 3, 60.0, tmp_path).enter(stack, nothing, WHAT, anew=False)
        with pytest.raises(ValueError, match="one held by process"):
            Hosts(1, 3, 60.0, tmp_path).enter(stack, nothing, WHAT, anew=False)
        with pytest.raises(ValueError, match="expected the settings of the first process"):
            Hosts(2, 3, 60.0, tmp_path).enter(stack, nothing, WHAT | {"settings": "others"}, anew=False)
        with pytest.raises(ValueError, match="got another device than the first process"):
            Hosts(2, 3, 60.0, tmp_path).enter(stack, nothing, WHAT | {"arithmetic": {"device": 1}}, anew=False)


def test_the_place_of_a_first_process_that_died_is_taken(tmp_path):
    """Before it began by one that waits; later by one that has no chunks left; who comes then joins what is left."""
    first, second, third = (Hosts(i, 3, 60.0, tmp_path) for i in range(3))
    with contextlib.ExitStack() as lost:
        assert first.enter(lost, nothing, WHAT, anew=False)
    with contextlib.ExitStack() as lost, contextlib.ExitStack() as stack:
        assert second.enter(lost, nothing, WHAT, anew=False)
        second.begin()
        assert second.agreed("rates", [0.1]) == [0.1]
        assert not first.enter(stack, nothing, WHAT, anew=False)
        assert not first.take_over(stack)
        lost.close()
        assert not third.enter(stack, nothing, WHAT, anew=True)
        assert third.agreed("rates", [0.2]) == [0.1]
        assert third.others_at_work() == [0]
        assert first.take_over(stack)
        assert not third.take_over(stack)
    with contextlib.ExitStack() as stack:
        assert third.enter(stack, nothing, WHAT, anew=False)
        assert third.agreed("rates", [0.2]) == [0.2]


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
        hosts.check(HostSettings(**given), run_dir)
    hosts.check(HostSettings(), None)


def silent(done, total):
    pass


def test_a_process_alone_locks_the_folder_of_its_chunks(tmp_path):
    with contextlib.ExitStack() as stack:
        assert hosts.join(HostSettings(), tmp_path).enter(stack, nothing, WHAT, anew=False)
        with pytest.raises(ValueError, match="one held by process"), RunLock(tmp_path).hold():
            pass


def test_alone_nothing_is_agreed_on():
    assert ALONE.agreed("x", [0.1]) == [0.1]


@pytest.fixture
def store(tmp_path):
    store = ChunkStore(tmp_path)
    store.open({})
    return store


@dataclass
class Piece:
    """A chunk that says what computed it."""

    number: int
    kind: str = "piece"
    what: str = "piece"
    size: float = 1.0

    def identity(self):
        return {"number": self.number}

    def compute(self):
        return {"by": np.array([os.getpid()])}

    def halves(self):
        return []

    def join(self, parts):
        raise NotImplementedError


PIECES = [Piece(number) for number in range(4)]


def test_a_chunk_that_another_process_has_is_waited_for_or_taken_when_that_one_is_gone(store):
    """Chunks 1, 2 and 3 are taken: one is then done, one failed, and the process that had the third one died."""
    keys, asked = [key_of(piece) for piece in PIECES], []
    record = Record("", "kind", "what", "working", 1.0)
    with contextlib.ExitStack() as others:
        for key in keys[1:]:
            assert others.enter_context(store.taken(key))

        def wait(left: int, silent: float) -> None:
            asked.append(left)
            store.save(replace(record, key=keys[1]), {})
            store.fail(replace(record, key=keys[2]), "too hot")
            others.close()

        report = run_chunks(store, PIECES, silently, wait)
    assert asked == [3]
    assert (report.found, report.computed, report.failed) == (1, 2, {2: "too hot"})
    assert [path.name for path in store.folder.glob("lock.*")] == []
    alone = run_chunks(store, PIECES, silently)
    assert (alone.found, alone.computed, alone.failed) == (3, 1, {})


def silently(done: int, total: int) -> None:
    pass


def test_a_process_that_is_there_but_silent_is_given_up_on(store):
    with store.taken(key_of(PIECES[1])) as mine:
        assert mine
        start = time.monotonic()
        with pytest.raises(Stopped, match=r"the other processes wrote nothing for 0.2 s, 1 chunks left"):
            run_chunks(store, PIECES, silently, Hosts(0, 2, 0.2).wait)
        assert time.monotonic() - start >= 0.2
    assert store.is_done(key_of(PIECES[3]))


def test_many_processes_compute_every_chunk_once(store):
    """Four threads of one process, whose locks exclude each other as those of processes do; 200 chunks."""
    pieces = [Piece(number) for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: run_chunks(store, pieces, silently, Hosts(0, 2).wait), range(4)))
    assert sum(report.computed for report in reports) == 200
    assert all(report.found + report.computed == 200 and not report.failed for report in reports)
    assert [path.name for path in store.folder.glob("lock.*")] == []
