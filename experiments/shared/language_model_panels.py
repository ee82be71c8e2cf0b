"""Panels of `language_model`."""

from collections import Counter

import numpy as np
from matplotlib.axes import Axes

from bandit_lab.app.plots import style as s
from bandit_lab.lab.reproduce.experiment import Results
from experiments.shared import sheet

COLOURS = (s.VERMILION, s.BLUE)


def draw_course(panel: Axes, results: Results) -> None:
    slow, seen = results.predicted.isel(start=0), results.measured
    panel.plot(slow.time, slow.stiffness, color=s.BLACK, linewidth=1.4, label="slow run, without noise")
    panel.plot(slow.time, slow.lazy, color=s.GREY, linewidth=1, linestyle=":", label="the same, features frozen")
    for rate, colour in zip(results.setting.throws.rates, COLOURS, strict=False):
        shown = seen.shown.sel(throw_rate=rate).values
        at = np.flatnonzero(np.isfinite(shown))
        panel.plot(
            rate * at,
            shown[at],
            color=colour,
            linewidth=0.9,
            label=f"groups of {results.setting.group_size}, rate {rate:g}",
        )
        crossed, fell = at[shown[at] >= 2 / rate][0], at[at <= at[-1] - results.setting.throws.after][-1]
        marks = (crossed, "o", "none"), (fell, "v", colour)
        for place, marker, face in marks:
            look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 6, "markerfacecolor": face}
            panel.plot(rate * place, shown[place], **look)
        panel.axhline(2 / rate, color=colour, linewidth=0.6, linestyle="--")
        sheet.name_level(panel, 2 / rate, f"2/{rate:g}", color=colour)
    panel.set(yscale="log", xlim=(0, 14), ylim=(0.15, 300))
    panel.set(xlabel="learning rate times updates", ylabel="stiffness K")
    panel.legend(loc="upper left", fontsize=6.5)
    panel.set_title("K grows, crosses 2/rate (circle), is thrown (triangle)")


def draw_crossings(panel: Axes, results: Results) -> None:
    predicted, measured = results.predicted.crossing, results.measured.crossing
    ends = [0.8 * float(predicted.min()), 1.25 * float(predicted.max())]
    panel.plot(ends, ends, color=s.GREY, linewidth=1)
    for start, marker in zip(results.setting.starts, "o^", strict=False):
        for rate in results.setting.rates:
            runs = measured.sel(start=start, rate=rate).values
            panel.plot(
                np.full(len(runs), predicted.sel(start=start, rate=rate)),
                runs,
                **s.MEASURED | {"marker": marker, "markersize": 4, "color": s.BLUE},
            )
    panel.set(xscale="log", yscale="log", xlabel="predicted by the slow run", ylabel="measured, groups of 32")
    panel.set_title("Updates until 48 runs cross 2/rate")


def draw_edges(panel: Axes, results: Results) -> None:
    ratio = (results.measured.edge / results.predicted.edge).values
    panel.axhspan(0.9, 1.1, color=s.GREY, alpha=0.2, linewidth=0)
    panel.axhline(1, color=s.GREY, linewidth=1)
    loops, taken = results.setting.loops, Counter[int]()
    for model, colour in (("refresh", s.BLUE), ("pipeline", s.VERMILION)):
        for momentum, marker in ((0.0, "o"), (0.9, "s")):
            chosen = [i for i, one in enumerate(loops) if (one[0], one[2]) == (model, momentum)]
            look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 4}
            label = f"{s.MODEL_NAMES[model]}, momentum {momentum:g}"
            places = []
            for i in chosen:
                places.append(loops[i][1] * 2 ** (0.1 * taken[loops[i][1]] - 0.3))
                taken[loops[i][1]] += 1
            panel.plot(places, ratio[chosen], **look, label=label)
    panel.set(xlabel="refresh interval N", ylabel="threshold, measured / predicted", ylim=(0.6, 1.2), xscale="log")
    sheet.ticks_at(panel.xaxis, sorted(taken))
    panel.legend(loc="lower left", fontsize=6.5)
    panel.set_title(f"Thresholds of {len(loops)} loops; grey: within 10 %")
