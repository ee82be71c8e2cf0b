"""Pictures of fitted runs: units on the axes, everything in the legend, one palette, pages that hold all runs."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from bandit_lab.app import plots
from bandit_lab.app.plots import style as s
from bandit_lab.runs.fit import plot as curves
from bandit_lab.runs.fit.plot import RunPanel
from bandit_lab.runs.logs.runs import picture_pages


@pytest.fixture(autouse=True)
def _style():
    with s.style():
        yield
    plt.close("all")


def panel(**more):
    step = np.arange(30.0)
    reward = 0.5 + 0.1 * np.sin(step)
    return RunPanel("a $run$ " + "x" * 200, step, reward, np.full(30, 0.5), 0.05, "single_exponential", **more)


FULL = {
    "unit": "optimiser step",
    "plateau": (0.5, 0.45, np.inf),
    "arrival": (12.0, 8.0, 20.0),
    "cut": 14.0,
    "ahead": (26.0, 29.0, 0.55, 0.4, 9.0),
    "held_out": (np.array([0.0, 10.0]), np.array([0.2, 0.3])),
    "lost": np.array([3.0]),
    "events": ((5.0, 9.0, "fall"),),
}


def test_everything_drawn_is_in_the_legend_and_has_units():
    figure = curves.run_figure(panel(**FULL))
    (axis,) = figure.axes
    assert axis.get_xlabel() == "step (optimiser steps)"
    assert axis.get_ylabel() == "reward"
    texts = " ".join(text.get_text() for text in figure.legends[0].get_texts())
    for part in ("logged reward", "single exponential", "noise", "plateau", "forecast", "held-out", "95 %", "1: fall"):
        assert part in texts
    figure.canvas.draw()  # a title with dollar signs must not be read as mathematics
    low, high = axis.get_ylim()
    assert low < 0.2
    assert high < 2, "one end of an interval must not flatten the curve"


@pytest.mark.parametrize(
    ("plateau", "said"),
    [
        ((0.5, 0.45, 0.55), "plateau of this law, 90 % interval"),
        ((0.5, 0.45, np.inf), "plateau of this law, 90 % interval\n(open where it meets the frame)"),
        ((0.5, 0.45, 9.0), "plateau of this law, 90 % interval\n(goes on beyond the frame)"),
    ],
)
def test_the_plateau_says_whose_it_is_and_where_it_is_cut(plateau, said):
    """The bracket is of the chosen law, the forecast of all; neither end of a bracket ends in silence."""
    figure = curves.run_figure(panel(**FULL | {"plateau": plateau}))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said in texts
    assert "forecast of all laws, 90 % interval" in texts


def test_the_legend_stays_inside_the_picture():
    figure = curves.run_figure(panel(**FULL))
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_colours_are_of_the_palette():
    figure = curves.run_figure(panel(**FULL))
    known = {s.BLACK, s.ORANGE, s.SKY, s.GREEN, s.YELLOW, s.BLUE, s.VERMILION, s.PURPLE, s.GREY}
    assert {line.get_color() for line in figure.axes[0].lines} <= known


def drawn(count):
    return picture_pages([panel() for _ in range(count)], curves.small_multiples, "fits", "all runs")


def test_pages_hold_all_runs():
    pages = [figure.draw() for figure in drawn(plots.PER_PAGE + 3)]
    assert [sum(axis.get_visible() for axis in page.axes) for page in pages] == [plots.PER_PAGE, 3]
    assert pages[0].get_supylabel() == "reward"
    assert "step" in pages[0].get_supxlabel()


def test_one_page_is_held_at_a_time(monkeypatch):
    """Thousands of runs are hundreds of pages, which pyplot would keep: each is closed before the next one is drawn."""
    monkeypatch.setattr(plots, "PER_PAGE", 1)
    held = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **how: held.append(len(plt.get_fignums())))
    pages = drawn(3)
    assert [page.name for page in pages] == ["fits_1", "fits_2", "fits_3"]
    assert [page.png() for page in pages] == [b"", b"", b""]
    assert held == [1, 1, 1]
    assert plt.get_fignums() == []
