"""Commands that are shown can be typed as they stand: zsh and bash read [..], {..}, *, ? and the like where nothing
quotes them (zsh refuses an unquoted plugins=[x]: no matches found)."""

import re
import subprocess
from pathlib import Path

import pytest

from bandit_lab.app.settings.config import SCHEMAS
from bandit_lab.app.settings.schema import setting_fields
from bandit_lab.app.terminal.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
SPECIAL = re.compile(r"[\[\]{}*?$;&|()<>~`\\]")
QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
PLACE = re.compile(r"<(?:date|command|run|time)>")


def pages() -> dict[str, str]:
    """Every text that a reader may copy a command from: pages, comments of settings, sources with their help texts."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    files = [Path(name) for name in listed] or [p.relative_to(ROOT) for p in ROOT.rglob("*")]
    kept = [
        f
        for f in files
        if f.suffix in (".md", ".py", ".yaml", ".html") and f.parts[0] not in ("tests", "figures", "CHANGELOG.md")
    ]
    assert len(kept) > 100
    return {str(f): (ROOT / f).read_text(encoding="utf-8") for f in kept if (ROOT / f).is_file()}


def unquoted_lists(text: str) -> list[str]:
    """Settings with a list or a mapping outside quotes that a shell would read: `key=[` and `key={`."""
    return re.findall(r"(?<!['\"\w.])(?:plugins|sweep\.\w+|bandit\.\w+|sizes|rewards|models)=[\[{][^\s]*", text)


def commands(text: str) -> list[str]:
    """What is shown to be typed after `python -m bandit_lab`, without the comment behind it."""
    found = re.findall(
        r"(?:^    (?:\S*/)?|`)python -m bandit_lab ([^\n`]*)", re.sub(r"\\\n\s*", "", text), re.MULTILINE
    )
    return [re.sub(r"\s#.*", "", one) for one in found]


def test_what_is_looked_for_is_found():
    assert unquoted_lists("run plugins=[a] or 'plugins=[b]' or x sweep.momentum={num: 3}") == [
        "plugins=[a]",
        "sweep.momentum={num:",
    ]
    assert commands("    python -m bandit_lab sweep a=[1]   # why [x]\nsee `python -m bandit_lab fit 'b=[2]'`") == [
        "sweep a=[1]  ",
        "fit 'b=[2]'",
    ]


@pytest.mark.parametrize("page", sorted(name for name in pages() if name.endswith((".md", ".html"))))
def test_lists_in_pages_are_quoted(page):
    assert unquoted_lists(pages()[page]) == []


def test_plugins_are_quoted_in_every_source_and_help_text():
    wrong = {name: found for name, text in pages().items() if (found := re.findall(r"(?<!['\w])plugins=\[.*", text))}
    assert wrong == {}
    shown = [text for one in COMMANDS.values() for text in (one.notes, one.example)]
    shown += [entry.metadata["help"] for schema in SCHEMAS.values() for _, entry in setting_fields(schema)]
    assert [text for text in shown if unquoted_lists(text)] == []


def test_every_command_that_is_shown_is_one_that_a_shell_reads_as_it_stands():
    shown = [(name, line) for name, text in pages().items() if name.endswith(".md") for line in commands(text)]
    shown += [(name, one.example.removeprefix("python -m bandit_lab ")) for name, one in COMMANDS.items()]
    assert len(shown) > 40
    bare = [(name, line, PLACE.sub("", QUOTED.sub("", line))) for name, line in shown]
    assert [(name, line) for name, line, rest in bare if SPECIAL.search(rest)] == []
