"""Short tables on stdout, and a run's settings as YAML."""

import io
import sys
from typing import Any

import numpy as np

from bandit_lab.study.document.as_json import plain
from bandit_lab.study.document.value import number
from bandit_lab.study.terminal.output import say
from bandit_lab.study.terminal.text import literal, literal_table

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


def show(*tables: Any) -> None:
    """Print tables, or text as it stands, on stdout; without colours where stdout is not a terminal."""
    tables = tuple(literal(table) if isinstance(table, str) else table for table in tables)
    from rich.console import Console

    seen = Console(highlight=False, force_jupyter=False)  # in a notebook rich would show tables past stdout
    width = seen.width if seen.is_terminal else 120
    page = _Page()  # rich itself would end the process where stdout is closed
    console = Console(file=page, highlight=False, force_terminal=seen.is_terminal, width=width, force_jupyter=False)
    for table in tables:
        whole = getattr(table, "no_wrap", None)  # rich drops it from text that it joins
        console.print(table, no_wrap=whole, overflow="ignore" if whole else None, crop=not whole)
    if tables:
        say(page.getvalue().removesuffix("\n"))


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


def new_table(title: str, *columns: str) -> Any:
    """A plain table; every column but the first is right-aligned. Cells are text as it stands, never markup."""
    from rich.box import SIMPLE_HEAD

    table = literal_table(title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    return table
