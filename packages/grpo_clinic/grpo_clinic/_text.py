"""Text written by others, made fit to be shown: names, columns and messages of logs, of files, of configurations."""

import unicodedata


def visible(text: str) -> str:
    r"""`text` on one line, with every character that is not plainly printed as its escape: `\x1b`, `\n`, `\udcff`.

    So no text can move the cursor, hide others or turn the direction of writing, and none is lost: names that are not
    UTF-8 (half surrogates, as the system hands them over) can be encoded and stay different from each other.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)
