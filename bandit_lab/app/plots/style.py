"""The one style of all pictures: readable at column width, colour-blind safe (Okabe and Ito), prediction as line,
measurement as marker."""

import builtins
import re
from contextlib import AbstractContextManager
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#F0E442", "#0072B2", "#D55E00", "#CC79A7"),
)
GREY = "#777777"

# The learning rate on an axis of any picture: one name, one unit.
RATE_UNIT = "logits per unit gradient"
RATE = f"learning rate ({RATE_UNIT})"

# Fill of a region by outcome code, pale so that lines and markers stand out; order as in `Outcome`.
FILL = {0: "#E4E4E4", 1: "#D9ECF9", 2: "#FCEBC4", 3: "#F6CDB9", 4: "#D9C2DC", 5: "#9A9A9A"}

# Staleness models in the theory's words, one colour each in every picture.
MODEL_COLOURS = {"refresh": BLUE, "lag": GREEN, "pipeline": VERMILION}
MODEL_LETTERS = {"refresh": "A", "lag": "B", "pipeline": "C"}
MODEL_NAMES = {model: f"{letter}: {model}" for model, letter in MODEL_LETTERS.items()}

NETWORK_MARKERS = {"mlp": "o", "gru": "s", "transformer": "^"}

Look = dict[str, Any]
LAW: Look = {"color": BLACK, "linestyle": (0, (5, 2)), "linewidth": 1.4}
EXACT: Look = {"color": BLUE, "linestyle": "-", "linewidth": 1.8}
ONSET: Look = {"color": GREEN, "linestyle": (0, (1, 1.2)), "linewidth": 1.2}
_POINT: Look = {"linestyle": "none", "clip_on": False}
MEASURED: Look = _POINT | {"color": BLACK, "marker": "o", "markersize": 4.2, "markerfacecolor": "white"}
MEASURED_ONSET: Look = _POINT | {"color": GREEN, "marker": "^", "markersize": 3.6, "markerfacecolor": "white"}
SAMPLED: Look = _POINT | {"color": VERMILION, "marker": "D", "markersize": 4.6, "markeredgecolor": "white"}


def lines(text: str, inches: float, **look: Any) -> str:
    """Text in as few lines as fit into a width, about as long as each other. look: properties of its font.

    A number stays with its name, a dollar sign is one.
    """
    font = FontProperties(**look)
    words = re.sub(r" (?=[=\d%]|weight)|(?<==) ", "\u00a0", text).split(" ")

    def width(line: str) -> float:
        return float(text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]) / 72

    def wrap(room: float) -> list[str]:
        wrapped = words[:1]
        for word in words[1:]:
            longer = f"{wrapped[-1]} {word}"
            wrapped[-1:] = [longer] if width(longer) <= room else [wrapped[-1], word]
        return wrapped

    wrapped = wrap(inches)
    while len(wrapped) > 1 and len(narrower := wrap(max(map(width, wrapped)) - 0.01)) == len(wrapped):
        wrapped = narrower
    return "\n".join(wrapped).replace("$", r"\$")


_RC: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "mathtext.fontset": "dejavusans",
}
COLUMN_RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.handlelength": 1.8,
    "axes.titlepad": 4,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}
COLUMN = 3.4
"""Inches of one column, in which text has the sizes of COLUMN_RC."""


def column() -> AbstractContextManager[None]:
    """Context of the sizes of text in a picture that is one column wide."""
    return plt.rc_context(COLUMN_RC)


def sizes() -> AbstractContextManager[None]:
    """Context of one set of sizes."""
    return plt.rc_context(_RC)


def style() -> AbstractContextManager[None]:
    """Context in which figures are made: one set of sizes and, but in IPython, which has its own, no window system."""
    if "__IPYTHON__" not in vars(builtins):
        matplotlib.use("Agg", force=False)
    return sizes()


def save(figure: Figure, path: Any, **how: Any) -> None:
    """Write a figure and let go of it: pyplot keeps every one that it made."""
    try:
        figure.savefig(path, **how)
    finally:
        plt.close(figure)


SMALLEST_TEXT = 6.5  # points
LINE = 0.12  # inches, of a line of that text
TITLE_TEXT, TITLE_LINE = 8, 0.15
LEADING, MARGIN = 1.25, 0.06
GREY_TEXT = "#555555"


def put_above(figure: Figure, finding: str, setting: str = "", failed: str = "") -> None:
    """Lines above a figure, which grows by them: finding, setting, and how many predictions failed."""
    width, height = figure.get_size_inches()
    bold: dict[str, Any] = {"size": TITLE_TEXT, "weight": "bold"}
    small: dict[str, Any] = {"size": SMALLEST_TEXT}
    warning = failed.replace(" ", "\u00a0")
    title = lines(finding, width - 2 * MARGIN, **bold)
    below = lines(" ".join(text for text in (setting, warning) if text), width - 2 * MARGIN, **small)
    middle = MARGIN / 2 + TITLE_LINE * (1 + title.count("\n"))
    end = middle + LINE * (1 + below.count("\n"))
    whole = height + end + MARGIN / 2
    figure.set_figheight(whole)
    place: dict[str, Any] = {"va": "top", "linespacing": LEADING}
    left, right = MARGIN / width, 1 - MARGIN / width
    figure.text(left, 1 - MARGIN / 2 / whole, title, **place, **bold)
    figure.text(left, 1 - middle / whole, below.removesuffix(warning), color=GREY_TEXT, **place, **small)
    figure.text(right, 1 - (end - LINE) / whole, warning, color=VERMILION, ha="right", **place, **small)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, height / whole))
