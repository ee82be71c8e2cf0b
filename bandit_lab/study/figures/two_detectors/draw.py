"""Drawing of experiments/two_detectors.py."""

import numpy as np

from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Found

SEEN = {"color": s.VERMILION, "marker": "x", "linestyle": "none", "markersize": 4.5}


def draw(figure, found: Found, wide: bool) -> None:
    """Ratios to the law: model A at both momenta; two columns: all three models."""
    models = found.setting.models if wide else found.setting.models[:1]
    momenta = found.setting.momentum
    axes = figure.subplots(len(momenta), len(models), sharex=True, sharey="row", squeeze=False)
    figure.set_figheight(3.8)
    names = {"refresh": "A: refresh", "lag": "B: constant lag", "pipeline": "C: pipeline"}
    for (row, column), panel in np.ndenumerate(axes):
        place = {"model": models[column], "momentum": momenta[row]}
        predicted, measured = found.predicted.sel(place), found.measured.sel(place)
        n, law = predicted.refresh_interval.values, predicted.law
        panel.axhline(1.0, **s.LAW)
        panel.plot(n, predicted.threshold / law, **s.EXACT)
        panel.plot(n, predicted.onset / law, **s.ONSET)
        panel.plot(n, measured.threshold / law, **s.MEASURED)
        panel.plot(n, measured.onset / law, **s.MEASURED_ONSET)
        panel.plot(n, measured.overshoot / law, **SEEN)
        panel.set(xscale="log", yscale="log")
        panel.set_title(rf"{names[models[column]]}, $\mu$ = {momenta[row]:g}")
        sheet.ticks_at(panel.xaxis, n)
        sheet.plain_log(panel.yaxis, (1.0,) if momenta[row] > 0 else (1.0, 2.0, 5.0))
    for panel in axes[:, 0]:
        panel.set_ylabel(r"learning rate / law's")
    for panel in axes[-1]:
        panel.set_xlabel(r"refresh interval $N$ (steps)")
    _label(axes[-1, 0])
    key = "lines: predicted, markers: measured"
    axes[0, 0].text(0.03, 0.06, key, fontsize=7, transform=axes[0, 0].transAxes)
    axes[0, 0].set_ylim(0.18, 2.5)
    axes[-1, 0].set_ylim(0.012, 60)


def _label(panel) -> None:
    """Names of the curves, in the panel where they lie apart."""
    text = {"ha": "right", "fontsize": 7, "transform": panel.get_yaxis_transform()}
    panel.text(0.99, 7.0, "displacement grows", color=s.BLUE, **text)
    panel.text(0.99, 1.2, r"law $K\eta N = 1 - \mu$", **text)
    panel.text(0.99, 0.035, r"pole not real, positive ($\triangle$)", color=s.GREEN, **text)
    panel.text(0.99, 0.016, r"overshoot $10^{-6}$ seen ($\times$)", color=s.VERMILION, **text)
