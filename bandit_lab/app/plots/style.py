"""The one style of all pictures: readable at column width, colour-blind safe (Okabe and Ito), prediction as line,
measurement as marker."""

import builtins
import re
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

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


def lines(text: str, inches: float) -> str:
    """Text in lines of a figure's width, at 8 points, as few as can be and about as long as each other.

    A number stays with its name, a dollar sign is one.
    """
    kept = re.sub(r" (?=[=\d%]|weight)|(?<==) ", "\u00a0", text.replace("$", r"\$"))
    width = int(15 * inches)
    wrapped = textwrap.wrap(kept, width)
    while len(wrapped) > 1 and len(narrower := textwrap.wrap(kept, width - 1)) == len(wrapped):
        wrapped, width = narrower, width - 1
    return "\n".join(wrapped)


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


def put_above(figure: Figure, finding: str, setting: Sequence[str], failed: Sequence[str] = ()) -> None:
    """Lines above a figure that is made higher by them: what was found, the setting, every prediction that failed."""
    width, height = figure.get_size_inches()
    title: dict[str, Any] = {"fontsize": TITLE_TEXT, "fontweight": "bold"}
    parts = [(lines(finding, 0.88 * width), TITLE_LINE, title)]
    for colour, texts in ((GREY_TEXT, setting), (VERMILION, failed)):
        parts += [(lines(text, 1.25 * width), LINE, {"fontsize": SMALLEST_TEXT, "color": colour}) for text in texts]
    place, tops = MARGIN / 2, []
    for text, line, _ in parts:
        tops.append(place)
        place += line * (1 + text.count("\n"))
    whole = height + place + MARGIN / 2
    figure.set_figheight(whole)
    for (text, _, look), top in zip(parts, tops, strict=True):
        figure.text(MARGIN / width, 1 - top / whole, text, va="top", linespacing=LEADING, **look)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, height / whole))
