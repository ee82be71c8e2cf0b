"""Hooks of MkDocs: pages that are generated, links that are right in the repository and on the site, maths as MathML.

A page in docs/ is also read in the repository, so its links are those of the repository. What they reach outside of
docs/ stands elsewhere on the site, see `MOVED`.
"""

import html
import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import generated
import shown
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.hooks.bandit_lab")
ROOT = Path(__file__).resolve().parents[2]
MOVED = {
    "figures/claims.md": "experiments/claims.md",
    "experiments/README.md": "experiments/index.md",
    "README.md": "index.md",
}
"""Path in the repository: path of the page that shows the same."""
EXPERIMENT = re.compile(r"experiments/(\w+)\.py")
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[#)])")
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
MATHS = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation: generated pages for `folder/*`, and no page that is not there."""
    config.nav = list(_filled(config.nav or [], Path(config.docs_dir)))
    return config


def _filled(entries: list[Any], docs: Path) -> Iterator[Any]:
    for entry in entries:
        title, target = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        if isinstance(target, list):
            inside = list(_filled(target, docs))
            if inside:
                yield {title: inside}
        elif target.endswith("/*"):
            yield from generated.pages(target.removesuffix("/*"))
        elif (docs / target).is_file():
            yield entry
        else:
            LOG.info("%s is not there: left out of the navigation", target)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated, and the pictures and plotted numbers of figures/."""
    for path, content in generated.contents().items():
        files.append(File.generated(config, path, content=content))
    for picture in sorted([*(ROOT / "figures").glob("*.png"), *(ROOT / "figures").glob("*.csv")]):
        files.append(File.generated(config, f"figures/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links out of docs/ lead to where the site has the same; what is stored below a block is made anew by it."""
    return LINK.sub(lambda match: relinked(match[1], page.file.src_uri), shown.without(markdown))


def relinked(link: str, page: str) -> str:
    """A link of the page docs/`page` as the site needs it.

    A link within docs/ stays. One that leaves it leads to the page of `MOVED`, or to the same path below the site.
    """
    here = posixpath.dirname(posixpath.join("docs", page))
    there = posixpath.normpath(posixpath.join(here, link))
    if "://" in link:
        return link
    if there.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", link)
    moved = MOVED.get(there) or EXPERIMENT.sub(r"experiments/\1.md", there)
    return posixpath.relpath(posixpath.join("docs", moved), here)


def on_page_content(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML: every browser of today shows it, without a script."""
    return MATHS.sub(lambda match: as_mathml(match[3], match[2] == "[", page.file.src_uri), text)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """A name for the theme's search and no empty heading, for readers aloud; in tables names break where words end."""
    whole = with_named_search(output).replace("<th></th>", "<td></td>")
    return TABLE.sub(lambda table: CODE.sub(with_places_to_break, table[0]), whole)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """The page of an address that is not there is no page of the navigation, and has the theme's search too."""
    return with_named_search(output)


def with_named_search(output: str) -> str:
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def with_places_to_break(code: re.Match[str]) -> str:
    """A setting or an identifier, broken after a dot, an underscore, a slash or an equals sign in a narrow column."""
    return re.sub(r"(?<=[._=/])(?=\w)", "<wbr>", code[0])


def as_mathml(formula: str, display: bool, page: str) -> str:
    """One formula; what cannot be converted is a warning, which stops a strict build."""
    text = html.unescape(formula).strip()
    try:
        mathml = convert(text, display="block" if display else "inline")
        unknown = re.search(r"\\[a-z]+", mathml)
        error = f"{unknown[0]} is not known" if unknown else ""
    except Exception as raised:
        error = repr(raised)
    if error:
        LOG.warning("%s: formula %s: %s", page, text, error)
        return f"<code>{html.escape(text)}</code>"
    return f'<div class="formula">{mathml}</div>' if display else mathml
