"""Folders of a multirun and the table over them."""

import csv
import json

import pytest

from bandit_lab.app.cli import BAD_INPUT, main
from bandit_lab.app.terminal import multirun
from bandit_lab.app.terminal.errors import Stopped


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


ODD = [
    "[1,2]",
    "'a b'",
    "../../etc",
    "a/b",
    "$HOME",
    "é",
    "A",
    "a",
    "1e-05",
    "x" * 300,
    "-",
    "",
    "a:b",
    "con",
    "a=b",
    "a,b",
]


def test_the_same_run_twice_is_refused(capsys):
    assert main(["predict", "-m", "group_size=8,8", "run_dir=many"]) == BAD_INPUT
    assert "-m: expected different runs, got 'group_size=8 more than once'" in capsys.readouterr().err


def test_a_file_of_that_name_that_is_not_ours_is_let_be(tmp_path, capsys):
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "multirun.csv").write_text("my,own\n1,2\n")
    assert main(["predict", "-m", "group_size=8,16", "run_dir=many"]) == BAD_INPUT
    assert "run_dir: expected a folder without another multirun.csv" in capsys.readouterr().err
    assert (tmp_path / "many" / "multirun.csv").read_text() == "my,own\n1,2\n"


OF_G8 = {"drift": "G = 8", "exact": None, "leading_order": None, "relative_error": None, "sampled_learning_rate": 1.0}
SUMMARIES = {
    "sweep": (
        {
            "boundary": "learning_rate",
            "drift": ["G = infinity", "G = 8"],
            "threshold": [
                {"drift": "G = infinity", "exact": 9.0, "leading_order": 1.0, "relative_error": 1.0},
                OF_G8 | {"exact": 2.0, "leading_order": 1.0, "relative_error": -1e-5},
                OF_G8 | {"sampled_learning_rate": None},
            ],
            "stiffness": {"rows": [{"drift": "G = infinity", "hessian": [9.0]}, {"drift": "G = 8", "hessian": [0.25]}]},
        },
        {"drift": "G = 8", "stiffness": 0.25, "exact/law least": 2.0, "largest error": 1e-5, "sampled/exact most": 0.5,
         "exact, eta most": 2.0},
    ),
    "reproduce": ({"claims": [{"holds": True}, {"holds": False}]}, {"claims": 2, "hold": 1}),
    "check": ({"checks": [1, 2, 3], "failed": 1}, {"checks": 3, "failed": 1}),
}  # fmt: skip


@pytest.mark.parametrize("command", SUMMARIES)
def test_headline_numbers(command):
    summary, expected = SUMMARIES[command]
    found = multirun.HEADLINES[command](summary)
    assert {key: found[key] for key in expected} == expected


def test_a_run_that_is_missing_or_broken_is_a_row_too(tmp_path, capsys):
    done = tmp_path / "a"
    done.mkdir()
    (done / "summary.json").write_text(json.dumps({"checks": [1], "failed": 0}))
    (done / "manifest.json").write_text("{}")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "summary.json").write_text("{ broken")
    multirun.finish("check", tmp_path, [multirun.MultirunJob(name, {"seed": name}) for name in "abc"])
    lines = (tmp_path / "multirun.csv").read_text().splitlines()[1:]
    rows = list(csv.DictReader(lines))
    assert [(row["seed"], row["state"], row["checks"]) for row in rows] == [
        ("a", "done", "1"),
        ("b", "unfinished", ""),
        ("c", "unfinished", ""),
    ]
    assert "unfinished" in capsys.readouterr().out


def test_a_disk_that_is_full_at_the_end_is_one_line(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(multirun.durable, "write_file", full)
    with pytest.raises(Stopped, match=r"multirun\.csv: cannot be written \(No space left on device\)"):
        multirun.finish("check", tmp_path, [multirun.MultirunJob("a", {"seed": "1"})])
