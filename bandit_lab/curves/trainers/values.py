"""What the text of a configuration means: numbers, truth values, nothing."""

from typing import Any

_WORDS = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
    "null": None, "none": None, "~": None, "": None, "???": None,
}  # fmt: skip
_LONGEST = 400
LARGEST = 1e15
"""Numbers beyond it are no settings, and products of them no floats."""


def plain(value: Any) -> Any:
    """A number, truth value, None or text of at most 400 characters; what is neither becomes None."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value if abs(value) < LARGEST else None
    if not isinstance(value, str):
        return None
    text = value.strip().strip("'\"")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = as_number(text)
    return text[:_LONGEST] if number is None else number


def as_number(text: str) -> int | float | None:
    """The number that a text is (`1e-6` and `1_024` too), or None, as for one that no setting can be."""
    if len(text) > 40 or not any(c.isdigit() for c in text):
        return None
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return number if abs(number) < LARGEST else None
    return None
