"""Pictures, drawn from a results data set alone, so that a stored run can be drawn again."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


PER_PAGE = 24
"""Runs on one page of small multiples."""


DIAGRAMS = 3


def drawn_momenta(momenta: np.ndarray) -> np.ndarray:
    """Momenta of a sweep that have a phase diagram: all, or three from the first to the last."""
    places = np.linspace(0, len(momenta) - 1, DIAGRAMS).round().astype(int)
    return momenta if len(momenta) <= DIAGRAMS else momenta[places]


def draw_sweep(results: "xarray.Dataset", folder: Path) -> list[Path]:
    """Draw the pictures of a sweep into `folder`; returns their paths."""
    from bandit_lab.study.plots.phase_diagram import phase_diagram
    from bandit_lab.study.plots.style import style
    from bandit_lab.study.plots.trajectories import trajectory_panels

    paths = []
    with style():
        for name, figure in (("phase_diagram", phase_diagram(results)), ("trajectories", trajectory_panels(results))):
            if figure is not None:
                paths.append(folder / f"{name}.png")
                _save(figure, paths[-1])
    return paths


def _save(figure: "Figure", path: Any, **how: Any) -> None:
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

    from bandit_lab.study.plots.style import style

    buffer = io.BytesIO()
    with style():
        _save(draw(), buffer, format="png", dpi=dpi)
    return buffer.getvalue()
