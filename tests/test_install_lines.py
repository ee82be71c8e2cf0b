"""Whoever is told to install an extra can: no index has this package, and every extra that is named exists."""

import re
import tomllib
from pathlib import Path

from bandit_lab._text import install

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"(?:pip install|installed)[^\n]*?['\"]?(\S*?)\[([a-z,]+)\]")


def test_every_install_line_names_a_clone_and_an_extra_that_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "bandit_lab").glob("**/*.py")]
    found = [(path.name, *hit) for path in files for hit in NAMED.findall(path.read_text(encoding="utf-8"))]
    assert len(found) >= 6
    for name, package, named in found:
        assert package == "." or package.startswith("jax"), (name, package)
        if package == ".":
            assert {*named.split(",")} <= {*extras}, (name, named)
    assert NAMED.findall(install("trl")) == [(".", "trl")]
