"""Two panels of `ages`."""

import numpy as np
from matplotlib.axes import Axes

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Results
from experiments.shared import sheet


def against_turn(panel: Axes, results: Results) -> None:
    """Threshold of ages mixed over that of ages in turn."""
    looks = zip(results.setting.turn_momenta, ((s.BLUE, "o"), (s.VERMILION, "s")), strict=True)
    for mu, (color, marker) in looks:
        here = {"turn_momentum": mu}
        panel.plot(results.setting.turn_ages, results.predicted.mixed_over_turn.sel(here), color=color)
        panel.plot(results.setting.turn_ages, results.measured.mixed_over_turn.sel(here), marker, color=color,
                   markersize=4, markerfacecolor="white", label=rf"$\mu$ = {mu:g}")  # fmt: skip
    panel.axhline(1, **s.LAW)
    panel.axhline(np.pi**2 / 4, color=s.GREY, linewidth=0.8, linestyle=":")
    sheet.note(panel, 0.03, 0.87, r"dotted: $\pi^2/4$")
    panel.set(xscale="log", ylim=(0, 2.9), xlabel="number of ages $n$ (0 to $n - 1$)",
              ylabel="threshold, mixed / in turn", title=r"mixing helps at $\mu$ = 0")  # fmt: skip
    sheet.ticks_at(panel.xaxis, results.setting.turn_ages)
    panel.legend(frameon=False, loc="center right")


def by_draws(panel: Axes, results: Results) -> None:
    """Threshold of drawn ages over that of averaged ones."""
    for name, color, marker in zip(results.setting.drawn_laws, (s.BLUE, s.VERMILION, s.GREEN), "os^", strict=True):
        here = {"drawn": name}
        averaged = results.predicted.drawn_average.sel(here)
        panel.plot(results.setting.draws, results.predicted.drawn_threshold.sel(here) / averaged, color=color)
        panel.plot(results.setting.draws, results.measured.drawn_threshold.sel(here) / averaged, marker, color=color,
                   markersize=4, markerfacecolor="white", label=name)  # fmt: skip
    panel.axhline(1, **s.LAW)
    panel.set(xscale="log", ylim=(0.4, 1.08), xlabel="ages drawn per update $B$", ylabel="threshold, drawn / averaged",
              title="few draws cost")  # fmt: skip
    sheet.ticks_at(panel.xaxis, results.setting.draws)
    panel.legend(frameon=False, loc="lower right")
