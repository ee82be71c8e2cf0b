"""Pictures from a made-up data set: what is drawn where, and what cannot be drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bandit_lab._types import Outcome
from bandit_lab.app.plots import style as looks
from bandit_lab.lab.sweep.pictures import draw_on, edge, phase_diagram, shade
from bandit_lab.lab.sweep.report import figures_of


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def made_up(intervals=(1, 2, 4, 8), points=20, momenta=(0.0, 0.9)) -> xarray.Dataset:
    """Threshold 2/N, onset 1/N, law 1/N, everything measured 1% above."""
    n, rate = np.array(intervals), np.geomspace(0.05, 5, points)
    row = ("momentum", "kl_weight", "refresh_interval")
    shape = (len(momenta), 1, len(n))
    lines = {"threshold_law": 1.0, "threshold_exact": 2.0, "onset_exact": 1.0}
    lines |= {"threshold_measured": 2.02, "onset_measured": 1.01}
    variables = {name: (row, np.broadcast_to(factor / np.maximum(n, 0.5), shape)) for name, factor in lines.items()}
    code = np.where(rate * n[:, None] > 2, Outcome.UNSTABLE, np.where(rate * n[:, None] > 1, 2, 1))
    variables["outcome"] = ((*row, "learning_rate"), np.broadcast_to(code, (*shape, points)))
    coords = {"momentum": list(momenta), "kl_weight": [1.0], "refresh_interval": n, "learning_rate": rate}
    about = {"setting": "made up", "drift": "G = infinity", "momentum_form": "heavy ball"}
    return xarray.Dataset(variables, coords, about)


def colour_at(axes, n: float, rate: float) -> str:
    """The fill that is seen at a point: what was drawn last of all that covers it."""
    point, screen = axes.transData.transform((n, rate)), axes.transData
    areas = [c for c in axes.collections if not isinstance(c, QuadMesh)]
    seen = [c for c in areas if any(path.transformed(screen).contains_point(point) for path in c.get_paths())]
    return to_hex(seen[-1].get_facecolor()[0]).upper()


def test_between_the_intervals_of_a_sparse_list_lines_and_edges_bend_as_predicted():
    """Threshold 2/N^2 between 2/N at the ends: a straight line would lie 1.7 times above it at N = 3."""
    data, at = made_up(intervals=(1, 9), momenta=(0.9,), points=200), np.array([1, 3, 9])
    course = {"threshold_law": [1, 0.3, 1 / 9], "threshold_exact": [2, 0.4, 2 / 9], "onset_exact": [1, 0.2, 1 / 9]}
    lines = {f"drawn_{name}": (("drawn_momentum", "drawn_refresh_interval"), [line]) for name, line in course.items()}
    axes = phase_diagram(data.assign(lines).assign_coords(drawn_momentum=[0.9], drawn_refresh_interval=at)).axes
    (exact,) = lines_of(axes[0], looks.EXACT)
    assert exact.get_xydata().tolist() == [[1, 2], [3, 0.4], [9, 2 / 9]]
    (ratio,) = lines_of(axes[1], looks.EXACT)
    np.testing.assert_allclose(ratio.get_ydata(), [2, 0.4 / 0.3, 2])
    below, above = (colour_at(axes[0], 3, factor * 0.4 * 1.01) for factor in (0.97, 1.03))
    assert (below, above) == (looks.FILL[Outcome.OSCILLATING], looks.FILL[Outcome.UNSTABLE])


@pytest.mark.parametrize("n", [1.0001, 1.2, 1.41, 1.7, 2.0, 2.5, 2.9, 3.3, 5.0, 7.9])
def test_shading_agrees_with_the_lines_between_the_refresh_intervals(n):
    """3 % beside the measured threshold 2.02/N and onset 1.01/N (to a half of a step of the grid, 13 %, without them).

    Cells around N = 1, 2, 4 put points at N = 1.4 on the wrong side of the line by a third.
    """
    axes = phase_diagram(made_up(momenta=(0.9,))).axes[0]
    for factor, code in ((2.09, Outcome.UNSTABLE), (1.96, 2), (1.05, 2), (0.97, 1)):
        assert colour_at(axes, n, factor / n) == looks.FILL[code]
    assert axes.get_xlim() == (1, 8)


def test_a_region_that_comes_back_is_drawn_as_cells_and_its_neighbours_as_areas():
    data = made_up(momenta=(0.9,))
    data["outcome"] = data["outcome"].copy()
    data["outcome"].loc[{"refresh_interval": 4, "learning_rate": data.learning_rate[3]}] = Outcome.UNSTABLE
    axes = phase_diagram(data).axes[0]
    (cells,) = [c for c in axes.collections if isinstance(c, QuadMesh)]
    np.testing.assert_allclose(cells.get_coordinates()[0, :, 0], [np.sqrt(8), np.sqrt(32)])
    assert cells.get_array().ravel()[3] == Outcome.UNSTABLE
    for n, rate in ((1.4, 2.3 / 1.4), (2.8, 1.1)):  # the last known edge, as far as halfway to the cells
        assert colour_at(axes, n, rate) == looks.FILL[Outcome.UNSTABLE]


def test_a_window_that_the_grid_passed_over_has_a_cell_on_its_line():
    """Stability is lost at 0.13, is there again half a step above, and is lost for good at 2.02/N."""
    data = made_up(momenta=(0.9,))
    data["threshold_exact"] = data["threshold_exact"].copy()
    data["threshold_exact"].loc[{"refresh_interval": 4}] = 0.13
    (cells,) = [c for c in phase_diagram(data).axes[0].collections if isinstance(c, QuadMesh)]
    codes, rate = cells.get_array().ravel(), data.learning_rate.values
    unstable = set(np.flatnonzero(codes == Outcome.UNSTABLE))
    assert unstable == {int(np.argmin(np.abs(np.log(rate / 0.13)))), *np.flatnonzero(rate > 0.5)}


def lines_of(axes, look) -> list:
    return [
        line
        for line in axes.lines
        if line.get_color() == look["color"] and line.get_marker() == look.get("marker", "None")
    ]


def test_prediction_is_a_line_and_measurement_a_marker():
    figure = phase_diagram(made_up())
    top, bottom = figure.axes[0], figure.axes[2]
    for axes in (top, bottom):
        (exact,) = lines_of(axes, looks.EXACT)
        (measured,) = lines_of(axes, looks.MEASURED)
        assert exact.get_linestyle() == "-"
        assert measured.get_linestyle() == "None"
        np.testing.assert_allclose(measured.get_ydata() / exact.get_ydata(), 1.01)
    np.testing.assert_allclose(lines_of(bottom, looks.EXACT)[0].get_ydata(), 2.0)


def test_beyond_the_grid_a_region_ends_where_the_line_of_the_thresholds_goes():
    """Thresholds 20 at N = 1, above a grid that ends at 10, and 1 at N = 4: at N = 2 the line is at sqrt(20)."""
    interval, rate = np.array([1.0, 4.0]), np.geomspace(0.1, 10, 21)
    outcome = np.where(rate[:, None] > np.array([20.0, 1.0]), Outcome.UNSTABLE, Outcome.CONVERGED)
    axes = Figure().add_subplot(xscale="log", yscale="log", ylim=(0.1, 10))
    shade(axes, interval, rate, outcome, {Outcome.UNSTABLE: np.array([20.0, 1.0])})
    colour = to_hex(looks.FILL[Outcome.UNSTABLE])
    region = next(one for one in axes.collections if to_hex(one.get_facecolor()[0]) == colour)
    shown = region.get_transform().transform_path(region.get_paths()[0])
    inside = [shown.contains_point(axes.transData.transform((2.0, y))) for y in (3.0, 4.4, 4.6, 9.0)]
    assert inside == [False, False, True, True]
    assert edge(rate, outcome[:, 0], Outcome.UNSTABLE, np.nan) == 10.0


def test_one_row_or_one_column_is_no_diagram():
    assert figures_of(made_up(intervals=(4,))) == []
    assert figures_of(made_up(points=1)) == []


def test_the_diagram_of_one_momentum_on_given_axes():
    data = made_up(momenta=(0.0, 0.9))
    data["threshold_exact"] = data["threshold_exact"] * xarray.DataArray([1.0, 2.0], {"momentum": [0.0, 0.9]})
    for momentum, factor in ((None, 4.0), (0.0, 2.0)):
        axes = Figure().add_subplot()
        draw_on(axes, data, momentum)
        (exact,) = lines_of(axes, looks.EXACT)
        np.testing.assert_allclose(exact.get_xdata() * exact.get_ydata(), factor)
        assert axes.get_title().endswith(f"{0.9 if momentum is None else momentum:g}")
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert "exact threshold" in texts
        assert "onset, measured" not in texts  # drawn in the panel of ratios alone
    draw_on(bare := Figure().add_subplot(), data, legend=False)
    assert bare.get_legend() is None
    with pytest.raises(ValueError, match=r"momentum: expected one of 0\.0, 0\.9, got 0\.5"):
        draw_on(axes, data, 0.5)


def test_lag_zero_has_a_place_on_the_log_axis():
    (figure,) = figures_of(made_up(intervals=(0, 1, 4)))
    assert figure.name == "phase_diagram"
    assert len(figure.png()) > 10_000


def test_the_boundary_of_sampled_runs_is_drawn_inside_the_diagram():
    """A marker outside its axes would take the room of all: constrained layout then gives up with a warning."""
    data = made_up().assign_coords(sampled_momentum=[0.9], sampled_refresh_interval=[1, 4, 8])
    boundary = np.array([[[40.0, 0.3, 1e-4]]])
    rows = ("sampled_momentum", "kl_weight", "sampled_refresh_interval")
    data = data.assign(sampled_boundary=(rows, boundary))
    (points,) = lines_of(phase_diagram(data).axes[1], looks.SAMPLED)
    np.testing.assert_array_equal(points.get_ydata(), [np.nan, 0.3, np.nan])
    assert all(figure.png() for figure in figures_of(data))
