"""The style sheet of the figures: one column wide, text that is legible there, files that repeat to the byte."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bandit_lab.app.plots.style import COLUMN_RC, put_above, style
from bandit_lab.lab.reproduce import claims

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bandit_lab.lab.reproduce.claims import ClaimRow
    from bandit_lab.lab.reproduce.experiment import Loaded, Results

WIDTH, HEIGHT = 3.4, 2.6
"""Inches of one column, and of a figure that sets no height."""
DPI = 200

_RC: dict[Any, Any] = COLUMN_RC | {
    "savefig.dpi": DPI,
    "path.simplify": False,
    "svg.hashsalt": "bandit_lab",
    "pdf.fonttype": 42,  # many venues refuse type 3, the default
}
_UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}


@contextmanager
def drawn(loaded: "Loaded", results: "Results", rows: "Sequence[ClaimRow]") -> "Iterator[Figure]":
    """The figure of an experiment, drawn: above it what was found, the setting, and what failed.

    rows: of its claims.
    """
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    with style(), plt.rc_context(_RC):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        loaded.draw(figure, results)
        figure.set_figwidth(WIDTH)
        setting = loaded.trained(results.setting) if loaded.trained is not None else ""
        put_above(figure, claims.finding(loaded, rows), setting, claims.failed(rows))
        yield figure


def pictures(
    loaded: "Loaded", results: "Results", rows: "Sequence[ClaimRow]", formats: "Sequence[str]" = ("png",)
) -> dict[str, bytes]:
    """File name -> content: `<id>.<format>`. rows: of its claims."""
    files = {}
    with drawn(loaded, results, rows) as figure:
        for kind in formats:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=DPI, metadata=_UNDATED[kind])
            data = buffer.getvalue()
            files[f"{loaded.id}.{kind}"] = _few_colours(data) if kind == "png" else data
    return files


def _few_colours(png: bytes) -> bytes:
    """A picture of at most 256 colours, a third as large."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(buffer, format="png", optimize=True, dpi=(DPI, DPI))
    return buffer.getvalue()
