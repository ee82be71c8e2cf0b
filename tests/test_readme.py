"""The README's claims are the published ones: every row of its table against figures/claims.json."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `([\w.]+)` \| .* \| (\S+) \| (\S+) \| (yes|\*\*no\*\*) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str]]:
    """(id, predicted, measured, holds) of every row."""
    return ROW.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_is_the_published_claim(row):
    published = {c["id"]: c for c in json.loads((ROOT / "figures/claims.json").read_text(encoding="utf-8"))["claims"]}
    claim = published[row[0]]
    expected = f"{claim['predicted']:.4g}", f"{claim['measured']:.4g}", "yes" if claim["holds"] else "**no**"
    assert row[1:] == expected


def test_every_figure_has_a_row():
    figures = {c["figure"] for c in json.loads((ROOT / "figures/claims.json").read_text(encoding="utf-8"))["claims"]}
    assert {row[0].split(".")[0] for row in rows()} == figures
