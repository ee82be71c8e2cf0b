"""Blocks of a result: lines, values, tables and pictures, and what holds them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from bandit_lab.app.document.value import Value, text_of

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure as Drawn

Row = TypeVar("Row")


class On(Flag):
    """Where a block or a column appears."""

    JSON = auto()
    TERMINAL = auto()
    PAGE = auto()
    DATA = auto()
    SHOWN = TERMINAL | PAGE
    ALL = JSON | TERMINAL | PAGE | DATA


class _Absent:
    """The cell of a row without a value: no key in its JSON, a dash where it is shown."""


ABSENT: Final = _Absent()


@dataclass(frozen=True)
class Paragraph:
    """A line of text; on the terminal it is not broken where `wrap` is false. `lead`: what a page says first of all."""

    text: str
    on: On = On.SHOWN
    wrap: bool = True
    lead: bool = False


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of a table: how its value is read off a row, and how that is shown.

    `read` returns a `Value`, a plain value, or ABSENT. `text` words a value that is there; without it numbers have
    `digits` significant digits. `link` makes the cell of a page lead to a file beside it. In a narrow table `brief` is
    the head and `short` words the value. `unit` goes into the data set and the frame, else that of the values.
    """

    key: str
    title: str
    read: Callable[[Row], Any]
    unit: str = ""
    digits: int = 4
    on: On = On.ALL
    text: Callable[[Row], str] | None = None
    short: Callable[[Row], str] | None = None
    brief: str = ""
    link: Callable[[Row], str] | None = None
    left: bool = False
    width: int | None = None

    def cell(self, row: Row, narrow: bool = False) -> str:
        """The cell's text for a reader."""
        value = self.read(row)
        if value is None or value is ABSENT or (isinstance(value, Value) and value.value is None):
            return "-"
        word = self.short if narrow and self.short is not None else self.text
        return text_of(value, self.digits) if word is None else word(row)

    def head(self, narrow: bool = False) -> str:
        """The title above it."""
        return self.brief if narrow and self.brief else self.title


@dataclass(frozen=True)
class Table(Generic[Row]):
    """Rows and what is told of each. `narrow`: on the terminal every row stands on one line, cut where needed.

    `name` is its key in JSON where its section holds more than this table.
    """

    rows: Sequence[Row]
    columns: Sequence[Column[Row]]
    name: str = ""
    title: str = ""
    on: On = On.ALL
    narrow: bool = False

    def shown(self, where: On) -> list[Column[Row]]:
        """The columns that appear there."""
        return [column for column in self.columns if where in column.on]

    def variables(self, dimension: str, rows: Sequence[Row] | None = None) -> dict[str, Any]:
        """The columns for a data set, along one dimension: numbers as floats (NaN for none), lists as text."""
        kept = self.rows if rows is None else rows
        found = {}
        for column in self.shown(On.DATA):
            values = [column.read(row) for row in kept]
            array = np.array([np.nan if (one := _datum(value)) is None else one for value in values])
            unit = _unit(column, values)
            found[column.key] = ((dimension,), array, {"units": unit} if unit else {})
        return found

    def frame(self) -> "pandas.DataFrame":
        """The columns of its JSON that any row has; an interval is two further columns. Units stand in `attrs`."""
        import pandas

        columns: dict[str, list[Any]] = {}
        units: dict[str, str] = {}
        for column in self.shown(On.JSON):
            values = [column.read(row) for row in self.rows]
            if values and all(value is ABSENT for value in values):
                continue
            columns[column.key] = [_datum(value, joined=False) for value in values]
            units |= {column.key: unit} if (unit := _unit(column, values)) else {}
            if any(isinstance(value, Value) and value.level is not None for value in values):
                for end in ("low", "high"):
                    columns[f"{column.key}_{end}"] = [getattr(value, end, None) for value in values]
        frame = pandas.DataFrame(columns)
        frame.attrs["units"] = units
        return frame


def _unit(column: Column[Any], values: Sequence[Any]) -> str:
    return column.unit or next((value.unit for value in values if isinstance(value, Value)), "")


def _datum(value: Any, joined: bool = True) -> Any:
    if isinstance(value, Value):
        return value.value
    if joined and isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return None if value is ABSENT else value


@dataclass(frozen=True)
class Values:
    """Named values, nested where that helps: an object in JSON, a table of the plain ones where it is shown.

    `titles` words the keys; a key without a title is not shown.
    """

    items: Mapping[str, Any]
    name: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    on: On = On.ALL

    def table(self) -> Table[str]:
        """One row per value that has a title."""
        unit = lambda key: value.unit if isinstance(value := self.items[key], Value) else ""  # noqa: E731
        columns = [
            Column[str]("quantity", "quantity", lambda key: self.titles[key]),
            Column[str]("value", "value", lambda key: self.items[key]),
            Column[str]("unit", "unit", unit, left=True),
        ]
        return Table([key for key in self.titles if key in self.items], columns, on=self.on)


@dataclass(frozen=True)
class Figure:
    """A picture, drawn when it is asked for. `alt` says what it shows.

    One with a `name` is a file of the run folder; one without is the picture beside its page. `on_axes` draws its main
    panel on axes that are there.
    """

    draw: "Callable[[], Drawn]"
    alt: str
    name: str = ""
    dpi: int = 200
    on: On = On.PAGE
    on_axes: "Callable[..., None] | None" = None

    def png(self) -> bytes:
        """The bytes of a PNG."""
        from bandit_lab.app.plots import as_png

        return as_png(self.draw, self.dpi)


Block = Paragraph | Values | Table[Any] | Figure


@dataclass(frozen=True, eq=False, repr=False)
class Contents:
    """Content of a result. `sections` by JSON key, which is also their heading on a page; "" has neither.

    `data` is what `results.zarr` holds, made of `dataset` when it is asked for; `stored` says whether the run folder
    gets it. `pages` are further documents, one per run, by file name. `incomplete` says
    which parts are missing, if some are: what is there is whole, and the command ends with exit code 1. Sections that
    are `folded` are opened by a click on an HTML page.
    """

    title: str
    sections: Mapping[str, Sequence[Block]]
    dataset: "xarray.Dataset | Callable[[], xarray.Dataset] | None" = None
    pages: "Mapping[str, Contents]" = field(default_factory=dict)
    incomplete: str = ""
    folded: Collection[str] = ()
    stored: bool = True

    @cached_property
    def data(self) -> "xarray.Dataset | None":
        """All numbers as one labelled data set."""
        return self.dataset() if callable(self.dataset) else self.dataset

    def blocks(self, where: On) -> dict[str, list[Block]]:
        """Section -> the blocks that appear there; sections without any are left out. Named values become tables."""
        found: dict[str, list[Block]] = {}
        for key, blocks in self.sections.items():
            kept = (block.table() if isinstance(block, Values) else block for block in blocks if where in block.on)
            if shown := [block for block in kept if not isinstance(block, Table) or block.rows]:
                found[key] = list[Block](shown)
        return found

    @property
    def figures(self) -> list[Figure]:
        """The pictures that are files of the run folder."""
        every = (block for blocks in self.sections.values() for block in blocks)
        return [block for block in every if isinstance(block, Figure) and block.name]
