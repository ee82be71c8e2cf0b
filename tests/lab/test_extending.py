"""docs/extending.md: every example is taken out of the page, run by its command, and put through the short checks."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from bandit_lab.app import plugins
from bandit_lab.app.cli import main
from bandit_lab.lab.check import CHECKS, run_check, subject_of

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"^## (?P<title>.*?)\n.*?```python\n(?P<code>.*?)```.*?^    python -m bandit_lab (?P<command>.*?)$",
    re.MULTILINE | re.DOTALL,
)
EXAMPLES = {match["title"]: (match["code"], match["command"]) for match in EXAMPLE.finditer(PAGE)}
KINDS = dict(zip(EXAMPLES, plugins.registries(), strict=True))
LONG = ("one compilation", "multipliers against", "fast path", "stiffness by", "infinite groups", "planted", "healthy")
SHORT = [name for name in CHECKS if not name.startswith(LONG)]
FEWER = ["sweep.refresh_interval=[2]", "momentum=0.5", "sweep.learning_rate.num=8", "pictures=false"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory; what is registered there is forgotten afterwards."""
    before = {kind: dict(registry._builders) for kind, registry in plugins.registries().items()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if p])
    yield tmp_path
    for kind, registry in plugins.registries().items():
        registry._builders = before[kind]


def below(heading: str) -> tuple[str, str]:
    """(code, command) of the example under a heading of the third level."""
    return EXAMPLE.search(PAGE[PAGE.index(f"### {heading}") + 1 :]).group("code", "command")


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_runs_and_keeps_the_rules(title, folder):
    code, command = EXAMPLES[title]
    assert len(code.splitlines()) <= 30
    name = re.search(r"plugins=\[(\w+)\]", command)[1]
    (folder / f"{name}.py").write_text(code)
    words = shlex.split(command)
    assert main([*words, *(FEWER if words[0] == "sweep" else []), "quiet=true", "run_dir=run"]) == 0
    results = [run_check(check, subject_of(KINDS[title], name)) for check in SHORT]
    assert [result for result in results if result.status == "FAIL"] == []
    assert sum(result.status == "pass" for result in results) >= 1
