"""The page of walks against the code: files that exist and lead to each other, and what they hand on."""

import re
from pathlib import Path

import pytest

from bandit_lab.study.terminal.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "walks.md").read_text(encoding="utf-8")
WALKS = {"sweep": (12, 12), "fit": (8, 8)}
"""Command -> how many files, and how many kinds of containers, a value may pass at most."""


def walk(command):
    """(file, what happens, what is handed on) of every row of a command's table."""
    section = next(part for part in PAGE.split("\n## ")[1:] if f"`{command}`" in part.split("\n")[0])
    return re.findall(r"^\| `(\S+\.py)` \| (.*) \| (.*) \|$", section, re.MULTILINE)


def names(text):
    return re.findall(r"`(\w+)`", text)


def leads_to(source, file):
    """Whether a file's text imports another one, something out of it, or something that its room has from there."""
    module = f"bandit_lab/{file.removesuffix('.py')}".replace("/", ".")
    room, name = module.rsplit(".", 1)
    shared = module in (ROOT / "bandit_lab" / file).with_name("__init__.py").read_text(encoding="utf-8")
    ways = [module, rf"from {room} import .*\b{name}", *([f"from {room} import"] if shared else [])]
    return any(re.search(rf"\b{way}\b", source) for way in ways)


@pytest.mark.parametrize("command", WALKS)
def test_a_walk_is_short_and_each_of_its_files_is_reached_from_another(command):
    rows = walk(command)
    most_files, most_containers = WALKS[command]
    assert 2 < len(rows) <= most_files
    assert 2 < len({name for *_, handed in rows for name in names(handed)}) <= most_containers
    sources = {file: (ROOT / "bandit_lab" / file).read_text(encoding="utf-8") for file, *_ in rows}
    for file, happens, handed in rows:
        others = "".join(text for other, text in sources.items() if other != file) + COMMANDS[command].module
        assert file == "study/cli.py" or leads_to(others, file), file
        assert all(re.search(rf"\b{name}\b", sources[file]) for name in names(handed)), (file, handed)
        for other in re.findall(r"`([\w/]+\.py)`", happens):
            rooms = ("", "study", "study/document")
            assert any((ROOT / "bandit_lab" / room / other).is_file() for room in rooms), other


def test_a_file_or_a_container_that_is_gone_would_be_found():
    """Planted: another file's name leads nowhere, another container stands in no file."""
    source = (ROOT / "bandit_lab" / "study/fit/command.py").read_text(encoding="utf-8")
    assert leads_to(source, "study/fit/work.py")
    assert not leads_to(source, "study/fit/engine.py")
    assert not re.search(r"\bPlan\b", source)
