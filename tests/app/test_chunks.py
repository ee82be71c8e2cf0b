"""The chunk store without a sweep: kills and write errors at every operation, failures, damage."""

import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_disk import FaultyDisk, PowerCut

from bandit_lab.app.chunks import ChunkStore, durable, run_chunks
from bandit_lab.app.chunks.run import key_of

SETTINGS = {"hash": "a" * 64}


@dataclass
class Squares:
    """Chunk of a toy run: the squares of a range of numbers, each computed alone."""

    start: int
    stop: int
    kind: str = "squares"
    error: Exception | None = None

    @property
    def what(self):
        return f"{self.start}..{self.stop - 1}"

    @property
    def size(self):
        return float(self.stop)

    def identity(self):
        return {"range": [self.start, self.stop]}

    def compute(self):
        if self.error:
            raise self.error
        return {"square": np.arange(self.start, self.stop) ** 2.0}


WORK = [Squares(i, i + 4) for i in range(0, 12, 4)]


def silent(done, total):
    pass


def opened(folder: Path) -> ChunkStore:
    store = ChunkStore(folder)
    store.open(SETTINGS)
    return store


def squares(store: ChunkStore) -> np.ndarray:
    return np.concatenate([store.load(key_of(work))["square"] for work in WORK])


def finished(folder: Path) -> dict[str, bytes]:
    """Name and bytes of every record that a reader would believe."""
    store = ChunkStore(folder)
    paths = store.folder.glob("*.npz") if store.folder.exists() else []
    return {p.stem: p.read_bytes() for p in paths if store.is_done(p.stem)}


def operations_of_a_run(folder: Path, monkeypatch) -> int:
    with monkeypatch.context() as patch:
        disk = FaultyDisk().install(patch)
        run_chunks(opened(folder), WORK, silent)
    assert {"open", "write", "fsync", "replace"} == set(disk.seen)
    return len(disk.seen)


@pytest.mark.parametrize(("code", "half_written"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_write_error_at_any_operation_loses_one_chunk_at_most(tmp_path, monkeypatch, code, half_written):
    total = operations_of_a_run(tmp_path / "whole", monkeypatch)
    for n in range(total):
        folder = tmp_path / str(n)
        with monkeypatch.context() as patch:
            FaultyDisk(n, code, half_written).install(patch)
            with pytest.raises(OSError, match=os.strerror(code)):
                run_chunks(opened(folder), WORK, silent)
        kept = finished(folder)
        for key in kept:
            assert ChunkStore(folder).load(key)["square"].shape == (4,)
        (mine := ChunkStore(folder).folder / "notes.partial").parent.mkdir(exist_ok=True, parents=True)
        mine.write_text("a file of the user")
        left = sum(one.size for one in WORK if not ChunkStore(folder).is_done(key_of(one)))
        report = run_chunks(opened(folder), WORK, silent)
        assert (report.found, report.computed, report.size) == (len(kept), 3 - len(kept), left)
        assert {key: finished(folder)[key] for key in kept} == kept
        np.testing.assert_array_equal(squares(ChunkStore(folder)), np.arange(12) ** 2.0)
        assert list(folder.rglob("*.partial")) == [mine]


def test_a_power_cut_at_any_operation_loses_one_chunk_at_most(tmp_path, monkeypatch):
    """The process vanishes before its n-th operation on the disk, for every n."""
    total = operations_of_a_run(tmp_path / "whole", monkeypatch)
    command = [sys.executable, __file__, str(tmp_path), str(total)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9"] * total
    losses = []
    for n in range(total):
        folder = tmp_path / str(n)
        kept = finished(folder)
        report = run_chunks(opened(folder), WORK, silent)
        losses.append(report.computed)
        assert (report.found, report.computed) == (len(kept), 3 - len(kept))
        assert {key: finished(folder)[key] for key in kept} == kept
        np.testing.assert_array_equal(squares(ChunkStore(folder)), np.arange(12) ** 2.0)
        assert not list(folder.rglob("*.partial"))
    assert losses == sorted(losses, reverse=True)
    assert set(losses) >= {1, 2, 3}


def test_nothing_is_said_to_be_finished_before_it_is_on_the_disk(tmp_path, monkeypatch):
    """The order that a power cut asks for: content, name, folder entry."""
    store, disk = opened(tmp_path), FaultyDisk()
    order: list[str] = []
    monkeypatch.setattr(disk, "note", lambda name, args: order.append(f"{name} {Path(str(args[-1])).suffix}"))
    disk.install(monkeypatch)
    run_chunks(store, WORK[:1], silent)
    names = [entry.split()[0] for entry in order]
    assert names == ["open", "write", "fsync", "replace", "open", "fsync"]
    assert [entry for entry in order if entry.startswith("replace")] == ["replace .npz"]


def damage_tail(data: bytes) -> bytes:
    return data[:-7]


def damage_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [damage_tail, damage_bit])
def test_a_damaged_chunk_is_noticed_and_computed_again(tmp_path, damage):
    store = opened(tmp_path)
    run_chunks(store, WORK, silent)
    path = store.folder / f"{key_of(WORK[1])[:32]}.npz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RuntimeError, match="expected the arrays of a finished chunk"):
        store.load(key_of(WORK[1]))
    report = run_chunks(opened(tmp_path), WORK, silent)
    assert (report.found, report.computed) == (2, 1)
    np.testing.assert_array_equal(squares(store), np.arange(12) ** 2.0)


def test_without_the_sum_a_flipped_bit_would_pass(tmp_path, monkeypatch):
    """The planted defect that the test above catches: a store that believes every file under the right name."""
    store = opened(tmp_path)
    run_chunks(store, WORK, silent)
    path = store.folder / f"{key_of(WORK[1])[:32]}.npz"
    good = path.read_bytes()
    place = good.index(np.float64(25.0).tobytes())
    path.write_bytes(good[: place + 6] + bytes([good[place + 6] ^ 4]) + good[place + 7 :])
    assert not store.is_done(key_of(WORK[1]))
    monkeypatch.setattr(ChunkStore, "_bytes", lambda self, key: self._file(key).read_bytes())
    assert run_chunks(store, WORK, silent).computed == 0


def test_a_failed_chunk_is_told_the_rest_goes_on_and_it_is_tried_again(tmp_path):
    store = opened(tmp_path)
    broken = [WORK[0], Squares(4, 8, error=FloatingPointError("a mean is not finite\nmore")), WORK[2]]
    report = run_chunks(store, broken, silent)
    assert (report.computed, report.failed) == (2, {1: "FloatingPointError: a mean is not finite"})
    with pytest.raises(RuntimeError, match="expected the arrays of a finished chunk"):
        store.load(report.keys[1])
    report = run_chunks(opened(tmp_path), WORK, silent)
    assert (report.found, report.computed, report.failed) == (2, 1, {})
    assert store.is_done(report.keys[1])


def test_interruption_is_not_a_failed_chunk(tmp_path):
    broken = Squares(0, 4)
    broken.compute = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        run_chunks(opened(tmp_path), [broken, *WORK[1:]], silent)
    assert ChunkStore(tmp_path).records() == []


def cut_power_everywhere(folder: Path, total: int) -> None:
    """One process for every operation, forked from this one, which has no threads."""
    for n in range(total):
        child = os.fork()
        if child == 0:
            disk: Any = PowerCut(n, half_written=True)
            durable.os = disk
            run_chunks(opened(folder / str(n)), WORK, silent)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    cut_power_everywhere(Path(sys.argv[1]), int(sys.argv[2]))
