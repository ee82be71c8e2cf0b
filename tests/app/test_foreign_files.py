"""What is not this program's stays: folders of other people, files beside a run, links that lead out of it."""

import json
import shutil
from pathlib import Path

import pytest

from bandit_lab.app.chunks import ChunkStore
from bandit_lab.app.cli import main
from bandit_lab.app.folder import store, written
from bandit_lab.app.folder.store import RunFolder

COMMANDS = ["sweep", "predict", "fit", "diagnose", "advise", "reproduce", "check"]
SWEEP = {"command": "sweep", "settings": {"seed": 0}, "axes": {}, "width": {}}


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def config(folder: Path) -> None:
    (folder / "config.yaml").write_text("my: precious\n")


def chunks(folder: Path) -> None:
    (folder / "chunks").mkdir()
    (folder / "chunks" / "part-1.bin").write_text("precious")


def settings(folder: Path) -> None:
    (folder / "chunks").mkdir()
    (folder / "chunks" / "settings.json").write_text('{"theme": "dark"}')


def plan(folder: Path) -> None:
    (folder / "chunks").mkdir()
    (folder / "chunks" / "plan.json").write_text('{"monday": [["read", 1.0]]}')


def link(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    chunks(elsewhere if elsewhere.exists() else elsewhere.mkdir() or elsewhere)
    (folder / "chunks").symlink_to(elsewhere / "chunks")


def manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"name": "my app", "icons": []}')


def copied_config(folder: Path) -> None:
    """Our own settings, taken along to a project."""
    RunFolder(folder / "run").open("run_dir: null\noverwrite: false\n")
    shutil.copy(folder / "run" / "config.yaml", folder / "config.yaml")
    shutil.rmtree(folder / "run")


FOREIGN = [config, chunks, settings, plan, link, manifest, copied_config]
CASES = [(command, config, "false") for command in COMMANDS] + [("sweep", one, "false") for one in FOREIGN[1:]]


@pytest.mark.parametrize(("command", "foreign", "overwrite"), [*CASES, *(("predict", one, "true") for one in FOREIGN)])
def test_a_folder_that_is_no_run_is_refused_and_stays(command, foreign, overwrite, tmp_path, capsys):
    folder = tmp_path / "proj"
    folder.mkdir()
    foreign(folder)
    if foreign is not link:
        (folder / "holiday.png").write_bytes(b"\x89PNG sea")
        (folder / "summary.json").write_text('{"my": "thesis"}')
    before = files(tmp_path)
    assert main([command, f"run_dir={folder}", f"overwrite={overwrite}"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"bandit_lab {command}: run_dir: expected a ")
    assert files(tmp_path) == before


def run_with_pictures(path: Path, finished: bool = True) -> RunFolder:
    folder = RunFolder(path)
    folder.open("seed: 0\n")
    folder.write_files({"phase_diagram.png": b"drawn", "fits_2.png": b"drawn"})
    with folder.staged() as place:
        (place / "report").mkdir()
        (place / "report" / "a.html").write_text("a page")
    if finished:
        folder.write_manifest({"command": "fit", "config_hash": "x"})
    return folder


@pytest.mark.parametrize("finished", [True, False])
def test_overwriting_removes_what_was_written_and_nothing_else(tmp_path, finished):
    """Also the pictures of a run that was killed before its manifest."""
    path = tmp_path / "run"
    run_with_pictures(path, finished)
    theirs = {"holiday.png", "fits_3.png", "notes.csv", "report/mine.html", ".draft.7.partial", "chunks/b.txt"}
    (path / "chunks").mkdir()
    for name in theirs:
        (path / name).write_text("mine")
    store.check_folder(path, overwrite=True)
    RunFolder(path).open("seed: 1\n")
    assert files(path).keys() == theirs | {"config.yaml", "written.json"}
    assert json.loads((path / "written.json").read_text())["files"].keys() == {
        "config.yaml",
        *("summary.json",),
        "results.zarr",
    }


def test_nothing_is_removed_behind_a_link(tmp_path):
    path, outside = tmp_path / "run", tmp_path / "outside"
    run_with_pictures(path)
    shutil.move(path / "report", outside)
    (path / "report").symlink_to(outside)
    (path / "fits_2.png").unlink()
    (path / "fits_2.png").symlink_to(outside / "a.html")
    with pytest.raises(ValueError, match="run_dir: expected a folder in which report is a folder"):
        store.check_folder(path, overwrite=True)
    RunFolder(path).open("seed: 1\n")
    assert files(outside) == {"a.html": b"a page"}
    assert not (path / "fits_2.png").is_symlink()


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/x", "a/../../outside.txt", ""])
def test_a_list_that_names_something_outside_is_not_followed(tmp_path, name):
    (tmp_path / "outside.txt").write_text("mine")
    path = tmp_path / "run"
    run_with_pictures(path, finished=False)
    written.write_list(path, {name: None, "config.yaml": None})
    RunFolder(path).open("seed: 1\n")
    assert (tmp_path / "outside.txt").exists()


def test_a_foreign_store_is_not_replaced(tmp_path):
    path = tmp_path / "run"
    run_with_pictures(path)
    (path / "results.zarr").mkdir()
    with pytest.raises(
        ValueError, match=r"a run's names are free, or its own, got 'results.zarr in .*, of somebody else"
    ):
        store.check_folder(path, overwrite=True)


def test_a_chunk_store_removes_its_own_files_only(tmp_path):
    chunk_store = ChunkStore(tmp_path)
    chunk_store.open(SWEEP)
    (tmp_path / "chunks" / f"{'a' * 32}.npz").write_text("a chunk")
    (tmp_path / "chunks" / "mine.npz").write_text("mine")
    chunk_store.remove()
    assert files(tmp_path) == {"chunks/mine.npz": b"mine"}
    shutil.rmtree(tmp_path / "chunks")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / f"{'b' * 32}.npz").write_text("somebody's")
    (tmp_path / "chunks").symlink_to(tmp_path / "elsewhere")
    chunk_store.remove()
    assert (tmp_path / "elsewhere" / f"{'b' * 32}.npz").exists()
