"""What `watch` follows, however it is written: every row once, with its step."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from watch_logs import FORMATS, document, rewards

from bandit_lab.runs.monitor import Monitor
from bandit_lab.runs.read import read
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.watch import rows, schema, tail
from bandit_lab.runs.watch.sources import Reading, follow
from bandit_lab.runs.watch.tail import FileTail


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def drained(source):
    found = list(source.poll())
    while source.behind:
        found += source.poll()
    return found + list(source.close())


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_that_grows_by_pieces_gives_the_rows_that_are_in_it(name):
    """Written in 17 pieces that end anywhere in a line: rewards and steps are those that `fit` reads at the end."""
    values = np.round(rewards(40), 4)
    text = FORMATS[name](values)
    reading = Reading(ReadOptions(), {})
    source, found = follow(Path(name), reading), []
    cuts = np.linspace(0, len(text), 18).astype(int)
    for first, last in itertools.pairwise(cuts):
        with open(name, "a") as file:
            file.write(text[first:last])
        found += source.poll()
        if hasattr(source._inner, "_not_before"):
            source._inner._not_before = 0.0
    found += source.close()
    monitor = Monitor()
    for step, row in found:
        monitor.feed(step, row)
    curve = monitor.curve()
    np.testing.assert_allclose(curve.reward, values)
    np.testing.assert_allclose(curve.step, np.arange(1, 41))


MIXED = (
    {"step": 1, "reward": 0.5},
    {"step": 1, "reward": 2**70, "kl": 1e-320},
    {"step": 1, "reward": None},
    {"step": 1, "reward": "0.25"},
    {"step": 1, "reward": True},
    {"step": 1, "reward": float("nan")},
    {"step": 1, "reward": {"mean": 0.5}},
    {"step": 1, "reward": 0.5, "eval_reward": 0.25},
    {"step": 1, "reward": 0.5, "run": "other"},
    {"step": 1e300, "reward": 0.5},
    {"reward": 0.5},
)


@pytest.mark.parametrize("text", ["", "\n", "no row\n", '{"step": 9, "rew', "[1, 2]\n", '{"step": 1,\n"reward": 2}\n'])
def test_lines_that_are_read_by_a_schema_are_the_lines_one_by_one(text, monkeypatch):
    """Stretches of 1 to 30 rows of every kind, damaged lines between, in reads of 1 kB: the same rows and steps."""
    rng, lines = np.random.default_rng(9), []
    for place in rng.permutation(np.repeat(np.arange(len(MIXED)), 6)):
        for _ in range(rng.integers(1, 30)):
            row = dict(MIXED[place])
            row |= {"step": len(lines)} if row.get("step") == 1 else {}
            row |= {"reward": float(rng.normal())} if row["reward"] == 0.5 else {}
            lines.append(f"{json.dumps(row)}\n")
        lines.append(text)
    Path("run.jsonl").write_text("".join(lines))
    monkeypatch.setattr(tail, "CHUNK", 1024)
    with_schema = drained(follow(Path("run.jsonl"), Reading(ReadOptions(), {})))
    monkeypatch.setattr(rows, "schema_of", lambda row: None)
    one_by_one = drained(follow(Path("run.jsonl"), Reading(ReadOptions(), {})))
    assert repr([*map(plain, with_schema)]) == repr([*map(plain, one_by_one)])
    assert len(with_schema) > 900


def plain(row):
    """A step and its metrics, integers as the numbers that they stand for."""
    return float(row[0]), {name: float(v) if type(v) is int else v for name, v in row[1].items()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run-x.wandb", b":W&B\xd4\xa8\0\0" + bytes(range(256))),
        ("state.log", b"\x80\x04\x95" + bytes(40)),
        ("table.log", b"PAR1" + bytes(40)),
    ],
)
def test_what_is_no_text_is_read_as_a_whole_or_says_what_is_missing(name, content):
    Path(name).write_bytes(content)
    source = follow(Path(name), Reading(ReadOptions(), {}))
    assert list(source.poll()) == []
    with pytest.raises(ValueError, match=name) as refused:
        read(name)
    assert source.waiting == f"waits for a log that can be read: {refused.value}"


def test_rotation_truncation_and_a_name_that_is_gone_for_a_moment():
    path = Path("run.log")
    log = FileTail(path)
    assert log.poll() == b""
    path.write_text("a\nb\nhalf")
    assert log.poll() == b"a\nb\n"
    with path.open("a") as file:
        file.write(" whole\n")
    path.rename("run.log.1")
    assert log.poll() == b"half whole\n"
    assert log.poll() == b""
    path.write_text("new\n")
    assert log.poll() == b"new\n"
    assert "rotated" in log.events[0]
    path.write_text("")
    path.write_text("x\n")
    assert log.poll() == b"x\n"
    assert "cut" in log.events[1]
    path.write_text("other bytes of more length\n")  # cut and longer than before between two looks
    assert log.poll() == b"other bytes of more length\n"
    assert log.close() == b""


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_lines_that_are_longer_than_a_read_come_whole(chunk, monkeypatch):
    monkeypatch.setattr(tail, "CHUNK", chunk)
    text = b"a\r\n" + b"x" * 200 + b"\n\rb\rhalf"
    Path("run.log").write_bytes(text)
    log, found = FileTail(Path("run.log")), []
    while (new := bytes(log.poll())) or log.behind:
        found.append(new)
    assert all(one.endswith((b"\n", b"\r")) for one in found if one)
    assert b"".join(found) == text.removesuffix(b"half")
    assert log.close() == b"half"


def test_a_folder_of_checkpoints_is_followed_to_the_newest(monkeypatch):
    monkeypatch.setattr("bandit_lab.runs.watch.sources.PATIENCE", 0)
    monkeypatch.setattr("bandit_lab.runs.watch.sources._LATEST", 0)
    values = rewards(60)
    source, found = follow(Path("run"), Reading(ReadOptions(), {})), []
    for count in (20, 40, 60):
        Path(f"run/checkpoint-{count}").mkdir(parents=True)
        Path(f"run/checkpoint-{count}/trainer_state.json").write_text(document(values[:count]))
        found += source.poll()
    assert [step for step, _ in found][-20:] == list(range(41, 61))
    monitor = Monitor()
    for step, row in found:
        monitor.feed(step, row)
    np.testing.assert_allclose(monitor.curve().reward, values)


ROWS = [{"step": i, "π": v, "x" * 40: -v} for i, v in enumerate([0.1, 5e-324, -0.0, 1.7976931348623157e308, 2**53])]


@pytest.mark.parametrize("width", [3, 15, 16, 70])
@pytest.mark.parametrize("piece", [40, schema.PIECE])
def test_a_schema_gives_the_numbers_that_json_gives(width, piece, monkeypatch):
    """To the last bit: names of any length and letters, more names than fit one byte, lines longer than a piece."""
    monkeypatch.setattr(schema, "PIECE", piece)
    written = [row | {f"more_{i}": i / 7 for i in range(width - 3)} for row in ROWS * 30]
    text = "".join(f"{json.dumps(row)}\n" for row in written).encode()
    found = schema.schema_of(written[0]).values(memoryview(text))
    expected = np.array([[float(row[name]) for row in written] for name in written[0]])
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("last", ["{}", '{"step": 1, "other": 2}', '{"step": 1, "reward": "2"}', "no row", ""])
def test_a_schema_refuses_what_is_not_of_it(last):
    row = '{"step": 1, "reward": 2}'
    assert schema.schema_of(json.loads(row)).values(f"{row}\n{last}\n".encode()) is None
    assert schema.schema_of(json.loads(row)).values(f"{row}\n{row}".encode()) is None  # no end
    assert schema.schema_of(json.loads(row)).values(f"{row}\n".encode()).tolist() == [[1], [2]]


def test_a_folder_where_the_log_was_ends_nothing():
    """The log is gone, a folder of its name is there, then a log again, which is read."""
    Path("run.jsonl").write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.5}\n')
    source = follow(Path("run.jsonl"), Reading(ReadOptions(), {}))
    assert len(source.poll()) == 2
    Path("run.jsonl").unlink()
    Path("run.jsonl").mkdir()
    for _ in range(3):
        assert list(source.poll()) == []
    Path("run.jsonl").rmdir()
    Path("run.jsonl").write_text('{"step": 3, "reward": 0.5}\n')
    assert [step for step, _ in source.poll()] == [3]


@pytest.mark.parametrize("error", [OSError(116, "Stale file handle"), MemoryError(), RecursionError("too deep")])
def test_a_look_that_fails_is_told_and_tried_again(monkeypatch, error):
    Path("run.jsonl").write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.5}\n')
    source = follow(Path("run.jsonl"), Reading(ReadOptions(), {}))
    with monkeypatch.context() as patch:

        def fails(self):
            raise error

        patch.setattr(FileTail, "poll", fails)
        for _ in range(3):
            assert list(source.poll()) == []
        assert source.waiting.startswith("waits for a log that can be read: ")
        assert not source.behind
        assert len(source.events) == 1
    assert len(source.poll()) == 2
    assert source.waiting == ""
