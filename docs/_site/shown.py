"""What the examples of the pages print, stored below each: `python docs/_site/shown.py` writes it anew.

The site runs every block marked `exec="on"` itself and leaves out what is stored: that is for readers of the
repository, where nothing is run.
"""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1]
MOST = 50
"""Lines of an output that is stored."""
STORED = re.compile(r"\n<!-- shown -->\n.*?<!-- end -->\n", re.DOTALL)
BLOCK = re.compile(r'^```python exec="on"([^\n]*)\n(.*?)^```\n', re.MULTILINE | re.DOTALL)
SESSION = re.compile(r'session="(\w+)"')


def without(text: str) -> str:
    """A page as the site wants it."""
    return STORED.sub("", text)


def stored(text: str) -> str:
    """A page with what its blocks print, each below its block; those of one session run in one namespace."""
    sessions: dict[str, dict[str, Any]] = {}

    def block(match: re.Match[str]) -> str:
        how, code = match.groups()
        session = SESSION.search(how)
        with redirect_stdout(io.StringIO()) as printed:
            exec(code, sessions.setdefault(session[1] if session else code, {"__name__": "shown"}))
        output = "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
        count = output.count("\n") + 1
        if count > MOST:
            output = f"{count} lines, which the site has (`make docs`)."
        elif 'result="text"' in how:
            output = f"```text\n{output}\n```"
        return f"{match[0]}\n<!-- shown -->\n{output}\n<!-- end -->\n"

    return BLOCK.sub(block, without(text))


def pages() -> list[Path]:
    """The pages that have such blocks."""
    return [page for page in sorted(FOLDER.rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for one in pages():
        one.write_text(stored(one.read_text(encoding="utf-8")), encoding="utf-8")
