"""Pictures from a made-up data set: what is drawn where, and what cannot be drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from matplotlib.colors import to_hex

from bandit_lab.app.plots import style as looks
from bandit_lab.lab.sweep.pictures import phase_diagram
from bandit_lab.measure.outcome import Outcome


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
    seen = [
        c for c in axes.collections if any(path.transformed(screen).contains_point(point) for path in c.get_paths())
    ]
    return to_hex(seen[-1].get_facecolor()[0]).upper()


@pytest.mark.parametrize("n", [1.0001, 1.41, 2.9])
def test_shading_agrees_with_the_lines_between_the_refresh_intervals(n):
    """3 % beside the measured threshold 2.02/N and onset 1.01/N (to a half of a step of the grid, 13 %, without them).

    Cells around N = 1, 2, 4 put points at N = 1.4 on the wrong side of the line by a third.
    """
    axes = phase_diagram(made_up(momenta=(0.9,))).axes[0]
    for factor, code in ((2.09, Outcome.UNSTABLE), (1.96, 2), (1.05, 2), (0.97, 1)):
        assert colour_at(axes, n, factor / n) == looks.FILL[code]
    assert axes.get_xlim() == (1, 8)


def test_a_window_beyond_the_threshold_is_hatched_from_end_to_end():
    """At N = 4 stability is lost at 0.13, is there again from 0.135, and is lost for good at 0.5; N = 2 has no window.

    The unstable stretch, and the space above the window, are narrower than a step of the grid.
    """
    data = made_up(momenta=(0.9,))
    data["threshold_exact"] = data["threshold_exact"].copy()
    data["threshold_exact"].loc[{"refresh_interval": 4}] = 0.13
    windows = np.full((1, 1, 4, 1, 2), np.nan)
    windows[0, 0, 2, 0] = 0.135, 0.5
    data["stable_again"] = (("momentum", "kl_weight", "refresh_interval", "window", "window_end"), windows)
    figure = phase_diagram(data)
    axes, white = figure.axes[0], "#FFFFFF"
    for rate, colour in ((0.1, looks.FILL[1]), (0.1325, looks.FILL[3]), (0.137, white), (0.49, white)):
        assert colour_at(axes, 4.0, rate) == colour
    assert colour_at(axes, 4.0, 0.51) == looks.FILL[3]
    assert [colour_at(axes, n, 0.3) == white for n in (2.8, 2.9, 5.6, 5.7)] == [False, True, True, False]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "stable again, beyond the threshold"
    assert legend.get_patches()[-1].get_hatch() == axes.collections[-1].get_hatch()


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
