"""A panel of `real_gru`."""

import numpy as np
from matplotlib.axes import Axes

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Results
from experiments.shared import sheet


def draw_plateaus(panel: Axes, found: Results) -> None:
    """Stiffness at the end over the predicted edge, against N."""
    intervals = np.asarray(found.setting.intervals, float)
    panel.axhline(1, color=s.BLACK, linewidth=1.4)
    markers = {"sgd": "o", "adam": "s"}
    for row, model in enumerate(found.setting.models):
        for place, optimizer in enumerate(found.setting.optimizers):
            ratio = (found.measured.edge / found.predicted.edge).sel(model=model, optimizer=optimizer)
            aside = 2 ** (0.12 * (2 * (row - 1) + place - 0.5))
            look = s.MEASURED | {"color": s.MODEL_COLOURS[model], "marker": markers[optimizer], "markersize": 4}
            panel.plot(aside * intervals, ratio, **look)
    panel.axhspan(1 - found.setting.within, 1 + found.setting.within, color="0.9", zorder=0)
    panel.set(xscale="log", xlabel="refresh interval N (steps)", ylabel="stiffness / predicted edge", ylim=(0, 2))
    sheet.ticks_at(panel.xaxis, found.setting.intervals)
    names = {"sgd": "SGD with momentum", "adam": "Adam"}
    colours = {s.MODEL_NAMES[model]: s.MODEL_COLOURS[model] for model in found.setting.models}
    sheet.key(
        panel,
        colours,
        {names[o]: markers[o] for o in found.setting.optimizers},
        loc="upper left",
        ncols=2,
        fontsize=6.5,
    )
    panel.set_title("Runs this short are not at their edge (band: 10 %)")
