"""The documentation: links lead somewhere, notebooks are clean, the site is built strictly and asks no network."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.metadata import version
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


def test_the_site_leaves_out_what_is_stored_below_a_block(shown):
    page = 'a\n\n```python exec="on" session="s"\nx = 2\nprint(x)\n```\n\n'
    page += '```python exec="on" session="s"\nprint(x + 1)\n```\nb\n'
    kept = shown.stored(page)
    assert re.findall(r"<!-- shown -->\n(.*?)\n<!-- end -->", kept) == ["2", "3"]
    assert shown.without(kept) == page
    assert shown.stored(kept) == kept
    assert "41 lines, which the site has" in shown.stored(page.replace("print(x)", "print('y\\n' * 41)"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if 'python exec="on"' in page.read_text()], ids=lambda p: p.stem
)
def test_what_is_stored_below_a_block_is_what_it_prints(page, shown, notebooks):
    """Words as they are, numbers to 1e-3."""
    text = page.read_text(encoding="utf-8")
    both = ({"cells": [{"outputs": [{"text": one}]}]} for one in (text, shown.stored(text)))
    assert notebooks.same(*both), "python docs/_site/shown.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_python_can_be_parsed(page):
    for code in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        compile(code, page.name, "exec")


@pytest.fixture
def hooks(monkeypatch):
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    pytest.importorskip("latex2mathml", reason="needs the extra `docs`")
    monkeypatch.syspath_prepend(str(SITE))
    import hooks

    return hooks


def test_links_that_leave_the_pages_are_led_to_what_the_site_has(hooks):
    assert hooks.relinked("../figures/x.png", "index.md") == "figures/x.png"
    assert hooks.relinked("../../figures/claims.md", "theory/noise.md") == "../experiments/claims.md"
    assert hooks.relinked("../../experiments/adam.py", "theory/adam.md") == "../experiments/adam.md"
    assert hooks.relinked("noise.md", "theory/adam.md") == "noise.md"
    assert hooks.relinked("notebooks/1_first_steps.ipynb", "index.md") == "notebooks/1_first_steps.md"
    assert hooks.relinked("https://x.org/y", "index.md") == "https://x.org/y"


def test_names_in_tables_break_where_words_end_and_the_search_has_a_name(hooks):
    """Nowhere else: a line of code in a text is left alone. Also of the page for an address that is not there."""
    search = '<div data-md-component="search" role="dialog"></div>'
    page = f"{search}<table><td><code>a.b_c=d</code> e.f</td></table><p><code>a.b</code></p>"
    shown = hooks.on_post_page(page, None, None)
    named = search.replace("></div>", ' aria-label="Search"></div>')
    assert shown == page.replace(search, named).replace("a.b_c=d", "a.<wbr>b_<wbr>c=<wbr>d")
    assert hooks.on_post_template(search, "404.html", None) == named


def test_formulas_become_mathml_and_what_cannot_is_a_warning(hooks, caplog):
    shown = hooks.as_mathml(r"a &lt; \frac{1}{2}", True, "page.md")
    assert shown.startswith('<div class="formula"><math')
    assert "<mfrac>" in shown
    assert not caplog.records
    hooks.as_mathml(r"\frac{1}{", False, "page.md")
    hooks.as_mathml(r"\nonsense x", False, "page.md")  # the converter leaves it as it stands
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_every_page_of_the_theory_has_a_picture_and_each_is_what_its_code_draws(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    import pictures

    pages = [ROOT / "docs/how_stale.md", *sorted((ROOT / "docs/theory").glob("*.md"))]
    assert [page.name for page in pages if "![" not in page.read_text(encoding="utf-8")] == []
    shown = {name for page in pages for name in re.findall(r"pictures/(\w+)\.svg", page.read_text(encoding="utf-8"))}
    assert shown == set(pictures.DRAWN) == {path.stem for path in pictures.FOLDER.glob("*.svg")}
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    if f"matplotlib=={version('matplotlib')}\n" not in lock:
        pytest.skip("other releases of matplotlib than the locked one lay letters out otherwise")
    for name in pictures.DRAWN:
        both = (pictures.svg(name), (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
        drawn, kept = (NAME.sub("", text) for text in both)
        again = f"{name}: python docs/_site/pictures.py"
        assert NUMBER.sub("", drawn) == NUMBER.sub("", kept), again
        here, there = ([float(one) for one in NUMBER.findall(text)] for text in (drawn, kept))
        assert here == pytest.approx(there, abs=0.05), (
            again
        )  # points of a page 331 wide: machines differ in the last bits


NAME = re.compile(r"\bp[0-9a-f]{10}\b")
"""Of a clipped area in an SVG: a hash of numbers whose last bits differ between machines."""
NUMBER = re.compile(r"\d+\.\d+")


class Asked(HTMLParser):
    """Addresses that a browser asks for without a click, and all that a page leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        loads = tag in ("script", "img", "iframe", "source") or (tag == "link" and found.get("rel") != "canonical")
        self.addresses += [found.get("src") or found.get("srcset") or found.get("href") or ""] if loads else []
        self.links += [found[key] for key in ("src", "srcset", "href") if found.get(key)]


def build(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`make docs` into another folder."""
    for needed in ("mkdocs", "material", "mkdocstrings", "markdown_exec", "latex2mathml", "nbclient", "nbconvert"):
        pytest.importorskip(needed, reason="needs the extra `docs`")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_broken_links_and_failing_examples_end_the_build(tmp_path):
    """Planted: one of each, in a site of one page with the same settings."""
    (tmp_path / "docs").mkdir()
    config = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nhooks: []\nnav: [index.md]\n"
    (tmp_path / "mkdocs.yml").write_text(config)
    page = '# A page\n\n[here](#a-page)\n\n```python exec="on"\nprint(1 / 2)\n```\n'
    for text, stated in (
        (page, None),
        (page.replace("#a-page", "#no-page"), "no-page"),
        (page.replace("#a-page", "none.md"), "none.md"),
        (page.replace("/ 2", "/ 0"), "ZeroDivisionError"),
    ):
        (tmp_path / "docs/index.md").write_text(text)
        done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
        assert (done.returncode == 0) == (stated is None), done.stderr
        assert stated is None or stated in done.stderr


@pytest.mark.nightly
def test_the_site_is_built_and_asks_no_network(tmp_path):
    """Every experiment and notebook has its page, every link of every page leads to a file, nothing is loaded."""
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    claims = json.loads((ROOT / "figures/claims.json").read_text(encoding="utf-8"))
    expected = [f"experiments/{name}.html" for name in claims["figures"]]
    expected += [f"notebooks/{path.stem}.html" for path in NOTEBOOKS] + ["assets/map.html", "index.html"]
    assert [name for name in expected if not (tmp_path / name).is_file()] == []
    for page in set(tmp_path.rglob("*.html")) - {tmp_path / "404.html"}:  # its links are from the top of a server
        text = page.read_text(encoding="utf-8")
        asked = Asked()
        asked.feed(text)
        assert [one for one in asked.addresses if one.startswith(("http", "//"))] == [], page
        inside = {link.partition("#")[0].partition("?")[0] for link in asked.links if ":" not in link}
        assert [link for link in inside if link and not (page.parent / link).is_file()] == [], page
        assert 'class="arithmatex"' not in text, page
        assert "Traceback (most recent call last)" not in text, page
    assert "data:image/png" not in (tmp_path / "notebooks/1_first_steps.html").read_text(encoding="utf-8")
    assert "stable: eta is" in (tmp_path / "notebooks/1_first_steps.html").read_text(encoding="utf-8")
    assert list((tmp_path / "notebooks/1_first_steps_files").glob("*.png"))
