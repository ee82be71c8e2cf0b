"""What is on the disk when, files that say what a run is and cannot be read, folders that are no run."""

import os
import shutil
from pathlib import Path

import pytest

from bandit_lab.app.chunks import ChunkStore, durable, run
from bandit_lab.app.cli import main
from bandit_lab.app.folder.store import RunFolder

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
        with pytest.raises(KeyboardInterrupt):
            sweep(folder, "pictures=false")
    return folder


@pytest.fixture
def begun(tmp_path):
    return interrupted(tmp_path / "begun")


def test_a_file_that_says_what_a_run_is_and_cannot_be_read(begun, capsys):
    place = begun / "chunks" / "plan.json"
    place.write_bytes(place.read_bytes()[:40])
    before = files(begun)
    capsys.readouterr()
    assert sweep(begun, "pictures=false") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "run_dir: expected the configuration that it was begun with, or overwrite=true" in err
    assert files(begun) == before


@pytest.mark.parametrize("overwrite", ["false", "true"])
@pytest.mark.parametrize("foreign", ["config.yaml", "manifest.json", "chunks/plan.json", "notes.txt"])
def test_a_folder_that_is_no_run_is_refused_and_stays(foreign, overwrite, tmp_path, capsys):
    folder = tmp_path / "proj"
    (folder / foreign).parent.mkdir(parents=True)
    (folder / foreign).write_text('{"theme": "dark"}')
    (folder / "holiday.png").write_bytes(b"sea")
    before = files(folder)
    assert main(["predict", f"run_dir={folder}", f"overwrite={overwrite}"]) == 2
    assert "run_dir: expected a new folder" in capsys.readouterr().err
    assert files(folder) == before


def test_a_folder_that_is_begun_anew_looks_like_no_run_before(tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    RunFolder(tmp_path).open({"run_dir": "a"})
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
    store = ChunkStore(tmp_path)
    store.open({"a": 1})
    store.clear()
    assert store.settings() is None


def test_overwriting_leaves_what_a_run_did_not_write(copied):
    (copied / "holiday.png").write_bytes(b"sea")
    assert sweep(copied, "overwrite=true", "pictures=false") == 0
    names = {path.name for path in copied.iterdir()}
    assert names == {"config.yaml", "summary.json", "manifest.json", "results.zarr", "holiday.png"}
