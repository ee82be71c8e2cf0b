"""Names written by others, made fit to be shown."""


def middle_cut(text: str, length: int) -> str:
    """Printable text of at most this length: both ends of a long name, which is where names of runs differ."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    if len(plain) <= length:
        return plain
    head = length // 3
    return f"{plain[:head]}…{plain[head + 1 - length :]}"
