"""Folders of a multirun and the table over them."""

import csv
import json
import re

import pytest

from bandit_lab.app.cli import BAD_INPUT, main
from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.terminal import multirun, report
from bandit_lab.app.terminal.commands import COMMANDS
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


def test_names_are_safe_bounded_and_different():
    names = [multirun.folder_name({"kl_weight": value}) for value in ODD]
    assert len({name.casefold() for name in names}) == len(ODD)
    for name in names:
        assert re.fullmatch(r"kl_weight[A-Za-z0-9._+-]*", name)
        assert len(name) <= 100
    assert multirun.folder_name({"group_size": "8", "learning_rate": "1e-05"}) == "group_size_8__learning_rate_1e-05"
    many = {f"key_{i}": str(i) for i in range(40)}
    assert len(multirun.folder_name(many)) <= 100
    assert multirun.folder_name(many) != multirun.folder_name(many | {"key_39": "40"})


@pytest.mark.parametrize("value", [value for value in ODD if value not in ("", "'a b'")])
def test_a_name_can_be_given_back_as_run_dir(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    path = f"many/{multirun.folder_name({'kl_weight': value})}"
    assert OverridesParser.create().parse_override(f"run_dir={path}").value() == path


def test_the_same_run_twice_is_refused(capsys):
    assert main(["predict", "-m", "group_size=8,8", "run_dir=many"]) == BAD_INPUT
    assert "-m: expected different runs, got 'group_size=8 more than once'" in capsys.readouterr().err


def test_a_file_of_that_name_that_is_not_ours_is_let_be(tmp_path, capsys):
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "multirun.csv").write_text("my,own\n1,2\n")
    assert main(["predict", "-m", "group_size=8,16", "run_dir=many"]) == BAD_INPUT
    assert "run_dir: expected a folder without another multirun.csv" in capsys.readouterr().err
    assert (tmp_path / "many" / "multirun.csv").read_text() == "my,own\n1,2\n"


def test_every_command_that_writes_a_run_has_headline_numbers():
    assert set(multirun.HEADLINES) == {name for name, command in COMMANDS.items() if not command.reads}
    assert set(COMMANDS) == set(SCHEMAS)


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
    "fit": (
        {"logs": [{"model": "constant", "r_squared": 0.5}, {"model": None, "r_squared": None}]},
        {"logs": 2, "fitted": 1, "constant": 1, "median R^2": 0.5},
    ),
    "diagnose": ({"logs": [{"verdict": ["healthy"]}, {"verdict": []}]}, {"logs": 2, "healthy": 1}),
    "reproduce": ({"claims": [{"holds": True}, {"holds": False}]}, {"claims": 2, "hold": 1}),
    "check": ({"checks": [1, 2, 3], "failed": 1}, {"checks": 3, "failed": 1}),
}  # fmt: skip


@pytest.mark.parametrize("command", SUMMARIES)
def test_headline_numbers(command):
    summary, expected = SUMMARIES[command]
    found = multirun.HEADLINES[command](summary)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_of_a_sweep_tells_what_was_swept_and_breaks_no_heading_within_a_word(
    tmp_path, width, monkeypatch, capsys
):
    """Every part that fits the page has the swept values; of two drifts it is that of the swept group size."""
    monkeypatch.setattr(report, "page_width", lambda: width)
    runs = [multirun.MultirunJob(f"g{size}", {"group_size": str(size), "optimizer": "nesterov"}) for size in (8, 64)]
    for job in runs:
        drifts = ["G = infinity", f"G = {job.values['group_size']}"]
        rows = [
            {"drift": one, "exact": 123.45678, "leading_order": 1.2345, "relative_error": 1.2345e-5} for one in drifts
        ]
        folder = tmp_path / job.name
        folder.mkdir()
        stiffness = {"rows": [{"drift": one, "hessian": [0.12345]} for one in drifts]}
        summary = {"boundary": "learning_rate", "drift": drifts, "threshold": rows, "stiffness": stiffness}
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "manifest.json").write_text("{}")
    multirun.finish("sweep", tmp_path, runs)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    parts = printed.split("2 runs of sweep")[1:]
    for part in parts:
        assert all(re.search(rf"^ {size} +nesterov", part, re.MULTILINE) for size in (8, 64))
    heads = [re.split(r"^ ─+ *$", part, flags=re.MULTILINE)[0].partition("multirun.csv")[2] for part in parts]
    words = {word for key in multirun._row("sweep", tmp_path / "g8", runs[0]) for word in key.split()}
    assert {word for head in heads for word in head.split()} == words - {"folder", "state"}
    assert "G = infinity" not in printed


def test_a_long_value_is_cut_and_does_not_take_its_column_from_the_table(tmp_path, capsys):
    """Two lists of rewards whose middles differ by length alone: both columns are first, on paper and in the file."""
    swept = [{"bandit.rewards": f"[{'0.123456789,' * size}0.{size}]", "seed": "1"} for size in (5, 6)]
    jobs = [multirun.MultirunJob(f"run_{place}", values) for place, values in enumerate(swept)]
    multirun.finish("check", tmp_path, jobs)
    lines = capsys.readouterr().out.splitlines()
    head = next(line for line in lines if "seed" in line).split()
    assert head[:2] == ["bandit.rewards", "seed"]
    shown = [line.split()[0] for line in lines if line.startswith(" [0.")]
    assert [(one[:5], one[-5:], "…" in one) for one in shown] == [("[0.12", ",0.5]", True), ("[0.12", ",0.6]", True)]
    table = (tmp_path / "multirun.csv").read_text().splitlines()[1]
    assert table.startswith("bandit.rewards,seed,folder,state")
    assert multirun.jobs_in(tmp_path) == jobs


def test_a_table_whose_first_column_is_the_folder_is_still_read(tmp_path):
    """As it was written before the swept values came first."""
    (tmp_path / "multirun.csv").write_text("# bandit_lab check -m\nfolder,seed,state,checks\na,1,done,3\n")
    assert multirun.jobs_in(tmp_path) == [multirun.MultirunJob("a", {"seed": "1"})]


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
