"""Commands of the pages: each is good input in an empty folder, and every folder that it reads was made before."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import composing
import pytest

from bandit_lab.app import plugins, runner
from bandit_lab.app.cli import OK

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"^    (?:python -m bandit_lab|bandit-lab) ?(.*?)(?:\s+#.*)?$", re.MULTILINE)
ELSEWHERE = ROOT / "docs/beyond_one_machine.md"
"""Its lines belong to a cluster, or begin in a function of the shell."""
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ELSEWHERE})
OF_ONES_OWN = "path/to/"
"""Where a page's reader puts a file of a run that no command here makes."""
LOG = json.dumps({"log_history": [{"step": i, "reward": 0.1 * i} for i in range(9)]})


def commands(page: Path) -> list[list[str]]:
    return [shlex.split(line) for line in LINE.findall(page.read_text(encoding="utf-8")) if "..." not in line]


def made_and_read(words: list[str]) -> tuple[set[str], set[str]]:
    """(folders that a command makes, folders that it reads), of those that it names."""
    name, arguments = words[0], words[1:]
    made = {one.partition("=")[2] for one in arguments if one.startswith("run_dir=")}
    plain = {one for one in arguments if not re.search(r"[=./]|^-", one)}
    return made, plain if name == "explore" else set()


def missing(lines: list[list[str]]) -> list[str]:
    """Folders that a command reads and none before it makes."""
    there: set[str] = set()
    lacking = []
    for words in lines:
        made, read = made_and_read(words) if words else (set(), set())
        lacking += sorted(read - there)
        there |= made
    return lacking


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_folder_that_is_read_was_made_by_a_command_before(page):
    assert missing(commands(page)) == []


def test_a_folder_that_nothing_made_is_found():
    assert missing([["sweep", "run_dir=a"], ["explore", "a"], ["explore", "b"]]) == ["b"]
    assert missing([["explore", "a"], ["sweep", "run_dir=a"]]) == ["a"]


def readers_own(arguments: list[str]) -> list[Path]:
    """Files that the line names and that are its reader's, made here."""
    found = [Path(one.rpartition("=")[2]) for one in arguments if OF_ONES_OWN in one]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("num_generations: 8\n" if path.suffix == ".yaml" else LOG, encoding="utf-8")
    return found


README = [words for words in commands(ROOT / "README.md") if words]


@pytest.mark.parametrize("words", README, ids=" ".join)
def test_a_command_of_the_readme_is_good_input(words, tmp_path, monkeypatch):
    """Composed by Hydra and checked, not run; a folder that it reads is the test above, a plug-in that of the page."""
    monkeypatch.chdir(tmp_path)
    name, arguments = words[0], [one for one in words[1:] if one != "-m"]
    if name.startswith("-") or "--help" in arguments or made_and_read(words)[1]:
        return
    readers_own(arguments)
    assert [
        one
        for one in arguments
        if one.endswith((".json", ".yaml", ".log")) and not Path(one.rpartition("=")[2]).exists()
    ] == []
    plugins.load([])
    asked = [
        re.sub(r"^(\w+=\w+),.*$", r"\1", one)
        for one in arguments
        if not re.match(r"plugins=|bandit(=one_logit|\.sharpness)", one)
    ]
    runner.checked(name, *composing.settings(name, *asked), Path("new"))


LONG = ("reproduce", "check")
"""Minutes, or without an end."""


@pytest.mark.nightly
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path):
    """As they are written, in an empty folder with the page's own bandit; then its Python."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    functions, one_logit = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "one_logit.py").write_text(one_logit, encoding="utf-8")
    ran = 0
    for words in README:
        if words[0] in LONG or any(OF_ONES_OWN in one for one in words):
            continue
        asked = [*words, "open=false"] if words[0] == "explore" else words
        done = subprocess.run(
            [sys.executable, "-m", "bandit_lab", *asked], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == OK, f"{words}: {done.stderr}"
        ran += 1
    assert ran >= 5
    (opened,) = re.findall(r"`(xarray\.open_zarr\([^`]*)`", text)
    for code in (functions, f"import xarray\n{opened}.threshold_measured"):
        read = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert read.returncode == 0, read.stderr
