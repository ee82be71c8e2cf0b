"""Whatever a file holds: curves, or one line that says what is wrong; never another exception, never much memory."""

import json
import os
import pickle
import tracemalloc

import pytest
import written_logs as logs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bandit_lab.curves import limits, read


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
    "truncated.json": b'{"log_history": [{"reward": 0.1, "step": 1}, {"rew',
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
    "numbers.json": b"[1, 2, 3]",
    "string.json": b'"reward"',
    "null.json": b"null",
    "big_int.jsonl": b'{"step": 1, "reward": 1' + b"0" * 10_000 + b"}\n{}\n",
    "all_nan.csv": b"step,reward\n1,nan\n2,nan\n",
    "events.out.tfevents.1": b"\xff" * 100,
}


@pytest.mark.parametrize("name", FILES)
def test_one_line_for_every_bad_file(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    refused(tmp_path / name)


def test_pickles_are_named_as_such(tmp_path):
    (tmp_path / "training_args.bin").write_bytes(pickle.dumps(Bomb()))
    assert "pickle" in refused(tmp_path / "training_args.bin")


def test_odd_paths(tmp_path):
    refused(tmp_path / "absent = 'quoted' and spaces.log")
    refused(tmp_path / "line\nbreak.log")
    path = tmp_path / "lr=1e-5, seed=3 (copy).jsonl"
    logs.verl_file(path)
    assert read(path)[0].name == "lr=1e-5, seed=3 (copy)"
    os.mkfifo(tmp_path / "pipe.log")
    assert "regular file" in refused(tmp_path / "pipe.log")


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


def test_memory_stays_small_on_one_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_LINE", 20_000)
    (tmp_path / "x.jsonl").write_text("{" * 3_000_000)
    tracemalloc.start()
    refused(tmp_path / "x.jsonl")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 800_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.csv", "x.log"])
def test_two_hundred_megabytes(tmp_path, name):
    """A sparse gigantic line after a valid start; nothing of that size is ever held."""
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(b"a,b\n" if name == "x.csv" else b'[{"a": 1}, ')
        for _ in range(200):
            file.write(b"1234567 " * 131072)
    tracemalloc.start()
    refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024**2


ROWS = [
    '{"step": 1, "reward": 0.5}',
    "{'loss': 0.1, 'reward': 0.2}",
    "step:3 - critic/rewards/mean:0.1",
    "a,reward,1,0.5",
]
HEADS = ["step,reward", "run_name,metric,step,value", '{"log_history": [', "Wall time,Step,Value", "[[1, 2, 3]]"]
BITS = ["1,2", "np.float64(", "NaN", "null", "1e999", "reward: 3", "type=eval", "train_runtime", "| 1/9 [0<1, 1s/it]"]
PIECES = st.sampled_from([*ROWS, *HEADS, *BITS, *"\n\r,\"'{}[]-\0é\x1b"])
NAMES = st.sampled_from(["x.log", "x.json", "x.jsonl", "x.csv", "x.txt", "x", "events.out.tfevents.1"])
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def survives(path) -> None:
    try:
        curves = read(path)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
        assert all(curve.reward.size for curve in curves)
    assert "\n" not in message


@SLOW
@given(content=st.binary(max_size=400), name=NAMES)
def test_random_bytes(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    survives(tmp_path / name)


@SLOW
@given(pieces=st.lists(PIECES, max_size=25), name=NAMES)
def test_random_arrangements_of_log_pieces(tmp_path, pieces, name):
    (tmp_path / name).write_text("".join(pieces))
    survives(tmp_path / name)


@SLOW
@given(data=st.data(), name=st.sampled_from(sorted(logs.WRITERS)))
def test_valid_logs_cut_and_altered(tmp_path, data, name):
    path = tmp_path / name
    logs.WRITERS[name](path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 6))):
        start = data.draw(st.integers(0, len(content) - 1))
        content[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=10))
        content = content or bytearray(b" ")
    path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
    survives(path)
