"""Offline runs of wandb: the framing without the package, history and settings with it, damage refused."""

import json
import struct
import sys
import zlib

import numpy as np
import pytest

from bandit_lab.runs.read import limits, read
from bandit_lab.runs.read.wandb_file import records
from bandit_lab.runs.trainers import settings_of_log

BLOCK = 32 * 1024


def framed(every):
    """Records in LevelDB's log format behind wandb's header, written from LevelDB's description."""
    made = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for data in every:
        first = True
        while True:
            left = BLOCK - len(made) % BLOCK
            if left < 7:
                made += bytes(left)
                left = BLOCK
            part, data = data[: left - 7], data[left - 7 :]
            kind = (1 if first else 4) if not data else (2 if first else 3)
            made += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
            if not data:
                break
    return bytes(made)


def written(path, every):
    path.write_bytes(framed(every))
    return path


def history(rewards):
    """Messages of a run as wandb writes them: its configuration, then a row per step."""
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    run = messages.Record()
    for key, value in {"learning_rate": 1e-6, "num_generations": 8, "_wandb": {}}.items():
        item = run.run.config.update.add()
        item.key, item.value_json = key, json.dumps(value)
    made = [run.SerializeToString()]
    for step, reward in enumerate(rewards.tolist(), start=1):
        row = messages.Record(num=step)
        for key, value in {"train/reward": reward, "train/kl": 0.01, "note": "x", "_step": step}.items():
            item = row.history.item.add()
            item.nested_key.append(key)
            item.value_json = json.dumps(value)
        made.append(row.SerializeToString())
    return made


@pytest.mark.parametrize("size", [1, BLOCK - 15, BLOCK - 14, BLOCK - 13, BLOCK - 7, BLOCK, 3 * BLOCK + 5])
def test_records_of_any_length_come_back(tmp_path, size):
    """Lengths at which a piece just fills its block, or leaves less room than a head needs."""
    every = [bytes([place]) * size for place in range(1, 5)]
    notes = []
    assert list(records(written(tmp_path / "x.wandb", every), notes)) == every
    assert notes == []


def test_a_file_that_is_cut_off_gives_what_is_there(tmp_path):
    every = [b"a" * 100, b"b" * 2 * BLOCK, b"c" * 100]
    whole = framed(every)
    for end in (50, 8 + 107, BLOCK + 3, len(whole) - 1):
        (tmp_path / "x.wandb").write_bytes(whole[:end])
        notes = []
        found = list(records(tmp_path / "x.wandb", notes))
        assert found == every[: len(found)]
        assert notes == ["the file ends inside a record"]


def test_a_record_too_long_to_be_decoded_is_skipped_and_told(tmp_path, monkeypatch):
    """A message of many empty items takes 140 times its bytes, once decoded."""
    monkeypatch.setattr(limits, "MAX_LINE", 2 * BLOCK)
    every = [b"a" * 100, b"b" * (2 * BLOCK + 1), b"c" * 2 * BLOCK, b"d" * 9 * BLOCK]
    notes = []
    assert list(records(written(tmp_path / "x.wandb", every), notes)) == [every[0], every[2]]
    assert notes == ["2 records of more than 65536 bytes skipped"]


def test_damage_is_refused_at_any_place(tmp_path):
    """One bit of every 97th byte behind the header; none gives records that were not written."""
    every = [b"a" * 100, b"b" * 1000]
    whole = framed(every)
    for place in range(7, len(whole), 97):
        (tmp_path / "x.wandb").write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"damaged|in order"):
            list(records(tmp_path / "x.wandb", []))


def test_a_run_is_read_with_its_settings(tmp_path):
    reward = np.linspace(0.1, 0.8, 60)
    path = written(tmp_path / "run-abc.wandb", history(reward))
    (curve,) = read(path)
    np.testing.assert_allclose(curve.reward, reward)
    np.testing.assert_array_equal(curve.step, np.arange(1, 61))
    assert "kl" in curve.series
    found = settings_of_log(str(path), curve.settings)
    assert (found.values["learning_rate"], found.values["num_generations"]) == (1e-6, 8)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "output.log").write_text("{'reward': 0.5}")
    assert read(tmp_path)[0].format == "wandb offline run"
    path.write_bytes(path.read_bytes()[:-5])
    (curve,) = read(path)
    assert curve.reward.size == 59
    assert any("ends inside a record" in note for note in curve.notes)


def test_other_messages_are_refused(tmp_path):
    pytest.importorskip("wandb.proto.wandb_internal_pb2")
    for every in ([b"no message"], [], [b""]):
        with pytest.raises(ValueError, match="wandb"):
            read(written(tmp_path / "x.wandb", every))


def test_without_the_package_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb.proto.wandb_internal_pb2", None)
    with pytest.raises(ValueError, match="pip install wandb"):
        read(written(tmp_path / "x.wandb", [b"x"]))
