"""Text written by others, made fit to be shown: names, columns and messages of logs, of files, of configurations."""

import re
import unicodedata

_ODD = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""`text` on one line, with every character that is not plainly printed as its escape: `\x1b`, `\n`, `\udcff`.

    So no text can move the cursor, hide others or turn the direction of writing, and none is lost: names that are not
    UTF-8 (half surrogates, as the system hands them over) can be encoded and stay different from each other.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def install(extra: str) -> str:
    """How optional dependencies are installed: no index has this package, a clone has it."""
    return f"pip install '.[{extra}]' in a clone of the repository"


def json_visible(text: str) -> str:
    r"""JSON with the same content in which such characters, and those that UTF-8 cannot hold, stand as `\uXXXX`."""
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
