"""A document on the terminal."""

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bandit_lab.app.document.blocks import Column, Contents, On, Paragraph, Table
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.report import literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

_LONG = 14  # a word that may be broken
_BETWEEN = 3  # characters between columns


def show(document: Contents) -> None:
    """Print lines and tables on stdout, in the order of the sections."""
    parts: list[Text | RichTable] = []
    for blocks in document.blocks(On.TERMINAL).values():
        for block in blocks:
            if isinstance(block, Paragraph):
                parts.append(literal(block.text, block.wrap))
            elif isinstance(block, Table):
                parts += rich_tables(block)
    report.show(*parts)


def rich_tables(table: Table[Any], names: int = 1) -> "list[RichTable]":
    """The table, in parts that fit the page unless its rows may be cut. All have the first `names` columns."""
    columns, width = table.shown(On.TERMINAL), report.page_width()
    least = {} if table.narrow else {column.key: _least_width(table, column) for column in columns}
    parts: list[list[Column[Any]]] = [[]]
    for column in columns:
        grown = [*parts[-1], column]
        if table.narrow or len(grown) <= names + 1 or sum(least[each.key] for each in grown) <= width:
            parts[-1] = grown
        else:
            parts.append([*columns[:names], column])
    return [_drawn(table, part) for part in parts]


def _least_width(table: Table[Any], column: Column[Any]) -> int:
    """Characters that a column takes if no number is broken; long words may be."""
    cells = [column.head(), *(column.cell(row) for row in table.rows)]
    return max(column.width or 0, _longest_word(cells)) + _BETWEEN


def _longest_word(cells: Iterable[str]) -> int:
    return min(_LONG, max((len(word) for cell in cells for word in cell.split()), default=0))


def _drawn(table: Table[Any], columns: list[Column[Any]]) -> "RichTable":
    """Some columns; cells are text as it stands. Where the page is too narrow, heads are broken between words."""
    cells = {column.key: [column.cell(row, table.narrow) for row in table.rows] for column in columns}
    heads = [column.head(table.narrow) for column in columns]
    whole = [max(map(len, [head, *cells[column.key]])) + _BETWEEN for head, column in zip(heads, columns, strict=True)]
    made = report.new_table(table.title, *heads)
    for row in zip(*cells.values(), strict=True):
        made.add_row(*row)
    crowded = sum(whole) > report.page_width() and not table.narrow
    for head, column, drawn in zip(heads, columns, made.columns, strict=True):
        drawn.header = _broken(head, cells[column.key]) if crowded else literal(head)
        drawn.no_wrap = table.narrow or column.width is not None  # rich breaks a column in spite of its least width
        drawn.min_width = column.width
        if column.left:
            drawn.justify = "left"
    return made


def _broken(head: str, cells: list[str]) -> "Text":
    """A head in lines as narrow as its words and the column's cells allow: rich itself would break words."""
    from rich.text import Text

    lines = textwrap.wrap(head, max(_longest_word([head]), *map(len, cells), 1), break_long_words=False)
    return Text("\n").join(map(literal, lines))
