"""`grpo-clinic` from a log to its first screen, a page, JSON; one line for every kind of mistake."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from grpo_clinic import __version__
from grpo_clinic.__main__ import BAD_INPUT, main

STEP = np.arange(1, 81)
NOISE = 0.02 * np.random.default_rng(0).normal(size=STEP.size)
FALLS = np.where(STEP < 40, 0.2 + 0.6 * (1 - np.exp(-STEP / 10)), 0.05) + NOISE
RISES = 0.2 + 0.6 * (1 - np.exp(-STEP / 20)) + NOISE


@pytest.fixture(autouse=True)
def _logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, reward in (("falls", FALLS), ("rises", RISES)):
        rows = ({"step": int(n), "reward": float(r)} for n, r in zip(STEP, reward, strict=True))
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_the_first_screen_begins_with_the_outcome_and_is_short(capsys):
    assert main(["diagnose", "falls.jsonl"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("falls, 80 rewards: fell")
    assert len(shown) <= 8
    assert main(["diagnose", "falls.jsonl", "-v"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(shown)


def test_many_logs_are_a_row_each_and_a_page_needs_no_network(capsys):
    assert main(["diagnose", "falls.jsonl", "rises.jsonl", "--json", "rows.json", "--page", "out/page.html"]) == 0
    rows = {row["log"]: row for row in json.loads(Path("rows.json").read_text())}
    assert "collapsed" in rows["falls"]["verdict"]
    assert "collapsed" not in rows["rises"]["verdict"]
    page = Path("out/page.html").read_text()
    assert page.count("<svg") == 2
    assert "http" not in page
    assert "src=" not in page


def test_the_law_of_a_rise_is_found_with_its_numbers(capsys):
    assert main(["fit", "rises.jsonl", "--level", "0.99", "--json", "fit.json", "--page", "fit.html"]) == 0
    (row,) = json.loads(Path("fit.json").read_text())
    laws = row["models"]
    assert laws["single_exponential"]["aicc"] < laws["constant"]["aicc"]
    plateau = row["parameters"]["plateau"]
    assert plateau["low"] < 0.8 < plateau["high"]
    assert "rewards:" in capsys.readouterr().out


def test_a_log_that_grows_is_judged_again(capsys):
    assert main(["watch", "falls.jsonl", "--seconds", "0.1", "--every", "0.05", "--page", "page.html"]) == 0
    assert "collapsed" in capsys.readouterr().out
    assert Path("page.html").is_file()


def test_a_reader_and_a_rule_of_ones_own(capsys):
    Path("mine.py").write_text(
        "from grpo_clinic.rules import Fact, register_rule\n"
        "from grpo_clinic.readers import LogTable, Parsed, register_reader\n\n"
        "@register_reader('book')\n"
        "class Book:\n"
        "    def owns(self, path, start):\n"
        "        return start.startswith(b'#book')\n\n"
        "    def read(self, path, options):\n"
        "        table = LogTable()\n"
        "        for n, line in enumerate(path.read_text().splitlines()[1:]):\n"
        "            table.add({'step': n, 'reward': float(line)})\n"
        "        return Parsed('book', {'': table})\n\n"
        "@register_rule('too_good', verdict='too_good', needs=('reward',), limit=0.9, unit='reward',\n"
        "               formula='max', source='ours', proves='nothing is that good')\n"
        "def too_good(case, rule):\n"
        "    best = float(case.reward.max())\n"
        "    return Fact(best / rule.limit, best, (0.0, 9.0), 1, 'near 1')\n"
    )
    Path("run.book").write_text("#book\n" + "\n".join(f"{0.05 * n}" for n in range(20)))
    assert main(["diagnose", "run.book", "--plugin", "mine", "--json", "rows.json"]) == 0
    (row,) = json.loads(Path("rows.json").read_text())
    assert row["n_points"] == 20
    assert "too_good" in row["verdict"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["diagnose"], "paths: expected logs"),
        (["diagnose", "gone.jsonl"], "paths: gone.jsonl: expected a readable file or folder"),
        (["diagnose", "falls.jsonl", "--config", "gone.yaml"], "gone.yaml"),
        (["diagnose", "falls.jsonl", "--group-size", "0"], "group_size: expected an integer >= 1, got 0"),
        (["diagnose", "falls.jsonl", "--plugin", "gone"], "plugin: expected a module that can be imported"),
        (["fit", "falls.jsonl", "--level", "2"], "level: expected a number in [0.5, 0.99], got 2.0"),
        (["watch", "falls.jsonl", "rises.jsonl"], "paths: expected one log or folder"),
    ],
)
def test_a_mistake_is_one_line(given, line, capsys):
    assert main(given) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert line in error


def test_an_unknown_option_is_one_line_too(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["diagnose", "falls.jsonl", "--gruop-size", "8"])
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert __version__ in capsys.readouterr().out


PAGE = Path(__file__).parents[3] / "docs" / "real_runs.md"


@pytest.mark.parametrize(("name", "log"), [("rambling", "step,reward,completion_length"), ("ledger", "LEDGER 1")])
def test_the_examples_of_the_page_work(name, log):
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if f'"{name}"' in one]
    Path(f"{name}.py").write_text(code)
    rows = (f"{i},{0.4 + 0.01 * (i % 3)},{100 + 10 * i}" if name == "rambling" else f"{i}|0.5" for i in range(1, 41))
    Path(f"run.{name}").write_text("\n".join([log, *rows]))
    assert main(["diagnose", f"run.{name}", "--plugin", name, "--json", "rows.json"]) == 0
    (row,) = json.loads(Path("rows.json").read_text())
    assert row["n_points"] == 40
    assert ("rambling" in row["verdict"]) == (name == "rambling")
