"""A document as a page: HTML with its pictures inside.

Names and texts are written by others: they are escaped, and characters that are not plainly printed are spelt out.
"""

import base64
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bandit_lab._text import visible
from bandit_lab.app.document.blocks import Contents, Figure, On, Paragraph

if TYPE_CHECKING:
    from jinja2 import Environment

Renderer = Callable[[Figure], bytes]
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color:#111}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}"
    "td:first-child{min-width:9em}h1{font-size:1.5em;overflow-wrap:anywhere}"
    "img{max-width:100%;height:auto}code{background:#f2f2f2;padding:0 .2em}"
    "summary{font-size:1.15em;font-weight:600;margin:.5em 0;cursor:pointer}"
    "h2{font-size:1.2em}.lead{font-size:1.15em;font-weight:600}.scroll{overflow-x:auto}:root{color-scheme:light dark}"
    "@media(max-width:40em){body{margin:1em auto}td,th{padding:.2em .4em}td:first-child{min-width:0}"
    "h1{font-size:1.3em}img{max-width:42em}}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}td,th{border-color:#444}code{background:#2a2a2a}"
    "a{color:#8ab4f8}img{filter:invert(.91) hue-rotate(180deg)}}"
)
_WIDE = " body{max-width:none}"
HEAD = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="bandit_lab">
"""
_HTML = {
    "page": HEAD
    + """\
<title>{{ document.title }}</title>
<style>{{ style }}</style></head>
<body><main><h1>{{ document.title }}</h1>
{% include "blocks" %}
</main></body></html>
""",
    "fragment": """\
<div><h3>{{ document.title }}</h3>
{% include "blocks" %}
</div>
""",
    "blocks": """\
{% for heading, blocks in sections.items() %}
{% set fold = heading in document.folded %}
{% if fold %}
<details><summary>{{ heading }}</summary>
{% elif heading and sections | length > 1 %}
<h2>{{ heading }}</h2>
{% endif %}
{% for block in blocks %}
{% if block is paragraph %}
<p{{ ' class="lead"' | safe if block.lead }}>{{ block.text }}</p>
{% elif block is figure %}
<div class="scroll" tabindex="0"><img alt="{{ block.alt }}" src="data:image/png;base64,{{ base64(block) }}"></div>
{% else %}
{% set columns = block.shown(PAGE) %}
<div class="scroll" tabindex="0"><table><tr>{% for column in columns -%}
{% if column.title %}<th>{{ column.title }}</th>{% else %}<td></td>{% endif %}
{%- endfor %}</tr>
{% for row in block.rows %}
<tr>{% for column in columns %}{% set href = column.link and column.link(row) -%}
<td>{% if href %}<a href="{{ href }}">{{ column.cell(row) }}</a>
{%- else %}{{ column.cell(row) }}{% endif %}</td>
{%- endfor %}</tr>
{% endfor %}
</table></div>
{% endif %}
{% endfor %}
{% if fold %}
</details>
{% endif %}
{% endfor %}
""",
}


def page_names(titles: list[str]) -> list[str]:
    """A file name for each title: plain letters, and different from each other."""
    names: list[str] = []
    for title in titles:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", title).strip("._")[:80] or "run"
        same = sum(name == plain or name.startswith(f"{plain}~") for name in names)
        names.append(plain if not same and plain != "index" else f"{plain}~{same + 1}")
    return names


def as_html(document: Contents, picture: Renderer = Figure.png) -> str:
    """A self-contained page without scripts; that over several pages is as wide as the window."""
    style = _STYLE + (_WIDE if document.pages else "")
    return _html("page", document, picture, style=style)


def fragment(document: Contents) -> str:
    """The same as a part of a page; of a document with a single page, that page's content follows its own."""
    own = _html("fragment", document, Figure.png)
    return own + "".join(map(fragment, document.pages.values())) if len(document.pages) == 1 else own


def _html(template: str, document: Contents, picture: Renderer, **more: Any) -> str:
    coded = lambda figure: base64.b64encode(picture(figure)).decode("ascii")  # noqa: E731
    made = _environment().get_template(template)
    return made.render(document=document, sections=document.blocks(On.PAGE), base64=coded, PAGE=On.PAGE, **more)


@functools.cache
def _environment() -> "Environment":
    from jinja2 import DictLoader, Environment, StrictUndefined

    made = Environment(
        loader=DictLoader(_HTML),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    made.tests |= {
        "paragraph": lambda block: isinstance(block, Paragraph),
        "figure": lambda block: isinstance(block, Figure),
    }
    return made


def _shown(value: Any) -> Any:
    """Text with odd characters spelt out; jinja2 escapes it."""
    return visible(value) if isinstance(value, str) else value
