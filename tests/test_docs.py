"""The documentation: links lead somewhere, notebooks are clean, what pages show is what their code prints."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs/_site"
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [*(ROOT / "docs").rglob("*.md")]
)
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MADE = ROOT / "docs/assets/map.html"
"""What the site's build makes."""


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as renderers of Markdown make them."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken(page: Path, text: str) -> list[str]:
    """Links of a page to files and headings of this repository that are not there."""
    wrong = []
    for link in LINK.findall(FENCE.sub("", text)):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        known = there.exists() or there == MADE
        if known and anchor and there.suffix == ".md":
            known = anchor in anchors(there.read_text(encoding="utf-8"))
        wrong += [] if known else [link]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    assert broken(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found():
    text = "# A b\n[here](#a-b) [no](#c) [file](docs/faq.md) [none](docs/no.md) [web](https://x.org/y)"
    assert broken(ROOT / "README.md", text.replace("#a-b", "README.md#two-commands")) == ["#c", "docs/no.md"]


@pytest.fixture
def notebooks(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    import notebooks

    return notebooks


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_with_what_their_code_showed(path, notebooks):
    """All cells in one go, no error, by the code that is there; the site's build compares it with a new run."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["cells"][0]["source"][0].startswith("# ")
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    assert stored["metadata"][notebooks.CODE] == notebooks.code_of(stored), "make notebooks"
    assert path.stat().st_size < 600_000


def test_a_notebook_that_shows_something_else_is_found(notebooks):
    """Planted: another word, another number; another temporary path and another last digit are none."""

    def shown(text):
        return {"cells": [{"cell_type": "code", "source": ["f()"], "outputs": [{"text": [text]}]}]}

    before = shown("stable: 0.23342895, /tmp/abc/run.json")
    assert notebooks.same(before, shown("stable: 0.23342896, /tmp/xyz1/run.json"))
    assert not notebooks.same(before, shown("unstable: 0.23342895, /tmp/abc/run.json"))
    assert not notebooks.same(before, shown("stable: 0.234, /tmp/abc/run.json"))


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    import shown

    return shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if 'python exec="on"' in page.read_text()], ids=lambda p: p.stem
)
def test_what_is_stored_below_a_block_is_what_it_prints(page, shown, notebooks):
    """Words as they are, numbers to 1e-3."""
    text = page.read_text(encoding="utf-8")
    both = ({"cells": [{"outputs": [{"text": one}]}]} for one in (text, shown.stored(text)))
    assert notebooks.same(*both), "python docs/_site/shown.py"
