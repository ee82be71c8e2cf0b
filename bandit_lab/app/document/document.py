"""The document that a command returns: its contents, and how they are asked for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bandit_lab._names import did_you_mean
from bandit_lab._text import visible
from bandit_lab.app.document.blocks import Contents, Figure, On, Table, Values

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

PICTURED = "of sweep"


class Named(dict[str, Any]):
    """A dictionary whose keys are attributes too. A key that is named like a method of dictionaries is a subscript."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(_missing(name, self))
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


@dataclass(frozen=True, eq=False, repr=False)
class Document(Contents):
    """The result of a command, as Python, a notebook and a terminal ask for it.

        found.verdict
        found.thresholds.learning_rate.exact
        found["thresholds"]["learning_rate"]["exact"]

    What `to_dict()` holds are its attributes and its subscripts, nested ones too. Where there is one log, what is told
    of it is there without `logs[0]`. An unknown attribute is an AttributeError, an unknown subscript a KeyError.
    """

    def __repr__(self) -> str:
        first = f"{self._content['verdict']}\n" if isinstance(self._content.get("verdict"), str) else ""
        return first + visible(f"{self.title} with {', '.join(self._content)}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._content:
            raise AttributeError(_missing(name, () if name.startswith("_") else self._content))
        return self._content[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._content:
            raise KeyError(_missing(name, self._content))
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
    def _content(self) -> Named:
        content = _parts(self.to_dict())
        logs = content.get("logs", [])
        return Named(logs[0] | content) if len(logs) == 1 else content

    def to_dict(self) -> dict[str, Any]:
        """Content of `summary.json`."""
        from bandit_lab.app.document.as_json import content_of

        return content_of(self.sections)

    def table(self, name: str) -> "pandas.DataFrame":
        """The table of this name or key, or that of the section of this name. Raises KeyError that lists the names."""
        tables: dict[str, Table[Any]] = {}
        for key, blocks in self.sections.items():
            for block in blocks:
                if isinstance(block, Table) and (On.JSON in block.on or block.name):
                    tables.setdefault(block.name or key, block)
                elif isinstance(block, Values):
                    tables = dict(_tables(block.items)) | tables
        if name not in tables:
            raise KeyError(f"table: expected one of {', '.join(tables) or 'none'}, got {name!r}")
        return tables[name].frame()

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

        alone = [*self.pages.values()] if len(self.pages) == 1 else []
        blocks = [block for one in (self, *alone) for blocks in one.sections.values() for block in blocks]
        pictures = [block for block in blocks if isinstance(block, Figure)]
        panels = [block for block in pictures if block.on_axes is not None]
        whole = ax is None and not which
        if not (pictures if whole else panels):
            those = f"a result with a picture{'' if whole else ' of one panel'} ({PICTURED})"
            raise ValueError(f"plot: expected {those}, got {self.title}")
        with sizes():
            if whole:
                return pictures[0].draw().axes[0]
            axes = plt.figure().add_subplot() if ax is None else ax
        assert panels[0].on_axes is not None
        panels[0].on_axes(axes, **which)
        return axes

    def show(self) -> None:
        """Print it."""
        from bandit_lab.app.document.as_text import show

        show(self)

    def _repr_html_(self) -> str:
        """HTML for a notebook: its own tables and pictures, and the page of a single run."""
        from bandit_lab.app.document.as_page import fragment

        return fragment(self)


def _tables(items: Mapping[str, Any]) -> Iterator[tuple[str, Table[Any]]]:
    """The tables in nested values, with their keys."""
    for key, value in items.items():
        if isinstance(value, Table):
            yield key, value
        elif isinstance(value, Mapping):
            yield from _tables(value)


def _parts(value: Any) -> Any:
    """Nested dictionaries and lists, with every dictionary a `Named`."""
    if isinstance(value, dict):
        return Named({key: _parts(one) for key, one in value.items()})
    return [_parts(one) for one in value] if isinstance(value, list) else value


def _missing(name: object, known: Iterable[str]) -> str:
    """The line for a name that a result does not have."""
    names = list(known)
    return f"result: expected one of {', '.join(names) or 'none'}{did_you_mean(str(name), names)}, got {name!r}"
