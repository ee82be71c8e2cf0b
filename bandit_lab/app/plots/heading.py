"""What stands above a picture: what was found, the setting, and every prediction that failed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bandit_lab.app.plots.style import VERMILION, lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST_TEXT = 6.5  # points
LINE = 0.12  # inches, of a line of that text
TITLE_TEXT, TITLE_LINE = 8, 0.15
LEADING, MARGIN = 1.25, 0.06
GREY_TEXT = "#555555"


def put_above(figure: "Figure", finding: str, setting: Sequence[str], failed: Sequence[str] = ()) -> None:
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
