"""Text written by others on its way to the terminal: names, columns, paths. Complaints take `visible` alone."""

from typing import TYPE_CHECKING, Any

from bandit_lab._text import visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def literal(text: str, wrap: bool = True) -> "Text":
    """Text for rich as it stands: `[bold]` and `:smile:` are no markup, escape sequences are shown, not obeyed."""
    from rich.text import Text

    return Text(visible(text), no_wrap=not wrap, overflow=None if wrap else "ignore")


def literal_table(title: str, **look: Any) -> "Table":
    """A table of rich in which title, heads and cells are text as it stands."""
    from rich.table import Table

    class Literal(Table):
        def add_column(self, header: Any = "", *args: Any, **kwargs: Any) -> None:
            super().add_column(_literal(header), *args, **kwargs)

        def add_row(self, *cells: Any, **kwargs: Any) -> None:
            super().add_row(*map(_literal, cells), **kwargs)

    return Literal(title=_literal(title) if title else None, **look)


def _literal(cell: Any) -> Any:
    return literal(cell) if isinstance(cell, str) else cell


def middle_cut(text: str, length: int) -> str:
    """Printable text of at most this length: both ends of a long name, which is where names of runs differ."""
    plain = visible(text)
    if len(plain) <= length:
        return plain
    head = length // 3
    return f"{plain[:head]}…{plain[head + 1 - length :]}"
