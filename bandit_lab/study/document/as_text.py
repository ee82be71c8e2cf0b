"""A document on the terminal."""

from typing import TYPE_CHECKING, Any

from bandit_lab.study.document.document import Column, Document, On, Paragraph, Table
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.report import literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

_LONG = 14  # a word that may be broken
_BETWEEN = 3  # characters between columns


def show(document: Document) -> None:
    """Print lines and tables on stdout, in the order of the sections."""
    parts: list[Text | RichTable] = []
    for blocks in document.blocks(On.TERMINAL).values():
        for block in blocks:
            if isinstance(block, Paragraph):
                parts.append(literal(block.text, block.wrap))
            elif isinstance(block, Table):
                parts += rich_tables(block)
    report.show(*parts)


def rich_tables(table: Table[Any]) -> "list[RichTable]":
    """The table for rich: in parts that fit the page, each with the first column, unless its rows may be cut."""
    columns, width = table.shown(On.TERMINAL), report.page_width()
    least = {} if table.narrow else {column.key: _least_width(table, column) for column in columns}
    parts: list[list[Column[Any]]] = [[]]
    for column in columns:
        grown = [*parts[-1], column]
        if table.narrow or len(grown) <= 2 or sum(least[each.key] for each in grown) <= width:
            parts[-1] = grown
        else:
            parts.append([columns[0], column])
    return [_drawn(table, part) for part in parts]


def _least_width(table: Table[Any], column: Column[Any]) -> int:
    """Characters that a column takes if no number is broken; long words may be."""
    cells = [column.head(), *(column.cell(row) for row in table.rows)]
    longest = max((len(word) for cell in cells for word in cell.split()), default=0)
    return max(column.width or 0, min(longest, _LONG)) + _BETWEEN


def _drawn(table: Table[Any], columns: list[Column[Any]]) -> "RichTable":
    """Some columns; cells are text as it stands."""
    made = report.new_table(table.title, *(column.head(table.narrow) for column in columns))
    for row in table.rows:
        made.add_row(*(column.cell(row, table.narrow) for column in columns))
    for column, drawn in zip(columns, made.columns, strict=True):
        drawn.no_wrap = table.narrow or column.width is not None  # rich breaks a column in spite of its least width
        drawn.min_width = column.width
        if column.left:
            drawn.justify = "left"
    return made
