"""For griffe, which reads docstrings: a section `Example:` is code, as `Examples:` is."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Names the section as griffe knows it."""

    def on_instance(self, *, obj: griffe.Object, **others: Any) -> None:
        """One object of the package was read."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
