"""Commands of README: each is good input in an empty folder, and they run one after the other."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import composing
import pytest

from bandit_lab.app import plugins, runner

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
LINE = re.compile(r"^    (?:python -m bandit_lab|bandit-lab) ?(.*?)(?:\s+#.*)?$", re.MULTILINE)
COMMANDS = [words for line in LINE.findall(TEXT) if "..." not in line and (words := shlex.split(line))]
LONG = ("reproduce", "check")
"""Minutes, or without an end."""


def not_composed(words: list[str]) -> bool:
    """Help, a folder or a file that is read, a plug-in of the page."""
    read = [one for one in words[1:] if words[0] == "explore" and "=" not in one]
    return bool(words[0].startswith("-") or "--help" in words or read or any("path/to/" in one for one in words))


@pytest.mark.parametrize("words", [words for words in COMMANDS if not not_composed(words)], ids=" ".join)
def test_a_command_of_the_readme_is_good_input(words, tmp_path, monkeypatch):
    """Composed by Hydra and checked, not run; the first value of a list stands for all."""
    monkeypatch.chdir(tmp_path)
    plugins.load([])
    asked = [
        re.sub(r"^(\w+=\w+),.*$", r"\1", one)
        for one in words[1:]
        if one != "-m" and not re.match(r"plugins=|bandit(=one_logit|\.sharpness)", one)
    ]
    runner.checked(words[0], *composing.settings(words[0], *asked), Path("new"))


@pytest.mark.nightly
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path):
    """As they are written, in an empty folder with the page's own bandit; then its Python."""
    functions, one_logit = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "one_logit.py").write_text(one_logit, encoding="utf-8")
    run = [words for words in COMMANDS if words[0] not in LONG and not any("path/to/" in one for one in words)]
    assert len(run) >= 5
    (opened,) = re.findall(r"`(xarray\.open_zarr\([^`]*)`", TEXT)
    blocks = [["-c", functions], ["-c", f"import xarray\n{opened}.threshold_measured"]]
    for words in [*(["-m", "bandit_lab", *words, *["open=false"] * (words[0] == "explore")] for words in run), *blocks]:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
