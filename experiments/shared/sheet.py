"""Panels, notes, keys and ticks of the figures, and what was trained in words."""

from collections.abc import Callable, Iterable, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from bandit_lab.app.plots.style import GREY, MEASURED, SMALLEST_TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from bandit_lab.lab.reproduce.experiment import Results, Setting

ADVANTAGES = {
    "batch_std": "std of the batch", "dapo": "silent groups dropped", "dr_grpo": "mean only", "grpo": "GRPO with std",
    "median": "median", "none": "no baseline", "rloo": "leave-one-out", "sign": "sign", "tempered": "root of the std",
}  # fmt: skip
ESTIMATORS = {
    "cispo": "CISPO", "clip_higher": "clip higher", "clipped": "PPO clip", "decoupled": "decoupled PPO",
    "frozen": "frozen", "gspo": "GSPO", "m2po": "M2PO", "ratio": "ratio", "tpo": "TPO", "uncorrected": "uncorrected",
}  # fmt: skip
STALENESS = {
    "refresh": "A: refresh", "lag": "B: lag", "pipeline": "C: pipeline", "random": "drawn ages",
    "random_mean": "averaged ages",
}  # fmt: skip
NETWORKS = {"mlp": "MLP", "gru": "GRU", "transformer": "transformer"}


def panels(
    figure: "Figure",
    count: int,
    *,
    height: float,
    across: int = 1,
    sizes: "Sequence[float] | None" = None,
    lettered: bool = False,
) -> "list[Axes]":
    """The panels of a figure, row by row.

    Args:
      figure: of which the height is set, inches.
      count: panels. across: panels in a row.
      sizes: heights of the rows, relative.
      lettered: whether each panel has its letter above it at the left.
    """
    figure.set_figheight(height)
    axes = list(figure.subplots(count // across, across, squeeze=False, height_ratios=sizes).ravel())
    for panel, letter in zip(axes, ascii_lowercase, strict=False) if lettered else ():
        panel.set_title(letter, loc="left", fontweight="bold")
    return axes


def fill(
    figure: "Figure", results: "Results", parts: "Sequence[Callable[[Axes, Results], None]]", **layout: Any
) -> None:
    """Draw each part into a panel of its own. layout: of `panels`."""
    for panel, part in zip(panels(figure, len(parts), **layout), parts, strict=True):
        part(panel, results)


def two_arms(rewards: Sequence[float]) -> str:
    """`two arms (success 0.9, 0.1)`."""
    return f"two arms (success {', '.join(f'{one:g}' for one in rewards)})"


def trained(bandit: str, *rules: str, kl_weight: float | Sequence[float], drift: str = "infinite groups") -> str:
    """The learner in words: bandit, advantage and other rules, KL weight (or its range), group size or drift."""
    ends = [f"{one:g}" for one in (kl_weight if isinstance(kl_weight, Sequence) else [kl_weight])]
    penalty = "no KL term" if kl_weight == 0 else f"KL weight {' to '.join(ends)}"
    return "; ".join([bandit, *rules, penalty, drift])


def writers(about: "Setting", *architectures: str) -> str:
    """Which networks write what: `MLP, GRU: 3 tokens of 2 for 4 prompts, parity`.

    about: of the bandit `neural`. architectures: none are named by "networks".
    """
    named = ", ".join(NETWORKS[one] for one in architectures) or "networks"
    prompts = f" for {about.contexts} prompts" if about.contexts > 1 else ""
    return f"{named}: {about.length} tokens of {about.vocabulary}{prompts}, {about.task}"


def note(panel: "Axes", x: float, y: float, text: str, **look: Any) -> None:
    """Small text at (x, y) of a panel, both from 0 to 1."""
    panel.text(x, y, text, transform=panel.transAxes, **{"fontsize": 7} | look)


def small_note(panel: "Axes", x: float, y: float, text: str, **look: Any) -> None:
    """A `note` in the smallest text."""
    note(panel, x, y, text, **{"fontsize": SMALLEST_TEXT} | look)


def name_level(panel: "Axes", height: float, text: str, **look: Any) -> None:
    """Small text at the right end of a panel, at a height in its data: the name of a line there."""
    place: dict[str, Any] = {"fontsize": 7, "ha": "right", "va": "bottom", "transform": panel.get_yaxis_transform()}
    panel.text(0.985, height, text, **place | look)


def name_marker(panel: "Axes", x: float, y: float, text: str, look: dict[str, Any], gap: float = 0.04) -> None:
    """A marker at (x, y) of a panel, both from 0 to 1, and its name in its colour beside it."""
    panel.plot(x, y, transform=panel.transAxes, **look)
    note(panel, x + gap, y, text, color=look["color"], va="center")


def key(panel: "Axes", lines: dict[str, str], markers: dict[str, str], **look: Any) -> None:
    """A legend of two things at once: label -> colour of a line, and label -> marker of a measurement, in grey."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, label=label) for label, colour in lines.items()]
    grey = MEASURED | {"color": GREY}
    handles += [Line2D([], [], **grey | {"marker": marker}, label=label) for label, marker in markers.items()]
    panel.legend(handles=handles, **look)


def plain_log(axis: "Axis", subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """Plain numbers (0.5, 1, 2, ...) at the ticks of a logarithmic axis, none between."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def ticks_at(axis: "Axis", values: "Iterable[float]") -> None:
    """Ticks with plain numbers at these values alone."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    places = [float(value) for value in values]
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter([f"{value:g}" for value in places]))
    axis.set_minor_locator(NullLocator())
