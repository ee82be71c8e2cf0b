"""A document as a page to paste into an issue: HTML with its pictures inside, Markdown beside its picture.

Names and texts are written by others. HTML is escaped, Markdown loses what would be markup, and characters that are not
plainly printed are spelt out in both.
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
    "summary{font-size:1.15em;font-weight:600;margin:.5em 0;cursor:pointer}abbr{text-decoration:underline dotted}"
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
<p{{ ' class="lead"' | safe if block.lead }}>{{ block.text | explained }}</p>
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
{%- else %}{{ column.cell(row) | explained }}{% endif %}</td>
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
_MARKDOWN = """\
## {{ document.title }}

{% for heading, blocks in sections.items() %}
{% if heading %}
### {{ heading }}

{% endif %}
{% for block in blocks %}
{% if block is paragraph %}
- {{ block.text }}
{% elif block is figure %}
![{{ block.alt }}]({{ picture | safe }})
{% else %}
{% set columns = block.shown(PAGE) %}
{% if not loop.first %}

{% endif %}
| {% for column in columns %}{{ column.title }}{{ " | " | safe if not loop.last }}{% endfor %} |
|{{ " --- |" | safe * columns | length }}
{% for row in block.rows %}
| {% for column in columns %}{{ column.cell(row) }}{{ " | " | safe if not loop.last }}{% endfor %} |
{% endfor %}
{% endif %}
{% endfor %}
{% if not loop.last %}

{% endif %}
{% endfor %}
"""
MEANINGS = {
    "K_ref": "optimiser updates per batch of rollouts: how stale the policy that sampled may become",
    "kappa": "learning rate times stiffness, a number without unit: how fast one update moves what it corrects",
    "stiffness": "how strongly the gradient pulls a small displacement back: the curvature of the objective, per mode",
    "softest mode": "the direction in which the policy answers most slowly; it sets the time of the reward curve",
    "spread of stiffness": "the stiffest mode over the softest one",
    "stiff end": "the end of the interval at which the margin is smallest",
    "margin": "the factor by which learning rate or stiffness may grow before stability is lost",
    "ringing": "an oscillation that dies out",
    "response time": "how long the reward takes to follow a change, in optimiser steps",
    "silent": "all answers of the group got the same reward, so that it teaches nothing",
    "the law": "arXiv 2606.30789: stable where stiffness times learning rate times K_ref is below 1 - momentum",
    "EMA": "exponential moving average: v <- mu v + (1 - mu) g",
    "mean age": "how many updates old the policy that sampled is, on average",
}
"""Words of the field that a page explains where the pointer rests on them."""
_ANY = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in sorted(MEANINGS, key=len, reverse=True)))


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


def as_markdown(document: Contents, picture: str) -> str:
    """The same as Markdown; `picture` is the name of the file beside it."""
    made = _markdown().from_string(_MARKDOWN)
    return made.render(document=document, sections=document.blocks(On.PAGE), picture=picture, PAGE=On.PAGE)


def _html(template: str, document: Contents, picture: Renderer, **more: Any) -> str:
    coded = lambda figure: base64.b64encode(picture(figure)).decode("ascii")  # noqa: E731
    made = _environment().get_template(template)
    return made.render(document=document, sections=document.blocks(On.PAGE), base64=coded, PAGE=On.PAGE, **more)


@functools.cache
def _environment() -> "Environment":
    from jinja2 import DictLoader

    return _prepared(loader=DictLoader(_HTML), autoescape=True, finalize=_shown)


@functools.cache
def _markdown() -> "Environment":
    return _prepared(autoescape=False, finalize=_plain)


def _prepared(**options: Any) -> "Environment":
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined, **options
    )
    made.tests |= {"paragraph": lambda block: isinstance(block, Paragraph)}
    made.filters["explained"] = _explained
    made.tests |= {"figure": lambda block: isinstance(block, Figure)}
    return made


def _shown(value: Any) -> Any:
    """Text with odd characters spelt out; jinja2 escapes it."""
    return visible(value) if isinstance(value, str) else value


def _explained(value: Any) -> Any:
    """Text as `_shown` has it, escaped, with the words that have a meaning in the glossary."""
    from markupsafe import Markup, escape

    return Markup(explained(str(escape(_shown(value))))) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """Text without line breaks, in which no character is markup, a mention or a reference."""
    from markupsafe import Markup

    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    one_line = visible(" ".join(value.split()))
    return re.sub(r"([\\`*_{}\[\]<>|#!~$])", r"\\\1", one_line).replace("@", "@\u200b")


def explained(escaped: str) -> str:
    """Escaped text of a page with each known word, the first time it stands there, in an `abbr` with its meaning."""
    met: set[str] = set()

    def marked(match: re.Match[str]) -> str:
        word = match[0]
        if word in met:
            return word
        met.add(word)
        return f'<abbr title="{MEANINGS[word].replace("<", "&lt;")}">{word}</abbr>'

    return _ANY.sub(marked, escaped)
