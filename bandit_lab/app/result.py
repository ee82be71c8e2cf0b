"""What a command returns: a `Result`, and its writers: tables on the terminal, HTML in a notebook, strict JSON.

A number that there may not be is a `Value` with the reason. Text from outside needs no care: every writer shows it as
it stands.
"""

import base64
import html
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from bandit_lab._checks import did_you_mean, visible
from bandit_lab.app.progress import say

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn


_ODD = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@runtime_checkable
class ArrayLike(Protocol):
    """Anything that NumPy reads as an array: one of JAX, pandas, xarray, PyTorch too."""

    def __array__(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Value:
    """A number with its unit. The one way in which a number can be absent: `value` None, with a `reason`.

    NaN and infinity are no values. Raises ValueError where a number and a reason stand together, or neither does.
    """

    value: float | None
    unit: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        scalar = self.value.item() if isinstance(self.value, np.generic) else self.value
        object.__setattr__(self, "value", scalar)
        if scalar is not None and not (isinstance(scalar, int | float) and math.isfinite(scalar)):
            raise ValueError(f"value: expected a finite number, or None with the reason, got {scalar!r}")
        if (scalar is None) != bool(self.reason):
            raise ValueError(f"reason: expected one if and only if there is no value, got {self.reason!r}")

    @classmethod
    def of(cls, number: object, reason: str, unit: str = "") -> Self:
        """A finite number as it is; anything else (None, NaN, infinity) as absent for this reason."""
        scalar: Any = number.item() if isinstance(number, np.generic) else number
        there = isinstance(scalar, int | float) and math.isfinite(scalar)
        return cls(scalar, unit) if there else cls.absent(reason, unit)

    @classmethod
    def absent(cls, reason: str, unit: str = "") -> Self:
        """No number, and why."""
        return cls(None, unit, str(reason))


def number(value: Any, digits: int = 4) -> str:
    """A number with some significant digits, or a dash."""
    return "-" if value is None or (isinstance(value, float) and not np.isfinite(value)) else f"{value:.{digits}g}"


def text_of(value: Any, digits: int = 5) -> str:
    """Any content of a cell as people read it."""
    if isinstance(value, Value):
        return number(value.value, digits)
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Mapping):  # of `eigenvalues`
        return f"{value['re']:.{digits}g}{value['im']:+.{digits}g}i"
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join([text_of(one, digits) for one in value[:6]] + ["..."] * (len(value) > 6))
    return str(value) if isinstance(value, int | np.integer) else number(value, digits)


def eigenvalues(values: np.ndarray) -> list[Any]:
    """Eigenvalues for JSON: numbers, or {re, im} where they are complex beyond rounding, of a matrix near 0 too."""
    if np.all(np.abs(np.imag(values)) <= 1e-10 * np.abs(values).max() + 1e-15):
        return [float(v) + 0.0 for v in np.real(values)]
    return [{"re": float(v.real), "im": float(v.imag)} for v in values]


def plain(value: Any) -> Any:
    """Nested plain Python values: arrays are lists, numbers that are not finite None.

    A `Value` in a mapping is its number, with `<key>_reason` beside a null.
    """
    if isinstance(value, Mapping):
        result = {}
        for key, one in value.items():
            result[str(key)] = plain(one.value if isinstance(one, Value) else one)
            if isinstance(one, Value) and one.reason:
                result[f"{key}_reason"] = one.reason
        return result
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, ArrayLike):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def strict_json(value: Any) -> str:
    """JSON of `plain`, without NaN or Infinity.

    What UTF-8 cannot hold (a path's odd bytes) or a terminal would obey stands as an escape, which reads back the same.
    """
    text = json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    return _ODD.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


class Table(NamedTuple):
    """A table for readers: each row from a column's head to its cell."""

    title: str
    rows: Sequence[Mapping[str, Any]]

    def texts(self) -> tuple[list[str], list[list[str]]]:
        """(heads, rows), as they are shown."""
        heads = list(dict.fromkeys(key for row in self.rows for key in row))
        return heads, [[visible(text_of(row.get(head))) for head in heads] for row in self.rows]


class Figure(NamedTuple):
    """A picture, a file of the run folder, drawn when it is asked for. on_axes: draws its main panel on given axes."""

    name: str
    draw: "Callable[[], Drawn]"
    on_axes: "Callable[..., None] | None" = None

    def png(self) -> bytes:
        """The bytes of a PNG."""
        from bandit_lab.app.plots.style import save, style

        buffer = io.BytesIO()
        with style():
            save(self.draw(), buffer, format="png", dpi=200)
        return buffer.getvalue()


class _Named(dict[str, Any]):
    """A dictionary whose keys are attributes too. A key that is named like a method of dictionaries is a subscript."""

    def __missing__(self, name: str) -> Any:
        expected = f"one of {', '.join(self) or 'none'}{did_you_mean(str(name), self)}"
        raise KeyError(f"result: expected {expected}, got {name!r}")

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(*error.args) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The result of a command, as Python, a notebook and a terminal ask for it.

        found.verdict
        found.thresholds.learning_rate.exact
        found["thresholds"]["learning_rate"]["exact"]

    `content` is that of `summary.json`: what it holds are attributes and subscripts, nested ones too. `shown` are lines
    and tables for a terminal, `more` what a notebook shows below them. `data` is what `results.zarr` holds.
    `incomplete` says which parts are missing, if some are: what is there is whole, the command ends with exit code 1.
    """

    title: str
    content: Mapping[str, Any]
    shown: Sequence[str | Table] = ()
    more: Sequence[str | Table] = ()
    data: "xarray.Dataset | None" = None
    figures: Sequence[Figure] = ()
    incomplete: str = ""

    def __repr__(self) -> str:
        verdict = self._content.get("verdict", self.shown[0] if self.shown else None)
        first = f"{verdict}\n" if isinstance(verdict, str) else ""
        return first + visible(f"{self.title} with {', '.join(self._content)}")

    if not TYPE_CHECKING:  # an editor knows the declared fields of each result, and reports any other

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return self._content.__getattr__(name)

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def keys(self) -> list[str]:
        """Names that can be asked for."""
        return [*self]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    _ipython_key_completions_ = keys

    @cached_property
    def _content(self) -> _Named:
        content: _Named = _parts(self.to_dict())
        return content

    def to_dict(self) -> dict[str, Any]:
        """Content of `summary.json`."""
        content: dict[str, Any] = plain(self.content)
        return content

    def table(self, name: str) -> "pandas.DataFrame":
        """The rows of this name, also nested ones, or the shown table of this title. Raises KeyError with the names."""
        import pandas

        tables = {block.title: plain(block.rows) for block in (*self.more, *self.shown) if isinstance(block, Table)}
        tables |= dict(_tables(self.to_dict()))
        if name not in tables:
            raise KeyError(f"table: expected one of {', '.join(tables) or 'none'}, got {name!r}")
        return pandas.DataFrame(tables[name])

    def plot(self, ax: "Axes | None" = None, **which: Any) -> "Axes":
        """Draw its picture with matplotlib, in a figure of its own or its main panel on given axes.

            found.plot().figure.savefig("diagram.png")
            found.plot(ax=axes, momentum=0.9)

        Args:
          ax: axes to draw on. which: what the main panel shows; of a sweep the `momentum`, by default its largest,
            and `legend=False` for panels beside one that has it.

        Returns:
          The axes; without arguments the first of the whole figure, which is their `figure`.

        Raises:
          ValueError: no picture, or none that is one panel.
        """
        import matplotlib.pyplot as plt

        from bandit_lab.app.plots.style import sizes

        panel = next((one.on_axes for one in self.figures if one.on_axes is not None), None)
        whole = ax is None and not which
        if not self.figures or (panel is None and not whole):
            raise ValueError(f"plot: expected a result with a picture (of sweep), got {self.title}")
        with sizes():
            if whole or panel is None:
                return self.figures[0].draw().axes[0]
            axes = plt.figure().add_subplot() if ax is None else ax
        panel(axes, **which)
        return axes

    def show(self) -> None:
        """Print its lines and tables."""
        show(*self.shown)

    def _repr_html_(self) -> str:
        parts = [f"<h3>{html.escape(visible(self.title))}</h3>"]
        for block in (*self.shown, *self.more):
            if isinstance(block, Table):
                heads, rows = block.texts()
                parts.append("\n".join(["<table>", _row(heads, "th"), *(_row(row, "td") for row in rows), "</table>"]))
            else:
                parts.append(f"<p>{html.escape(visible(block))}</p>")
        for figure in self.figures:
            coded = base64.b64encode(figure.png()).decode("ascii")
            parts.append(f'<img alt="{figure.name}" style="max-width:100%" src="data:image/png;base64,{coded}">')
        return "\n".join(["<div>", *parts, "</div>"])


def _row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _tables(content: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The lists of rows in nested values, with their keys; outer ones last."""
    for value in content.values():
        if isinstance(value, Mapping):
            yield from _tables(value)
    for key, value in content.items():
        if isinstance(value, list) and all(isinstance(row, dict) for row in value):
            yield key, value


def _parts(value: Any) -> Any:
    """Nested dictionaries and lists, with every dictionary a `_Named`."""
    if isinstance(value, dict):
        return _Named({key: _parts(one) for key, one in value.items()})
    return [_parts(one) for one in value] if isinstance(value, list) else value


class _Page(io.StringIO):
    """Text that is laid out for stdout's encoding."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding or "utf-8"


def show(*blocks: str | Table) -> None:
    """Print lines and tables on stdout, as they stand: no markup, no escape sequence. A line that begins is not cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    page, seen = _Page(), Console(highlight=False, force_jupyter=False)  # rich itself would end where stdout is closed
    width = seen.width if seen.is_terminal else 120
    console = Console(file=page, highlight=False, force_terminal=seen.is_terminal, width=width, force_jupyter=False)
    for place, block in enumerate(blocks):
        if isinstance(block, str):
            console.print(Text(visible(block)), soft_wrap=place == 0)  # `| head -1` has all of the first
        elif block.rows:
            heads, rows = block.texts()
            drawn = Drawn(title=Text(block.title), box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
            for column, head in enumerate(heads):
                drawn.add_column(Text(head), justify="right" if column else "left", overflow="fold")
            for row in rows:
                drawn.add_row(*map(Text, row))
            console.print(drawn)
    if blocks:
        say(page.getvalue().removesuffix("\n"))
