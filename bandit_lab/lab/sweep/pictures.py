"""The pictures of a sweep, drawn from its data set alone, so that a stored run can be drawn again."""

from functools import partial
from typing import TYPE_CHECKING, Any

from bandit_lab.app.result import Figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn


def figures_of(results: "xarray.Dataset") -> list[Figure]:
    """The phase diagram, unless there is one refresh interval or learning rate, and the examples, if there are any."""
    found = []
    if min(results.sizes["refresh_interval"], results.sizes["learning_rate"]) > 1:
        on_axes = partial(_diagram_on, results)
        found.append(Figure("phase_diagram", partial(_diagram, results), on_axes))
    if "example_reward" in results:
        found.append(Figure("trajectories", partial(_examples, results)))
    return found


def _diagram(results: "xarray.Dataset") -> "Drawn":
    from bandit_lab.lab.sweep.phase_diagram import phase_diagram

    return phase_diagram(results)


def _diagram_on(results: "xarray.Dataset", axes: "Axes", **which: Any) -> None:
    from bandit_lab.lab.sweep.phase_diagram import draw_on

    draw_on(axes, results, **which)


def _examples(results: "xarray.Dataset") -> "Drawn":
    from bandit_lab.lab.sweep.trajectories import trajectory_panels

    return trajectory_panels(results)
