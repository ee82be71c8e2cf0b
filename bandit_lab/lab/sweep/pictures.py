"""The pictures of a sweep, drawn from its data set alone, so that a stored run can be drawn again."""

from functools import partial
from typing import TYPE_CHECKING, Any

from bandit_lab.app.document import Figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

DIAGRAM = "learning rate against refresh interval: what happened as colour, law, exact and measured thresholds as lines"
EXAMPLES = "four runs on both sides of both boundaries, under the curves of two oscillators"


def figures_of(results: "xarray.Dataset") -> list[Figure]:
    """The phase diagram, unless there is one refresh interval or learning rate, and the examples, if there are any."""
    found = []
    if min(results.sizes["refresh_interval"], results.sizes["learning_rate"]) > 1:
        on_axes = partial(_diagram_on, results)
        found.append(Figure(partial(_diagram, results), DIAGRAM, "phase_diagram", on_axes=on_axes))
    if "example_reward" in results:
        found.append(Figure(partial(_examples, results), EXAMPLES, "trajectories"))
    return found


def undrawn(results: "xarray.Dataset") -> list[str]:
    """Why there is no phase diagram, as a line, where there is none."""
    single = [name for name in ("learning_rate", "refresh_interval") if results.sizes[name] == 1]
    wanted = ", ".join(f"'sweep.{name}=[...]'" for name in single)
    return [f"No phase diagram: of {' and '.join(single)} there is one value ({wanted} for several)."] if single else []


def _diagram(results: "xarray.Dataset") -> "Drawn":
    from bandit_lab.lab.sweep.phase_diagram import phase_diagram

    return phase_diagram(results)


def _diagram_on(results: "xarray.Dataset", axes: "Axes", **which: Any) -> None:
    from bandit_lab.lab.sweep.phase_diagram import draw_on

    draw_on(axes, results, **which)


def _examples(results: "xarray.Dataset") -> "Drawn":
    from bandit_lab.lab.sweep.trajectories import trajectory_panels

    return trajectory_panels(results)
