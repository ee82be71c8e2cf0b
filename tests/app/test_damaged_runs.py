"""Finished runs of which something is missing or damaged, files that say what a run is and cannot be read, and resuming
where bits would come out differently."""

import json
import os
import shutil
from pathlib import Path

import pytest

from bandit_lab.app import arithmetic
from bandit_lab.app.chunks import ChunkStore, durable, run
from bandit_lab.app.cli import main
from bandit_lab.app.folder import written
from bandit_lab.simulation.one_kernel import one_kernel_enabled

SWEEP = [
    *("sweep", "quiet=true", "dynamics=mean_field", "sweep.refresh_interval=[1,4]", "sweep.learning_rate.num=8"),
    *("momentum=0.5", "chunk.rows=1"),
]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def sweep(folder: Path, *more: str) -> int:
    return main([*SWEEP, f"run_dir={folder}", *more])


class Noting:
    """Stands for `os` in `durable`: which files were on the disk before which name appeared."""

    def __init__(self) -> None:
        self.synced: set[int] = set()
        self.order: list[str] = []
        self.early: list[str] = []

    def __getattr__(self, name):
        return getattr(os, name)

    def fsync(self, file):
        self.synced.add(os.fstat(file).st_ino)

    def replace(self, partial, path):
        inside = [p for p in [partial, *partial.rglob("*")] if partial.is_file() or p.is_file()]
        self.early += [str(p) for p in inside if p.is_file() and p.stat().st_ino not in self.synced]
        self.order.append(path.name)
        os.replace(partial, path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished sweep, and what was on the disk when."""
    folder, disk = tmp_path_factory.mktemp("sweep") / "run", Noting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "os", disk)
        assert sweep(folder) == 0
    return folder, disk


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "run")


def test_every_file_is_on_the_disk_before_its_name_and_the_manifest_is_last(finished):
    folder, disk = finished
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.yaml", "summary.json", "manifest.json", "results.zarr"} | {
        "phase_diagram.png",
        "trajectories.png",
    }
    assert names <= set(disk.order)
    assert disk.early == []
    assert disk.order[-1] == "manifest.json"
    listed = json.loads((folder / "manifest.json").read_text())["files"]
    assert set(listed) == names - {"manifest.json"}
    assert written.changed_files(folder, listed) == {}


@pytest.mark.parametrize("damage", [b"", b'{"command": "swe'])
def test_a_manifest_that_cannot_be_read_is_one_line(copied, damage, capsys):
    (copied / "manifest.json").write_bytes(damage)
    before = files(copied)
    assert sweep(copied) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "run_dir: expected a manifest.json that can be read, or overwrite=true" in err
    assert main(["predict", f"run_dir={copied}"]) == 2
    assert files(copied) == before


def interrupted(folder: Path) -> Path:
    """A sweep that was interrupted after two chunks."""
    real, count = run.attempt, []

    def two(*arguments):
        if len(count) == 2:
            raise KeyboardInterrupt
        count.append(1)
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "attempt", two)
        assert sweep(folder, "pictures=false") == 3
    return folder


@pytest.fixture
def begun(tmp_path):
    return interrupted(tmp_path / "begun")


def found(folder: Path) -> int:
    return json.loads((folder / "manifest.json").read_text())["chunks"]["found"]


def test_files_that_say_what_a_run_is_and_cannot_be_read(begun, finished, capsys):
    place = begun / "chunks" / "settings.json"
    good = place.read_bytes()
    place.write_bytes(good[:40])
    before = files(begun)
    capsys.readouterr()
    assert sweep(begun, "pictures=false") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "run_dir: expected one that can be read; remove it to go on with the finished chunks that fit" in err
    assert files(begun) == before
    place.unlink()
    (begun / "chunks" / "plan.json").write_text('{"boundary": 3}')
    assert sweep(begun, "pictures=false") == 0
    assert "plan.json cannot be read: it is written anew" in capsys.readouterr().err
    assert found(begun) == 2
    results = {n: b for n, b in files(begun).items() if "zarr" in n}
    assert results == {n: b for n, b in files(finished[0]).items() if "zarr" in n}


def other_processor() -> dict[str, str]:
    return {"machine": "x86_64", "model": "6", "instructions": "avx sse sse2"}


def test_chunks_of_another_processor_are_computed_again(begun, capsys, monkeypatch):
    kept = {n for n in files(begun) if n.endswith(".npz")}
    monkeypatch.setattr(arithmetic, "processor", other_processor)
    capsys.readouterr()
    assert sweep(begun, "pictures=false") == 0
    err = capsys.readouterr().err
    assert err == "bandit_lab sweep: finished chunks were computed with another processor: they are computed again\n"
    assert (len(kept), found(begun)) == (2, 0)


def test_chunks_of_other_kernels_are_computed_again(begun, capsys):
    capsys.readouterr()
    with one_kernel_enabled(False):  # what BANDIT_LAB_ONE_KERNEL=0 does
        assert sweep(begun, "pictures=false") == 0
    assert "finished chunks were computed with another one kernel: they are computed again" in capsys.readouterr().err
    assert found(begun) == 0


def test_arithmetic_is_that_of_this_process(monkeypatch, tmp_path):
    here = arithmetic.arithmetic()
    assert here == arithmetic.arithmetic()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=SSE4_2 --xla_force_host_platform_device_count=2")
    assert arithmetic.changes(here, arithmetic.arithmetic()) == ["xla flags"]
    with one_kernel_enabled(False):
        assert "one kernel" in arithmetic.changes(here, arithmetic.arithmetic())
    about = tmp_path / "cpuinfo"
    for kernel in ("arat md_clear", "arat"):  # what an update of the system changes does not count
        about.write_text(f"vendor_id : A\nmodel : 17\nflags : fpu sse2 avx2 smep {kernel}\n\nvendor_id : B\n")
        assert arithmetic.processor(about) | {"machine": ""} == {
            "machine": "",
            "vendor_id": "A",
            "model": "17",
            "instructions": "avx2 sse2",
        }


def test_what_was_noted_is_noted_again(tmp_path):
    store = ChunkStore(tmp_path)
    store.open({})
    assert store.note_arithmetic({"one_kernel": True}) is None
    assert store.note_arithmetic({"one_kernel": False}) == {"one_kernel": True}
    store.remove()
    assert not store.folder.exists()
