"""`status` and `export` on run folders, good and bad."""

import csv
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray
from bandit_lab.runs.watch.settings import WatchSettings

import bandit_lab as bl
from bandit_lab.app.chunks import ChunkStore, Planned, Record, RunLock, hash_of
from bandit_lab.app.cli import main
from bandit_lab.app.folder import export, status, written
from bandit_lab.app.folder.results import chunk_shape
from bandit_lab.app.terminal import multirun
from bandit_lab.runs.watch import command as watch

SMALL = ["sweep.refresh_interval=[1,4]", "sweep.learning_rate.num=8", "momentum=0.5", "quiet=true", "pictures=false"]
SAMPLED = ["group_size=8", "seeds=8", "steps=20", "sampled.multiple=[0.3,1.5]"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "run"
    assert main(["sweep", f"run_dir={folder}", *SMALL, *SAMPLED]) == 0
    return folder


@pytest.fixture
def begun(tmp_path):
    """A run folder with 2 chunks of size 3 done in 4 s each, one failed, 2 of size 5 left; and a stage not begun."""
    store = ChunkStore(tmp_path / "run")
    store.open({"seed": 1})
    keys = [hash_of(i) for i in range(7)]
    sizes = [3.0, 3.0, 2.0, 5.0, 5.0]
    first, second = [Planned(k, s) for k, s in zip(keys, sizes, strict=False)], [Planned(k, 1.0) for k in keys[5:]]
    store.write_plan({"boundary": first, "sampled runs": second})
    for key in keys[:2]:
        store.save(Record(key, "boundary", "N 1", "working", 4.0, work=3.0), {"x": np.ones(2)})
    store.fail(Record(keys[2], "boundary", "N 2..4", "working", 1.0, work=2.0), "MemoryError: too large")
    return tmp_path / "run"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def test_status_counts_and_estimates(begun):
    result = status.document_of(status.read(begun)).to_dict()
    assert result["state"] == "unfinished"
    boundary, sampled = result["stages"]
    assert (boundary["done"], boundary["failed"], boundary["left"]) == (2, 1, 2)
    assert boundary["seconds"] == 8.0
    assert boundary["seconds_left"] == pytest.approx(8.0 / 6.0 * 12.0)
    assert (sampled["left"], sampled["seconds_left"]) == (2, None)
    assert sampled["seconds_left_reason"] == "no chunk of this stage is done yet"
    assert result["failed"] == [{"stage": "boundary", "chunk": "N 2..4", "reason": "MemoryError: too large"}]
    assert result["seconds_left"] is None


def test_status_prints_all_that_and_only_reads(begun, tmp_path, capsys):
    before = snapshot(begun)
    with RunLock(begun / "chunks").hold():
        assert main(["status", str(begun), f"output={tmp_path / 'status.json'}"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("running, by process ")
    assert "failed: boundary: N 2..4: MemoryError: too large" in out
    assert out.splitlines()[-1] == str(begun)
    assert main(["status", str(begun)]) == 0
    assert capsys.readouterr().out.startswith("unfinished; the same command with the same run_dir goes on")
    after = snapshot(begun)
    assert {k: v for k, v in after.items() if not k.endswith("lock")} == before
    assert json.loads((tmp_path / "status.json").read_text(), parse_constant=pytest.fail)["state"] == "running"


def test_status_of_a_finished_run(finished, capsys):
    assert main(["status", str(finished)]) == 0
    assert capsys.readouterr().out.startswith("finished\nsweep, ")


def test_status_while_the_run_finishes(begun, monkeypatch):
    """Between the look at the manifest and the look at the lock the run ends: it is not called unfinished."""
    real = status.holder

    def ends(folder):
        if folder.exists():
            (begun / "manifest.json").write_text('{"files": {"config.yaml": null}, "chunks": {}}')
            ChunkStore(begun).remove()
        return real(folder)

    monkeypatch.setattr(status, "holder", ends)
    found = status.read(begun)
    assert (found.state, found.stages, found.failed) == ("finished", [], [])


def test_records_of_a_folder_that_goes_away(begun, monkeypatch):
    store = ChunkStore(begun)
    monkeypatch.setattr("bandit_lab.app.chunks.store.os.listdir", lambda path: (_ for _ in ()).throw(FileNotFoundError))
    assert store.records() == {}


@pytest.mark.parametrize("command", ["status", "export", "predict", "sweep", "reproduce"])
def test_paths_that_cannot_be(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("pool")
    Path("pool").symlink_to("loop")
    for path in ("x" * 256, "loop", "loop/run"):
        reads = command in ("status", "export")
        assert main([command, path if reads else f"run_dir={path}"]) == 2, path
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"bandit_lab {command}: {'folder' if reads else 'run_dir'}: expected ")
        assert path in err
    assert {p.name for p in tmp_path.iterdir()} == {"loop", "pool"}


@pytest.mark.parametrize("command", ["status", "export"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("folder: expected the folder of a run, which is the last line that a command prints", "got nothing")),
        (["nothing"], ("folder: expected the folder of a run", "got 'nothing' (nothing there)")),
        (["."], ("folder: expected the folder of a run", "got '.' (in which no run was written)")),
        (["run_dir=."], ("run_dir: expected a setting of", "did you mean folder?")),
        ([".", "a"], ("folder: expected one plain argument, got 2 (., a)",)),
        ([".", "seeds=3"], ("seeds: expected a setting of",)),
        (["-m", "folder=a,b"], ("expected one run folder", "got -m")),
    ],
)
def test_bad_input_of_both(command, arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([command, *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert all(word in err for word in words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("format=xml", "format: expected one of csv, parquet, got 'xml'"),
        ("table=rows", "table: expected one of grid, sampled, got 'rows'"),
        ("output=/nowhere/at/all.csv", "output: expected a file in a folder that can be written"),
    ],
)
def test_bad_input_of_export(finished, argument, words, capsys):
    assert main(["export", str(finished), argument]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="pipes with a name")
def test_no_file_takes_the_place_of_a_device_or_pipe(finished, tmp_path, capsys):
    """`output=/dev/full` as root had made a file of the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in ("export", "status"):
        assert main([command, str(finished), f"output={pipe}"]) == 2
        assert "output: expected a file in a folder that can be written" in capsys.readouterr().err
        assert pipe.is_fifo()
        assert main([command, str(finished), f"output={tmp_path / 'none' / 'a.json'}"]) == 2
        capsys.readouterr()

    def watched(run_dir):
        watch.prepare(WatchSettings(paths=["log.csv"], run_dir=run_dir), frozenset())

    def explored(run_dir):
        bl.explore(run_dir=run_dir)

    for number, (make, name) in enumerate(((watched, "page.html"), (explored, "map.html"))):
        taken = tmp_path / f"taken_{number}"
        taken.mkdir()
        os.mkfifo(taken / name)
        for run_dir, what in ((taken, "file in a folder"), (pipe, "folder")):
            with pytest.raises(ValueError, match=f"run_dir: expected a {what}"):
                make(str(run_dir))
        make(str(tmp_path / "none"))


def test_export_of_an_unfinished_run_says_so(begun, capsys):
    assert main(["export", str(begun)]) == 2
    assert "folder: expected a run with results.zarr (`status` tells what is left)" in capsys.readouterr().err


def test_parquet_without_pyarrow_says_what_to_install(finished, monkeypatch, capsys):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    assert main(["export", str(finished), "format=parquet"]) == 2
    assert "csv, or parquet after pip install pyarrow, got 'parquet'" in capsys.readouterr().err


def table(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    lines = path.read_text().splitlines(keepends=True)
    units = dict(line[2:].strip().split(": ", 1) for line in lines if line.startswith("#"))
    return units, list(csv.DictReader(io.StringIO("".join(line for line in lines if not line.startswith("#")))))


@pytest.mark.parametrize("chunk", [None, 3])
def test_csv_has_a_row_per_cell_with_its_numbers_to_the_last_bit(finished, tmp_path, capsys, monkeypatch, chunk):
    """Also when the table is written three cells at a time."""
    if chunk:
        monkeypatch.setattr(export, "chunk_shape", lambda sizes: chunk_shape(sizes, chunk))
    output = tmp_path / "cells.csv"
    assert main(["export", str(finished), f"output={output}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(finished)
    units, rows = table(output)
    data = xarray.open_zarr(finished / "results.zarr").load()
    assert len(rows) == data["outcome"].size
    assert list(units) == list(rows[0])
    assert units["growth_rate"] == "1/step"
    labels = dict(
        zip(data["outcome"].attrs["flag_values"], data["outcome"].attrs["flag_meanings"].split(), strict=True)
    )
    stacked = data[["outcome", "growth_rate", "threshold_measured"]].stack(cell=data["outcome"].dims)
    for i, row in enumerate(rows):
        cell = stacked.isel(cell=i)
        assert row["outcome"] == labels[int(cell["outcome"])]
        for name in ("growth_rate", "threshold_measured", "refresh_interval", "learning_rate"):
            assert float(row[name]) == float(cell[name])
    assert [p.name for p in tmp_path.iterdir()] == ["cells.csv"]


def test_missing_values_are_empty(tmp_path):
    data = xarray.Dataset({"outcome": ("learning_rate", [1.0, np.nan])}, {"learning_rate": [0.1, 0.2]})
    data.to_zarr(tmp_path / "results.zarr", zarr_format=2, consolidated=True)
    (tmp_path / "manifest.json").write_text('{"files": {"config.yaml": null}}')
    assert main(["export", str(tmp_path)]) == 0
    assert [row["outcome"] for row in table(tmp_path / "grid.csv")[1]] == ["1.0", ""]


@pytest.fixture
def several(finished, tmp_path):
    """What `-m group_size=8,16` leaves."""
    jobs = [multirun.MultirunJob(f"group_size_{size}", {"group_size": size}) for size in ("8", "16")]
    for job in jobs:
        shutil.copytree(finished, tmp_path / "many" / job.name)
    multirun.finish("sweep", tmp_path / "many", jobs)
    return tmp_path / "many"


def test_export_of_several_runs_is_one_table_with_what_tells_them_apart(finished, several, tmp_path):
    assert main(["export", str(finished), f"output={tmp_path / 'one.csv'}"]) == 0
    (one_units, one), _ = table(tmp_path / "one.csv"), main(["export", str(several)])
    units, rows = table(several / "grid.csv")
    assert list(units) == ["folder", "group_size", *one_units]
    apart = [(row.pop("folder"), row.pop("group_size")) for row in rows]
    assert apart == [("group_size_8", "8")] * len(one) + [("group_size_16", "16")] * len(one)
    assert rows == one * 2


def test_status_of_several_runs_has_a_row_of_each(several, tmp_path, capsys):
    written.write_list(several / "group_size_16", {"config.yaml": None})
    (several / "group_size_16" / "manifest.json").unlink()
    capsys.readouterr()
    assert main(["status", str(several), f"output={tmp_path / 'status.json'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if "group_size_" in line] == [
        ["group_size_8", "finished"],
        ["group_size_16", "unfinished"],
    ]
    assert lines[-1] == str(several)
    assert json.loads((tmp_path / "status.json").read_text())["runs"]["group_size_16"]["state"] == "unfinished"
    (several / "multirun.csv").unlink()  # killed before its end
    assert main(["status", str(several)]) == 0
    assert "group_size_16" in capsys.readouterr().out


def test_runs_that_do_not_fit_into_one_table_are_named(several, capsys):
    data = xarray.open_zarr(several / "group_size_8" / "results.zarr").load()
    shutil.rmtree(several / "group_size_16" / "results.zarr")
    assert main(["export", str(several)]) == 2
    assert f"got '{several / 'group_size_16'}'" in capsys.readouterr().err
    data.drop_vars("growth_rate").to_zarr(several / "group_size_16" / "results.zarr", zarr_format=2)
    manifest = json.loads((several / "group_size_16" / "manifest.json").read_text())
    del manifest["files"]["results.zarr"]
    (several / "group_size_16" / "manifest.json").write_text(json.dumps(manifest))
    assert main(["export", str(several)]) == 2
    assert "folder: expected runs with the columns of" in capsys.readouterr().err


def test_sampled_table_has_counts_of_outcomes(finished):
    assert main(["export", str(finished), "table=sampled"]) == 0
    _, rows = table(finished / "sampled.csv")
    assert len(rows) == 4
    for row in rows:
        assert sum(int(row[name]) for name in row if name.startswith("runs_")) == 8


def test_parquet_holds_the_same_table_with_units(finished, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for kind in ("csv", "parquet"):
        assert main(["export", str(finished), f"format={kind}", f"output={tmp_path / kind}"]) == 0
    units, rows = table(tmp_path / "csv")
    read = parquet.read_table(tmp_path / "parquet")
    assert {f.name: f.metadata[b"units"].decode() for f in read.schema} == units
    for name in units:
        assert [str(value) for value in read[name].to_pylist()] == [row[name] for row in rows], name


def test_a_full_disk_is_said_and_leaves_nothing(finished, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export.durable, "move_files", full)
    assert main(["export", str(finished), f"output={tmp_path / 'cells.csv'}"]) == 3
    err = capsys.readouterr().err
    assert "cells.csv: cannot be written (No space left on device)" in err
    assert "run it again with: python -m bandit_lab export" in err
    assert list(tmp_path.iterdir()) == []
