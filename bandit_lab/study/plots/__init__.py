"""Pictures, drawn from a results data set alone, so that a stored run can be drawn again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from bandit_lab.study.advise.picture import MarginPicture
    from bandit_lab.study.diagnose.picture import DiagnosisPicture
    from bandit_lab.study.fit.panels import Panel


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


def draw_runs(panels: "Sequence[Panel]", folder: Path) -> list[Path]:
    """Draw all runs of a fit as small multiples: `fits.png`, or `fits_1.png`, ... if one page does not hold them."""
    from bandit_lab.study.plots.curves import small_multiples

    return _pages(small_multiples, panels, folder, "fits")


def draw_run(panel: "Panel") -> bytes:
    """One run in detail, as the bytes of a PNG."""
    from bandit_lab.study.plots.curves import run_figure

    return _png(run_figure, panel)


def draw_diagnosis(picture: "DiagnosisPicture") -> bytes:
    """One run as `diagnose` sees it, as the bytes of a PNG."""
    from bandit_lab.study.plots.diagnosis import diagnosis_figure

    return _png(diagnosis_figure, picture)


def draw_diagnoses(pictures: "Sequence[DiagnosisPicture]", folder: Path) -> list[Path]:
    """All runs of a diagnosis as small multiples: `diagnoses.png`, or `diagnoses_1.png`, ... where one page is full."""
    from bandit_lab.study.plots.diagnosis import diagnoses_figures

    return _pages(diagnoses_figures, pictures, folder, "diagnoses")


def draw_recall(found: dict[str, Any], folder: Path) -> Path:
    """Recall against effect size on simulated runs: `recall.png`."""
    from bandit_lab.study.plots.recall import recall_figure
    from bandit_lab.study.plots.style import style

    with style():
        _save(recall_figure(found), folder / "recall.png")
    return folder / "recall.png"


def draw_margins(picture: "MarginPicture") -> bytes:
    """The picture of `advise`, as the bytes of a PNG."""
    from bandit_lab.study.plots.margins import margins_figure

    return _png(margins_figure, picture)


def _pages(draw: "Callable[[Any], Iterator[Figure]]", content: Any, folder: Path, name: str) -> list[Path]:
    """Draw page by page, so that one is held at a time: `name.png`, or `name_1.png`, ... if there are several."""
    from bandit_lab.study.plots.curves import PER_PAGE
    from bandit_lab.study.plots.style import style

    one = len(content) <= PER_PAGE
    paths = []
    with style():
        for number, figure in enumerate(draw(content), start=1):
            paths.append(folder / (f"{name}.png" if one else f"{name}_{number}.png"))
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


def _png(draw: Callable[[Any], "Figure"], picture: Any) -> bytes:
    return as_png(lambda: draw(picture), 130)
