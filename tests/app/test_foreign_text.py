"""Text from outside on its way to people: never markup, never an escape sequence, always something UTF-8 can hold."""

import json
import os
from pathlib import Path

import pytest

from bandit_lab._text import visible
from bandit_lab.app.cli import BAD_INPUT, INCOMPLETE, OK, main
from bandit_lab.app.document import Column, Document, Figure, Paragraph, Table
from bandit_lab.app.document.as_json import strict_json
from bandit_lab.app.document.as_page import as_html

ODD = ["a[/b]", "exp[lr=1e-5]", "[bold red]x", "\x1b]0;owned\x07name", "\x9b2Jname", "two\nlines", "\udcffname", "日本"]
SOME = [ODD[0], ODD[3], ODD[6], ODD[7]]
REWARDS = [0.1 + 0.01 * step + 0.002 * (step % 3) for step in range(30)]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


def plain(text: str) -> bool:
    """Whether text is printable line by line, and UTF-8 can hold it."""
    text.encode()
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("name", ODD)
def test_pages_and_json_hold_any_name(name):
    table = Table([name], [Column("head", name, lambda row: row), Column("n", "n", lambda row: 1)], title=name)
    page = Document(name, {name: [Figure(lambda: None, name), Paragraph(name), table], "more": [table]})
    assert plain(as_html(page, lambda figure: b""))
    text = strict_json({name: name})
    text.encode()
    assert json.loads(text) == {name: name}
    assert plain(text)


def write_runs(path: str, names: list[str]) -> None:
    rows = [{"run": name, "step": i, "reward": value} for name in names for i, value in enumerate(REWARDS)]
    Path(path).write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("command", ["fit", "diagnose"])
def test_runs_with_odd_names_from_end_to_end(command, capsys):
    """Names of runs and columns, a path that is not UTF-8, and the same path in a complaint."""
    write_runs("\udcff\x1b[2J.jsonl", SOME)
    few = ["models=[sigmoid]"] if command == "fit" else ["surrogates=19"]
    assert main([command, "\udcff\x1b[2J.jsonl", "run_dir=out", *few]) == OK
    assert plain(capsys.readouterr().out)
    rows = json.loads(Path("out/summary.json").read_bytes())["logs"]
    assert [row["log"] for row in rows] == [visible(name) for name in SOME]
    assert all(os.path.exists(row["path"]) for row in rows)
    for page in Path("out/report").glob("*.*"):
        assert page.suffix == ".png" or plain(page.read_text())


@pytest.mark.parametrize("given", ["\udcff\x1b[2J.jsonl", "gone\x1b[2J", "run=\x1b]0;owned\x07"])
def test_complaints_hold_no_escape_sequence(given, capsys):
    Path("\udcff\x1b[2J.jsonl").write_text('{"step": 1, "\x1b[31mloss": 1}\n{"step": 2, "loss\\u001b[31m": 1}\n')
    assert main(["fit", "\udcff\x1b[2J.jsonl", given, "run_dir=out"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert plain(said)
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["fit", "diagnose"])
def test_one_means_that_some_logs_could_not_be_read(command, capsys):
    """Everything is written, with the reason; the command that is printed tries them again."""
    Path("logs").mkdir()
    write_runs("logs/a.jsonl", ["good"])
    Path("logs/b.jsonl").write_text("{}\n{}\n")
    options = ["run_dir=out", "report=false", "pictures=false"]
    assert main([command, "logs", *options]) == INCOMPLETE
    shown = capsys.readouterr()
    assert "1 of 2 logs gave no curve (b.jsonl)" in shown.err
    assert shown.err.strip().endswith(f"bandit_lab {command} logs {' '.join(options)} overwrite=true")
    assert "b.jsonl: no curve: expected" in " ".join(shown.out.split())
    assert "logs/b.jsonl" not in shown.out, "the file's name once"
    assert "expected" in str(json.loads(Path("out/summary.json").read_text()))
    assert Path("out/manifest.json").exists()
    Path("logs/b.jsonl").unlink()
    assert main([command, "logs", *options, "overwrite=true"]) == OK
