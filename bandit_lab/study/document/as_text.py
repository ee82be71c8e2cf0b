"""A document on the terminal."""

from typing import TYPE_CHECKING, Any

from bandit_lab.study.document.document import Document, On, Paragraph, Table
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.report import literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text


def show(document: Document) -> None:
    """Print lines and tables on stdout, in the order of the sections."""
    parts: list[Text | RichTable] = []
    for blocks in document.blocks(On.TERMINAL).values():
        for block in blocks:
            if isinstance(block, Paragraph):
                parts.append(literal(block.text, block.wrap))
            elif isinstance(block, Table):
                parts.append(rich_table(block))
    report.show(*parts)


def rich_table(table: Table[Any]) -> "RichTable":
    """The table for rich; cells are text as it stands."""
    columns = table.shown(On.TERMINAL)
    made = report.new_table(table.title, *(column.head(table.narrow) for column in columns))
    for row in table.rows:
        made.add_row(*(column.cell(row, table.narrow) for column in columns))
    for column, drawn in zip(columns, made.columns, strict=True):
        drawn.no_wrap = table.narrow
        drawn.min_width = column.width
        if column.left:
            drawn.justify = "left"
    return made
