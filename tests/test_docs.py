"""What the pages of the documentation show is what their code prints."""

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if 'python exec="on"' in page.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_what_is_stored_below_a_block_is_what_it_prints(page, monkeypatch):
    """Words as they are, numbers to 1e-3."""
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    import notebooks
    import shown

    text = page.read_text(encoding="utf-8")
    both = ({"cells": [{"outputs": [{"text": one}]}]} for one in (text, shown.stored(text)))
    assert notebooks.same(*both), "python docs/_site/shown.py"
