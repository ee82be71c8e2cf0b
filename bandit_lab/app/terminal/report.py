"""Short tables on stdout, and a run's settings as YAML.

Names, columns and paths are text written by others: it is shown as it stands. Complaints take `visible` alone.
"""

import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab._text import visible
from bandit_lab.app.document.as_json import plain
from bandit_lab.app.document.value import number
from bandit_lab.app.terminal.output import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

FORMS = {
    "heavy_ball": "heavy ball, v <- mu v + g",
    "ema": "EMA momentum, v <- mu v + (1 - mu) g",
    "nesterov": "Nesterov",
}


def as_yaml(settings: dict[str, Any]) -> str:
    """Settings as YAML that Hydra reads again."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(plain(settings)))


class _Page(io.StringIO):
    """Text that is laid out for stdout's encoding."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.stdout, "encoding", None) or "utf-8"


def show(*tables: "str | Text | Table") -> None:
    """Print tables, or text as it stands, on stdout; without colours where stdout is not a terminal."""
    tables = tuple(literal(table) if isinstance(table, str) else table for table in tables)
    from rich.console import Console

    page = _Page()  # rich itself would end the process where stdout is closed
    terminal = _stdout().is_terminal
    console = Console(file=page, highlight=False, force_terminal=terminal, width=page_width(), force_jupyter=False)
    for table in tables:
        whole = getattr(table, "no_wrap", None)  # rich drops it from text that it joins
        console.print(table, no_wrap=whole, overflow="ignore" if whole else None, crop=not whole)
    if tables:
        say(page.getvalue().removesuffix("\n"))


def page_width() -> int:
    """Characters of a line on stdout."""
    seen = _stdout()
    return seen.width if seen.is_terminal else 120


def _stdout() -> "Console":
    from rich.console import Console

    return Console(highlight=False, force_jupyter=False)  # in a notebook rich would show tables past stdout


def numbers(values: Any, digits: int = 4) -> str:
    """Several numbers, at most six."""
    if values is None:
        return "-"
    shown = [
        f"{v['re']:.{digits}g}{v['im']:+.{digits}g}i" if isinstance(v, dict) else number(v, digits) for v in values
    ]
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


def eigenvalue_list(values: np.ndarray) -> list[Any]:
    """Eigenvalues for JSON: numbers, or {re, im} where they are complex."""
    if np.all(np.abs(np.imag(values)) <= 1e-10 * (np.abs(values).max() + 1e-300)):
        return [float(v) + 0.0 for v in np.real(values)]
    return [{"re": float(v.real), "im": float(v.imag)} for v in values]


def new_table(title: str, *columns: str) -> "Table":
    """A plain table; every column but the first is right-aligned. Cells are text as it stands, never markup."""
    from rich.box import SIMPLE_HEAD

    table = literal_table(title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    return table


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
