"""Logs that are none, at the command line: one line that names the key and the file, exit 2, nothing written."""

import contextlib
import json
import resource
import signal
from pathlib import Path

import pytest
from grpo_clinic.__main__ import BAD_INPUT, STOPPED, main

FILES = {
    "empty.json": (b"", "an empty file"),
    "lr = 1e-5, 'a' copy.log": (bytes(range(256)) * 50, "binary data"),
    "deep.json": (b"[" * 100_000, "nested too deeply"),
    "no_reward.csv": (b"step,loss\n1,2\n2,3\n", "the log has step, loss"),
    "long.jsonl": (b'{"step": 1, "reward": ' + b"1" * 5_000_000 + b"}\n", "1 lines of more than"),
    "short.csv": (b"step,reward\n1,0.1\n2,0.2\n", "at least 8 rewards, got 2"),
    "folder/a.json": (b"{}", "expected"),
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


def complaint(capsys, *given) -> str:
    assert main([*given]) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix(f"grpo-clinic {given[0]}: ")


@pytest.mark.parametrize("command", ["fit", "diagnose"])
@pytest.mark.parametrize("name", FILES)
def test_a_bad_log_is_named_under_its_key(command, name, capsys):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(FILES[name][0])
    if command == "diagnose" and "at least 8" in FILES[name][1]:  # one row may prove something
        assert main([command, name]) == 0
        return
    line = complaint(capsys, command, name)
    assert line.startswith("paths: ")
    assert name in line
    assert FILES[name][1] in line


LOG = "".join(f'{{"step": {i}, "reward": {0.9 - 0.5 * 0.97**i + 0.01 * (i * 7 % 5)}}}\n' for i in range(300))


@contextlib.contextmanager
def files_of_at_most(size: int):
    """Inside, no file grows beyond `size` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_is_one_line(capsys):
    """No half page is left."""
    Path("run.jsonl").write_text(LOG)
    with files_of_at_most(1000):
        assert main(["diagnose", "run.jsonl", "--page", "here/page.html"]) == STOPPED
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(Path().glob("here/*"))


@pytest.mark.parametrize("command", ["fit", "diagnose"])
def test_one_bad_file_does_not_take_the_others_with_it(command, capsys):
    Path("good.jsonl").write_text(LOG)
    Path("deep.json").write_bytes(b"[" * 100_000)
    assert main([command, "good.jsonl", "deep.json", "--json", "out.json"]) == 0
    good, deep = json.loads(Path("out.json").read_text())
    assert good["n_points"] == 300
    assert deep["status"].startswith("no curve: deep.json: expected")
