"""Pictures, drawn from a results data set alone, so that a stored run can be drawn again."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


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
                figure.savefig(paths[-1])
    return paths
