"""An output file never takes the place of a file that somebody else wrote, nor of one that the same command reads."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bandit_lab.app.cli import ALARMED, BAD_INPUT, OK, main
from bandit_lab.app.folder.store import RunFolder
from bandit_lab.app.terminal.errors import Stopped


def jsonl(rows: int = 60, fall: int = 1000) -> str:
    noise = np.random.default_rng(0).normal(0, 0.02, rows)
    lines = ({"step": i, "reward": 0.5 + noise[i] if i < fall else 0.02} for i in range(rows))
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_text(jsonl())


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "sweep"
    axes = ("sweep.refresh_interval=[1,2]", "sweep.learning_rate=[0.1,0.2]", "momentum=0.0")
    assert main(["sweep", *axes, "seeds=4", "steps=4", "pictures=false", f"run_dir={folder}"]) == OK
    return folder


WATCH = ("watch", "run.jsonl", "for=0.05", "every=0.05")
ADVISE = ("explore", "run.jsonl", "open=false", "compilation_cache=null")


PLACES = {"page": "page.html", "alarms": "alarms.jsonl", "explore": "map.html"}
"""Outputs that have a name of their own in `run_dir`."""


def command(name: str, output: str, sweep: Path) -> list[str]:
    """A command that would write `output`, or its own file in the folder of this name."""
    return {
        "page": [*WATCH, f"run_dir={output}"],
        "alarms": [*WATCH, f"run_dir={output}"],
        "explore": [*ADVISE, f"run_dir={output}"],
    }[name]


NAMES = ["page", "alarms", "explore"]


def place(name: str, output: str) -> Path:
    """The file that `command` writes."""
    if name not in PLACES:
        return Path(output)
    Path(output).mkdir(exist_ok=True)
    return Path(output, PLACES[name])


@pytest.mark.parametrize(
    "content", [jsonl(3), "<!doctype html>\n<p>my thesis", "# Notes: mine\na,b\n1,2\n", "\0\1\2", "{}"]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_somebody_else_is_refused_and_stays(name, content, sweep, capsys):
    theirs = place(name, "theirs")
    theirs.write_text(content)
    capsys.readouterr()
    assert main(command(name, "theirs", sweep)) == BAD_INPUT
    key = "run_dir" if name in PLACES else "output"
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{key}: expected a new file, or one that an earlier call wrote, got '{theirs}'" in err
    assert theirs.read_text() == content


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("before", [None, b""])
def test_its_own_file_is_written_again(name, before, sweep, capsys):
    if before is not None:
        place(name, "own").write_bytes(before)
    for _ in range(2):
        assert main(command(name, "own", sweep)) == OK


def test_one_output_does_not_take_the_place_of_another(sweep, capsys):
    """Each knows its own: the page of a watched run is not one of explore."""
    assert main(command("page", "own", sweep)) == OK
    Path("own/page.html").rename("own/map.html")
    assert main(command("explore", "own", sweep)) == BAD_INPUT


def linked(path: Path) -> Path:
    Path("symbolic").symlink_to(path)
    return Path("symbolic")


def hard(path: Path) -> Path:
    os.link(path, "hard")
    return Path("hard")


@pytest.mark.parametrize("way", [linked, hard])
@pytest.mark.parametrize("name", PLACES)
def test_what_is_read_is_never_written(name, way, sweep, capsys):
    before = Path("run.jsonl").read_bytes()
    way(Path("run.jsonl").absolute()).rename(place(name, "own"))
    assert main(command(name, "own", sweep)) == BAD_INPUT
    assert "expected a file that this command does not read" in capsys.readouterr().err
    assert Path("run.jsonl").read_bytes() == before


def test_nor_where_it_looks_like_an_output(sweep, capsys):
    """A log of alarms that is followed, and one that is not there yet."""
    line = {"log": "a", "failure": "b", "step": 1, "row": 1, "onset": 1, "score": 1, "text": "c"}
    Path("alarms.jsonl").write_text(f"{json.dumps(line)}\n")
    assert main(["watch", "alarms.jsonl", "for=0.05", "run_dir=."]) == BAD_INPUT
    Path("alarms.jsonl").unlink()
    assert main(["watch", "alarms.jsonl", "for=0.05", "run_dir=."]) == BAD_INPUT
    assert not Path("alarms.jsonl").exists()


def test_no_output_is_one_more_log_in_the_folder_that_is_read(sweep, capsys):
    """Alarms beside the log would be the log that was written last."""
    Path("logs").mkdir()
    Path("run.jsonl").rename("logs/run.jsonl")
    assert main(["watch", "logs", "for=0.05", "run_dir=logs"]) == BAD_INPUT
    assert main(["watch", "logs", "for=0.05", "run_dir=logs/new"]) == BAD_INPUT
    assert main(["watch", "logs", "for=0.05", "run_dir=new"]) == OK


def test_alarms_of_several_runs_go_into_one_file(capsys):
    Path("run.jsonl").write_text(jsonl(200, fall=120))
    for count in (1, 2):
        assert main([*WATCH[:2], "for=0.3", "run_dir=own"]) == ALARMED
        assert len(Path("own/alarms.jsonl").read_text().splitlines()) == count


def test_a_run_does_not_read_what_it_writes_over(capsys):
    Path("run").mkdir()
    folder = RunFolder(Path("run"))
    folder.open("run_dir: null\noverwrite: false\n")
    folder.write_summary({"log_history": [{"step": i, "reward": 0.5 + 0.001 * i} for i in range(60)]})
    folder.write_manifest({"command": "predict", "config_hash": "x"})
    before = Path("run/summary.json").read_bytes()
    for how in ("run/summary.json", "run", str(Path("run/summary.json").resolve())):
        assert main(["fit", how, "run_dir=run", "overwrite=true"]) == BAD_INPUT
        assert "run_dir: expected a folder that does not hold" in capsys.readouterr().err
    assert main(["fit", "run.jsonl", "beside=[run/summary.json]", "run_dir=run", "overwrite=true"]) == BAD_INPUT
    assert Path("run/summary.json").read_bytes() == before


def test_a_file_that_came_into_the_run_folder_stays(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open("seed: 0\n")
    (tmp_path / "run" / "fits.png").write_text("mine")
    with pytest.raises(Stopped, match=r"fits\.png: not written by this program"):
        folder.write_files({"fits.png": b"drawn", "other.png": b"drawn"})
    assert (tmp_path / "run" / "fits.png").read_text() == "mine"
    assert "fits.png" not in json.loads((tmp_path / "run" / "written.json").read_text())["files"]
