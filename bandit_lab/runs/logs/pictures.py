"""The picture of one run with its evidence, as a block of a document."""

from typing import TYPE_CHECKING

from bandit_lab.app.document import Figure
from bandit_lab.runs.diagnose import Diagnosis
from bandit_lab.runs.read import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

RUN_ALT = "reward against step, with held-out results, entropy and silent groups where logged; evidence shaded"


def run_drawn(name: str, curve: Curve, found: Diagnosis) -> Figure:
    """The picture of one run with its evidence."""

    def drawn() -> "Drawn":
        from bandit_lab.runs.diagnose.plot import diagnosis_figure

        return diagnosis_figure(name, curve, found)

    def drawn_on(axes: "Axes") -> None:
        from bandit_lab.runs.diagnose.plot import diagnosis_on

        diagnosis_on(axes, name, curve, found)

    return Figure(drawn, RUN_ALT, dpi=130, on_axes=drawn_on)
