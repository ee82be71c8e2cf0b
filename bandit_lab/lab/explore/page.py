"""The page's source, put together into one file.

The source is plain: ES modules, a style sheet, a template. Node reads every module as it stands, which is how they are
tested. A browser refuses modules from `file://`. So they are joined here, when the command is called: each becomes a
function that returns what it exports, after those that it imports from.
"""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "page"
LIBRARY = "d3.min.js"
MAIN = "main"
HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="bandit_lab explore">
"""
"""How the page begins."""
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


def page(given: dict[str, Any]) -> str:
    """The whole page as HTML. given: `start`, the setting, and what is laid into the map (`run`, `sweep`), or None."""
    data = json.dumps(given, allow_nan=False).replace("<", "\\u003c")  # no `</script>` of a log's name ends the script
    parts = {
        "STYLE": _read("style.css"),
        "GIVEN": data,
        "LIBRARY": _read(LIBRARY).replace("</script", "<\\/script"),
        "PROGRAM": program(),
    }
    return re.sub(r"/\*(STYLE|GIVEN|LIBRARY|PROGRAM)\*/", lambda match: parts[match[1]], _read("index.html"))


def program() -> str:
    """All modules as one, each after those that it imports from."""
    return "\n".join(_as_function(name) for name in _order(MAIN, []))


def _order(name: str, done: list[str]) -> list[str]:
    for _, other in _IMPORT.findall(_read(f"{name}.js")):
        if other not in done:
            _order(other, done)
    done.append(name)
    return done


def _as_function(name: str) -> str:
    source = _read(f"{name}.js")
    exported = ", ".join(found for _, found in _EXPORT.findall(source))
    inside = _EXPORT.sub(r"\1 \2", _IMPORT.sub(r"const \1 = from_\2;", source))
    return f"const from_{name} = (() => {{ // {name}.js\n{inside}\nreturn {{ {exported} }};\n}})();"


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")
