"""One setting of a command: its default, unit and help text, from which schema, checks and help are made."""

from dataclasses import field
from typing import Any


def setting(default: Any, unit: str, text: str) -> Any:
    """A dataclass field; lists and mappings are copied for each instance."""
    metadata = {"unit": unit, "help": text}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)
