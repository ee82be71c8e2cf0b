"""One style for all pictures; a figure becomes a file or bytes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: "Figure", path: Any, **how: Any) -> None:
    """Write a figure and let go of it: pyplot keeps every one that it made."""
    import warnings

    import matplotlib.pyplot as plt

    try:
        with warnings.catch_warnings():  # a run's name may be in any script
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(path, **how)
    finally:
        plt.close(figure)


def as_png(draw: "Callable[[], Figure]", dpi: int) -> bytes:
    """The bytes of a PNG of a figure that is drawn here, in the style of all pictures."""
    import io

    from bandit_lab.app.plots.style import style

    buffer = io.BytesIO()
    with style():
        save(draw(), buffer, format="png", dpi=dpi)
    return buffer.getvalue()
