"""Sweeps that are killed, interrupted, refused, short of memory or of disk: what they leave, and what continues."""

import errno
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import xarray
from faulty_disk import FaultyDisk
from settings import nightly_but
from zygote import Zygote

from bandit_lab.app.chunks import ChunkStore, RunLock, holder, run
from bandit_lab.app.cli import main
from bandit_lab.app.folder import results
from bandit_lab.lab.sweep.jobs import RowsWork, RunsWork

SWEEP = [
    *("sweep", "quiet=true", "pictures=false", "sweep.refresh_interval=[1,4]", "sweep.learning_rate.num=8"),
    *("momentum=0.5", "group_size=8", "seeds=4196", "steps=50", "sampled.multiple=[0.003,0.3,0.5,0.7,1.5]"),
]
CHUNKS = ["chunk.cells=4", "chunk.seeds=4096", "chunk.rows=1"]
KILLS, KILLS_OF_ONE = 50, 6


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def read(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text(), parse_constant=pytest.fail)


def finished(folder: Path) -> dict[str, bytes]:
    """The records of all chunks that count as finished."""
    store = ChunkStore(folder)
    paths = [p for p in store.folder.glob("*.npz") if store.is_done(p.stem)] if store.folder.exists() else []
    return {path.stem: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("cache"))  # of compiled programs, for this module alone
    process = Zygote(
        JAX_COMPILATION_CACHE_DIR=cache,
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_ENABLE_COMPILATION_CACHE="true",
    )
    yield process
    process.close()


class Whole(NamedTuple):
    """An undisturbed sweep: seconds until its chunks begin, until they are all finished, in all; how many they are."""

    folder: Path
    first: float
    last: float
    total: float
    chunks: int


def undisturbed(zygote, base: Path, *arguments: str, warm: bool = False) -> Whole:
    """warm: run twice, so that seconds are those with a warm cache of compiled programs."""
    command = [*SWEEP, *CHUNKS, *arguments]
    if warm:
        assert zygote.run([*command, f"run_dir={base / 'cold'}"], base / "log") == 0
    begin, seen = time.monotonic(), {}

    def note() -> bool:
        now = time.monotonic() - begin
        try:
            count = len(list((base / "run" / "chunks").glob("*.npz")))
        except FileNotFoundError:  # the run ends and takes the folder away while it is listed
            count = 0
        if count and "first" not in seen:
            seen["first"] = now
        if count > seen.get("count", 0):
            seen["count"], seen["last"] = count, now
        return False

    assert zygote.run([*command, f"run_dir={base / 'run'}"], base / "log", signal_after=note) == 0
    chunks = read(base / "run", "manifest.json")["chunks"]["total"]
    return Whole(base / "run", seen["first"], seen["last"], time.monotonic() - begin, chunks)


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    return undisturbed(zygote, tmp_path_factory.mktemp("whole"))


def assert_same(folder: Path, whole: Path) -> None:
    """Same arrays, byte for byte; nothing left over."""
    assert files(folder / "results.zarr") == files(whole / "results.zarr")
    assert {p.name for p in folder.iterdir()} == {p.name for p in whole.iterdir()}
    assert not list(folder.rglob("*.partial"))


@pytest.mark.nightly
def test_fifty_random_kills(zygote, tmp_path):
    """SIGKILL at random moments, half of them counted from the first chunk on, until 50 have hit a running sweep.

    A moment is drawn within 1.4 times what is left of the sweep, so that some commands come to their end; no sweep is
    killed more than six times. At least 9 sweeps are finished and compared with an undisturbed one. The mean field
    alone, whose chunks are of all three kinds: half of a start is else spent on the fixed point of the finite group.
    """
    only = "dynamics=mean_field"
    (tmp_path / "whole").mkdir()
    reference = undisturbed(zygote, tmp_path / "whole", only, warm=True)
    first = reference.first
    moments, kills, folders, last = random.Random(7), 0, 0, 0
    while kills < KILLS:
        folder, folders = tmp_path / str(folders), folders + 1
        before: dict[str, bytes] = {}
        code, here = -signal.SIGKILL, 0
        while code == -signal.SIGKILL:
            early = kills % 2 == 0
            left = reference.total - (reference.last - first) * min(len(before) / reference.chunks, 1)
            wait = moments.uniform(0, 1.4 * (left if early else left - first))
            began, seen = time.monotonic(), []

            def due(early=early, wait=wait, began=began, seen=seen, folder=folder) -> bool:
                if not (early or seen) and holder(folder / "chunks") and (folder / "chunks" / "plan.json").exists():
                    seen.append(time.monotonic() - began)
                start = began if early else began + max(seen[0], first) if seen else None
                return start is not None and time.monotonic() - start >= wait

            last = len(before)
            until = due if kills < KILLS and here < KILLS_OF_ONE else None
            code = zygote.run([*SWEEP, *CHUNKS, only, f"run_dir={folder}"], tmp_path / "log", signal_after=until)
            kills, here = kills + (code == -signal.SIGKILL), here + 1
            after = finished(folder)
            if not (folder / "manifest.json").exists():
                assert before.items() <= after.items()  # kept, and not written again
                before = after
        assert code == 0, (tmp_path / "log").read_text()
        assert_same(folder, reference.folder)
        counts = read(folder, "manifest.json")["chunks"]
        assert counts["total"] == counts["found"] + counts["computed_here"]
        assert counts["found"] == last
    print(f"{kills} kills, {folders} sweeps finished")


ENDS = [
    {"replace": "config.yaml"},
    {"replace": "plan.json"},
    {"replace": "results.zarr"},
    {"replace": "results.zarr", "after": True},
    {"replace": "summary.json"},
    {"replace": "manifest.json"},
    {"replace": "manifest.json", "after": True},
    {"removal": True},
]


@pytest.mark.slow
def test_kills_at_the_moments_of_writing(zygote, tmp_path):
    """Just before and just after every file of the run folder is put in its place, and half-way through tidying up.

    The mean field alone: its chunks are of all three kinds, and a start takes half as long.
    """
    command = [*SWEEP, *CHUNKS, "dynamics=mean_field"]
    (tmp_path / "whole").mkdir()
    whole = undisturbed(zygote, tmp_path / "whole", "dynamics=mean_field")
    for i, end in enumerate(ENDS):
        folder = tmp_path / ("run" if i < 6 else str(i))
        if i >= 6:
            shutil.copytree(tmp_path / "run", folder)
        assert zygote.run([*command, f"run_dir={folder}"], tmp_path / "log", die=end) == -signal.SIGKILL, end
        if end == {"replace": "results.zarr"}:
            computed = finished(folder)
            assert len(computed) == whole.chunks
        if i > 2 and not (folder / "manifest.json").exists():
            assert finished(folder) == computed
    for name in ("run", "6", "7"):
        assert zygote.run([*command, f"run_dir={tmp_path / name}"], tmp_path / "log") == 0
        assert_same(tmp_path / name, whole.folder)


def test_interruption_says_how_to_continue_and_keeps_what_is_finished(zygote, whole, tmp_path):
    folder, log = tmp_path / "run", tmp_path / "log"

    def some_done() -> bool:
        return len(ChunkStore(folder).records()) >= 3

    again = [*SWEEP, *CHUNKS, f"run_dir={folder}"]
    code = zygote.run([*again, "overwrite=true"], log, signal_after=some_done, number=signal.SIGINT)
    assert code == 3
    text = log.read_text()
    assert "what is finished is kept, continue it with: python -m bandit_lab sweep quiet=true" in text
    assert text.count("\n") == 1
    assert "overwrite" not in text
    kept = finished(folder)
    assert len(kept) >= 3
    assert main(again) == 0
    assert read(folder, "manifest.json")["chunks"]["found"] == len(kept)
    assert_same(folder, whole.folder)


def test_a_second_process_is_refused_at_once(zygote, whole, tmp_path, capsys):
    folder, refused = tmp_path / "run", []

    def second() -> bool:
        if holder(folder / "chunks") and not refused:
            before = {name for name in files(folder) if not name.endswith(".partial")}  # its holder still works
            refused.append(main([*SWEEP, *CHUNKS, f"run_dir={folder}"]))
            assert before <= files(folder).keys()
        return bool(refused)

    assert zygote.run([*SWEEP, *CHUNKS, f"run_dir={folder}"], tmp_path / "log", signal_after=second) == -signal.SIGKILL
    err = capsys.readouterr().err
    assert refused == [2]
    assert err.count("\n") == 1
    assert "run_dir: expected a folder in which no other process works, got 'one held by process" in err
    assert holder(folder / "chunks") is None


def test_the_lock_is_looked_at_again_after_the_first_look(whole, tmp_path, capsys, monkeypatch):
    """Both processes pass the first look; the lock itself decides."""
    from bandit_lab.app.folder import store

    monkeypatch.setattr(store, "holder", lambda path: None)
    with RunLock(tmp_path / "run" / "chunks").hold():
        assert main([*SWEEP, f"run_dir={tmp_path / 'run'}"]) == 2
    assert "held by process" in capsys.readouterr().err


CUTS = [["chunk.cells=8", "chunk.rows=2"], ["chunk.cells=12", "chunk.seeds=8192"], []]


@pytest.mark.parametrize("sizes", nightly_but(CUTS[:1], CUTS))
def test_no_number_depends_on_how_the_work_is_cut(whole, tmp_path, sizes):
    assert main([*SWEEP, *sizes, f"run_dir={tmp_path / 'run'}"]) == 0
    assert_same(tmp_path / "run", whole.folder)


def broken_for(seeds: int, multiple: float):
    """`RunsWork.compute` that fails for the chunk with a cell, as a device without memory would."""
    real = RunsWork.compute

    def compute(self):
        if self.first == seeds and 0 in self.index:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes\nmore")
        return real(self)

    return compute


def test_failed_chunks_are_null_with_their_reason_and_are_tried_again(whole, tmp_path, capsys, monkeypatch):
    folder, command = tmp_path / "run", [*SWEEP, *CHUNKS, f"run_dir={tmp_path / 'run'}"]
    with monkeypatch.context() as patch:
        patch.setattr(RunsWork, "compute", broken_for(4096, 0.003))
        patch.setattr(RowsWork, "compute", lambda self: (_ for _ in ()).throw(FloatingPointError("no such number")))
        assert main(command) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == str(folder)
    assert "failed, null in the results: boundary, G = infinity: mu 0.5, N 1, beta 1 (FloatingPointError" in err
    assert "and 8 more; what is finished is kept, continue it with: python -m bandit_lab sweep" in err
    summary = read(folder, "summary.json")
    for row in summary["threshold"]:
        assert row["measured_learning_rate"] is None
        assert row["measured_learning_rate_reason"] == "FloatingPointError: no such number"
    first, second = summary["sampled"]["rows"]
    assert first["boundary_learning_rate"] is None
    assert "RESOURCE_EXHAUSTED" in first["boundary_learning_rate_reason"]
    assert "more" not in first["boundary_learning_rate_reason"]
    assert second["boundary_learning_rate"] is not None
    data, good = (xarray.open_zarr(path / "results.zarr").load() for path in (folder, whole.folder))
    lost = data["lost_share"].values.ravel()
    assert np.isnan(lost[:4]).all()
    assert np.isfinite(lost[4:]).all()
    codes, others = (d["sampled_outcome"].values.reshape(10, -1) for d in (data, good))
    assert (codes[:4, 4096:] == -1).all()
    np.testing.assert_array_equal(codes[:4, :4096], others[:4, :4096])
    np.testing.assert_array_equal(codes[4:], others[4:])
    assert np.isnan(data["reward_mean"].values.reshape(10, -1)[:4]).all()
    assert (data["outcome"].values == 0).all()
    assert read(folder, "manifest.json")["chunks"]["failed"][0]["reason"] == "FloatingPointError: no such number"
    assert main(command) == 0
    assert read(folder, "manifest.json")["chunks"]["found"] == 5
    assert_same(folder, whole.folder)


@pytest.mark.parametrize("code", nightly_but([errno.ENOSPC], [errno.ENOSPC, errno.EIO]))
def test_a_full_disk_stops_the_run_which_then_continues(whole, tmp_path, capsys, monkeypatch, code):
    """Write errors in the third chunk, while the results are written, and at the manifest."""
    folder, command = tmp_path / "run", [*SWEEP, *CHUNKS, f"run_dir={tmp_path / 'run'}"]
    kept: dict[str, bytes] = {}

    def stops(name: str) -> None:
        assert main(command) == 3, name
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f"{folder}: cannot be written ({os.strerror(code)})" in err
        assert "continue it with: python -m bandit_lab sweep" in err
        assert not (folder / "manifest.json").exists()
        assert not list(folder.rglob("*.partial"))
        assert kept.items() <= finished(folder).items()
        kept.update(finished(folder))

    with monkeypatch.context() as patch:
        FaultyDisk(52, code, half_written=True).install(patch)
        stops("third chunk")
    assert 2 <= len(kept) < 14
    with monkeypatch.context() as patch:
        patch.setattr(results, "_write_stream", lambda *_: (_ for _ in ()).throw(OSError(code, os.strerror(code))))
        stops("results")
    assert len(kept) == 14
    with monkeypatch.context() as patch:
        patch.setattr(
            "bandit_lab.app.folder.store.RunFolder.write_manifest",
            lambda *_: (_ for _ in ()).throw(OSError(code, os.strerror(code))),
        )
        stops("manifest")
    assert main(command) == 0
    assert read(folder, "manifest.json")["chunks"]["found"] == 14
    assert_same(folder, whole.folder)


def test_another_configuration_is_refused_in_the_same_folder(whole, tmp_path, capsys):
    folder = tmp_path / "run"
    store = ChunkStore(folder)
    before = files(whole.folder)
    assert main([*SWEEP, f"run_dir={whole.folder}", "seed=1"]) == 2
    assert "a finished run of another configuration" in capsys.readouterr().err
    assert main([*SWEEP, f"run_dir={whole.folder}"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert files(whole.folder) == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "attempt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            main([*SWEEP, f"run_dir={folder}"])
    capsys.readouterr()
    begun = store.settings()
    assert main([*SWEEP, f"run_dir={folder}", "seed=1", "sampled.start=initial"]) == 2
    err = capsys.readouterr().err
    assert "expected the configuration that it was begun with, or overwrite=true" in err
    assert "(differs in settings.sampled.start, settings.seed)" in err
    assert main(["predict", f"run_dir={folder}"]) == 2
    assert "an unfinished run" in capsys.readouterr().err
    assert store.settings() == begun
    assert main([*SWEEP, f"run_dir={folder}", "seed=1", "overwrite=true", "dynamics=mean_field"]) == 0
    assert read(folder, "manifest.json")["seed"] == 1
    assert not store.folder.exists()


def test_means_and_counts_where_single_runs_are_not_kept(whole, tmp_path):
    assert main([*SWEEP, "keep_runs=false", f"run_dir={tmp_path / 'run'}"]) == 0
    few, many = (xarray.open_zarr(path / "results.zarr").load() for path in (tmp_path / "run", whole.folder))
    assert "sampled_outcome" not in few
    assert "seed" not in few.coords
    for name in ("outcome_count", "lost_share", "sampled_boundary", "reward_mean", "reward_variance"):
        assert few[name].values.tobytes() == many[name].values.tobytes()
    for name in ("tail_mean", "tail_std", "overshoot", "final_max_probability", "tail_silent"):
        expected = many[name].values.astype(float).mean(-1)
        np.testing.assert_allclose(few[f"{name}_over_seeds"].values, expected, rtol=1e-6)
    counts = many["sampled_outcome"].values[..., None] == np.arange(6)
    np.testing.assert_array_equal(few["outcome_count"].values, counts.sum(-2))
