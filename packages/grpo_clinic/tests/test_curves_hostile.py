"""Whatever a file holds: curves, or one line that says what is wrong; never another exception, never much memory."""

import errno
import json
import os
import pickle
import subprocess
import sys
import tracemalloc

import pytest
import written_logs as logs
from grpo_clinic.readers import csv_table, limits, read, read_all


def refused(path) -> str:
    with pytest.raises(ValueError, match="expected") as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message or ascii(path.name)[1:-1] in message
    return message


class Bomb:
    """Would run code when unpickled."""

    def __reduce__(self):
        return os.abort, ()


FILES = {
    "empty.json": b"",
    "blank.csv": b"\n\n\n",
    "truncated.json": b'{"log_history": [{"reward": 0.1, "st',
    "deep.json": b"[" * 200_000,
    "deep_object.json": b'{"a":' * 100_000,
    "deep.jsonl": (b'{"a":' * 5_000 + b"\n") * 20,
    "deep_console.log": b"{'reward': " * 20_000,
    "minus.log": b"{'loss': 1, 'reward': " + b"-" * 100_000 + b"1}",
    "pickle.bin": pickle.dumps(Bomb()),
    "pickle.json": pickle.dumps(Bomb(), protocol=2),
    "zip.pt": b"PK\x03\x04" + bytes(100),
    "binary.log": bytes(range(256)) * 100,
    "zeros.log": bytes(10_000),
    "no_reward.csv": b"step,loss\n1,2\n2,3\n",
    "only_header.csv": b"step,reward\n",
    "text.txt": b"nothing to see\n" * 100,
    "words.json": b'["a", "b", "c"]',
    "string.json": b'"reward"',
    "null.json": b"null",
    "big_int.jsonl": b'{"step": 1, "reward": 1' + b"0" * 10_000 + b"}\n{}\n",
    "above_floats.jsonl": b'{"step": 1, "reward": 1' + b"0" * 400 + b"}\n{}\n",
    "below_floats.json": b'[{"step": 1, "reward": -1' + b"0" * 400 + b"}]",
    "all_nan.csv": b"step,reward\n1,nan\n2,nan\n",
    "events.out.tfevents.1": b"\xff" * 100,
}


@pytest.mark.parametrize("name", FILES)
def test_one_line_for_every_bad_file(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    refused(tmp_path / name)


def test_odd_paths(tmp_path):
    refused(tmp_path / "absent = 'quoted' and spaces.log")
    refused(tmp_path / "line\nbreak.log")
    path = tmp_path / "lr=1e-5, seed=3 (copy).jsonl"
    logs.verl_file(path)
    assert read(path)[0].name == "lr=1e-5, seed=3 (copy)"
    os.mkfifo(tmp_path / "pipe.log")
    assert "regular file" in refused(tmp_path / "pipe.log")


def test_an_integer_that_no_float_holds_is_an_infinite_reward(tmp_path):
    rows = [{"step": i, "reward": 10**400 if i == 3 else 0.5} for i in range(6)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (curve,) = read(tmp_path / "x.jsonl")
    assert curve.nonfinite_steps.tolist() == [3]


@pytest.mark.parametrize("name", ["x.log", "x.txt", "x.json", "x"])
@pytest.mark.parametrize(
    "line", ["[2026-01-01 10:{0:02}] step: {0} - reward: .5", "[INFO] step={0} reward=0.5", "[{0}] reward: 0.5",
             "[{0}, 99] step {0} reward 1: reward=0.5", "{{'loss': 0.1, 'reward': 0.5, 'step': {0}}}"]
)  # fmt: skip
def test_a_console_log_may_begin_with_a_bracket(tmp_path, name, line):
    (tmp_path / name).write_text("".join(line.format(i) + "\n" for i in range(1, 21)))
    (curve,) = read(tmp_path / name)
    assert curve.step.tolist() == list(range(1, 21))
    (tmp_path / name).write_text("".join(line.format(i).replace("reward", "quality") + "\n" for i in range(1, 21)))
    assert "JSON" not in refused(tmp_path / name)


def test_folders_and_links_that_cannot_be_read_are_left_out_and_said(tmp_path, monkeypatch):
    good = tmp_path / "logs" / "good"
    good.mkdir(parents=True)
    logs.verl_file(good / "a.jsonl")
    (tmp_path / "logs" / "locked").mkdir()
    (tmp_path / "logs" / "loop.json").symlink_to("loop.json")
    (tmp_path / "logs" / "round").symlink_to(".")
    real = os.listdir

    def listdir(path="."):
        if os.path.basename(path) == "locked":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    curves, skipped = read_all([tmp_path / "logs", tmp_path / ("x" * 300), tmp_path / "logs" / "locked"])
    assert [curve.name for curve in curves] == ["a"]
    reasons = {os.path.basename(one.path)[:9]: one.reason for one in skipped}
    assert sorted(reasons) == ["locked", "loop.json", "x" * 9]
    assert all("expected" in reason and "\n" not in reason for reason in reasons.values())
    assert "Permission denied" in reasons["locked"]
    assert "locked" in refused(tmp_path / "logs" / "locked")


def test_a_folder_without_rights(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "logs" / "locked").mkdir(parents=True)
    logs.verl_file(tmp_path / "logs" / "a.jsonl")
    for rights in (0o000, 0o400):  # no listing; names without anything else
        (tmp_path / "logs" / "locked").chmod(rights)
        curves, _ = read_all([tmp_path / "logs"])
        assert [curve.name for curve in curves] == ["a"]
    (tmp_path / "logs" / "locked").chmod(0o700)


def test_files_beyond_the_limit_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_FILES", 3)
    for name in "abcde":
        logs.verl_file(tmp_path / f"{name}.jsonl")
    curves, skipped = read_all([tmp_path])
    assert [curve.name for curve in curves] == list("abc")
    assert [one.path for one in skipped] == [str(tmp_path)]
    assert "at most 3 files in a folder, got 5: those behind c.jsonl were left out" in skipped[0].reason


MEASURE = """
import re, sys
from grpo_clinic.readers import read
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
before = peak()
read(sys.argv[1])
print((peak() - before) // 1024)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of a process's memory is read from /proc")
@pytest.mark.parametrize(("name", "rows"), [("x.jsonl", 20_000), ("x.log", 5_000)])
def test_memory_stays_small_on_thousands_of_columns(tmp_path, name, rows):
    """9,000 names: 180 MB and more if all columns were held over all rows, 2 MB of numbers."""
    with (tmp_path / name).open("w") as file:
        for i in range(rows):
            row = {"reward": 0.5} | {f"m{(4 * i + k) % 9000}": 0.25 for k in range(4)}
            print(json.dumps(row | {"step": i}) if name == "x.jsonl" else str(row), file=file)
    done = subprocess.run([sys.executable, "-c", MEASURE, tmp_path / name], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100


def test_parts_of_the_reward_beyond_the_limit_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_PARTS", 3)
    row = {"reward": 0.5, "rewards/x/std": 1.0} | {f"rewards/{name}/mean": 0.1 for name in "abcde"}
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(row | {"step": i}) for i in range(9)))
    (curve,) = read(tmp_path / "x.jsonl")
    assert list(curve.parts) == [f"rewards/{name}/mean" for name in "abc"]
    assert "2 of 5 parts of the reward left out" in curve.notes


def test_sizes_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_DOCUMENT_BYTES", 1000)
    logs.trainer_state(tmp_path / "long.json")
    assert "JSONL" in refused(tmp_path / "long.json")
    monkeypatch.setattr(limits, "MAX_CELLS", 20)
    logs.wide_csv(tmp_path / "c.csv")
    assert "at most 20 numbers" in refused(tmp_path / "c.csv")
    monkeypatch.setattr(limits, "MAX_TEXT_BYTES", 10)
    assert "at most 10 bytes" in refused(tmp_path / "c.csv")


def test_too_many_columns_and_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_KEYS", 10)
    rows = [{"step": i, "reward": 0.5, f"key{i}": 1} for i in range(50)]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    assert "column names" in refused(tmp_path / "x.json")
    monkeypatch.setattr(limits, "MAX_COLUMNS", 5)
    rows = [{"run": f"r{i % 4}", "step": i, "reward": 0.5} for i in range(50)]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert "at most 5 columns in all runs" in refused(tmp_path / "runs.jsonl")
    monkeypatch.setattr(limits, "MAX_COLUMNS", 100)
    monkeypatch.setattr(limits, "MAX_NODES", 40)
    (tmp_path / "n.json").write_text(json.dumps(rows))
    assert "at most 40 lists and objects, got 51" in refused(tmp_path / "n.json")
    monkeypatch.setattr(limits, "MAX_RUNS", 3)
    logs.long_csv(tmp_path / "runs.csv", tuple("abcdef"))
    assert "at most 3 runs" in refused(tmp_path / "runs.csv")


def test_long_lines_are_skipped_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_LINE", 10_000)
    logs.verl_console(tmp_path / "x.log")
    with (tmp_path / "x.log").open("a") as file:
        file.write("x" * 50_000 + "\nstep:99 - critic/rewards/mean:0.5\n")
    (curve,) = read(tmp_path / "x.log")
    assert curve.step[-1] == 99
    assert "1 lines of more than" in " ".join(curve.notes)


def test_a_hole_of_zeros_in_a_log_is_survived(tmp_path):
    logs.verl_console(tmp_path / "x.log")
    text = (tmp_path / "x.log").read_bytes()
    (tmp_path / "x.log").write_bytes(text[:1500] + bytes(100_000) + text[1500:])
    (curve,) = read(tmp_path / "x.log")
    assert curve.step.size >= logs.N - 1
    assert "holes" in " ".join(curve.notes)


@pytest.mark.parametrize(
    "line", ["x" * 99 + "\n", "y" * 4096, "\r 1%| | 1/9 [00:01<00:02, 1s/it]", '{"note": 1}\n', "{'a': 1\n"]
)
def test_memory_stays_small_on_large_text(tmp_path, monkeypatch, line):
    """1 MB of lines without a reward: what is held is read buffers and, where there are numbers, 16 bytes for each."""
    monkeypatch.setattr(limits, "MAX_LINE", 20_000)
    (tmp_path / "x.log").write_text(line * (1_000_000 // len(line)))
    tracemalloc.start()
    refused(tmp_path / "x.log")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


def rows_of(count: int) -> bytes:
    return "".join(f'{{"step": {step}, "reward": {0.5 + step / 1000}}}\n' for step in range(count)).encode()


class OfALibrary(Exception):
    """An error that no reader of ours knows."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RecursionError("maximum recursion depth exceeded"), "got one nested too deeply"),
        (MemoryError(), "got one that takes more memory than there is"),
        (OSError(errno.EIO, "Input/output error"), "got Input/output error"),
        (OfALibrary("bad\nblock"), "got OfALibrary: bad block"),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_every_failure_of_a_reader_is_a_row_with_its_reason(tmp_path, monkeypatch, error, reason, together):
    for name in ("a.jsonl", "c.jsonl"):
        (tmp_path / name).write_bytes(rows_of(60))
    (tmp_path / "b.csv").write_text("step,reward\n1,0.5\n2,0.6\n")

    def fails(path):
        raise error

    monkeypatch.setattr(csv_table, "read", fails)
    if together:  # a folder is one log to `read`
        assert len(read(tmp_path)) == 2
    curves, skipped = read_all([tmp_path] if together else sorted(tmp_path.iterdir()))
    assert len(curves) == 2
    assert [one.reason for one in skipped] == [f"{tmp_path / 'b.csv'}: expected a log that can be read, {reason}"]
