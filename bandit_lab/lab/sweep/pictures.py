"""The pictures of a sweep, drawn from its data set alone, so that a stored run can be drawn again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from bandit_lab import _checks
from bandit_lab.app.plots import style as s
from bandit_lab.app.plots.style import put_above
from bandit_lab.lab.sweep.plan import drawn_momenta
from bandit_lab.lab.sweep.report import verdict
from bandit_lab.measure.outcome import Outcome

if TYPE_CHECKING:
    import xarray

AXIS_TEXT = 0.45
"""Inches that numbers and name of an axis take below it."""
_INTERVAL = r"refresh interval $N$ (steps)"
_AGAIN: s.Look = {"facecolor": "white", "edgecolor": s.GREY, "hatch": "//////", "linewidth": 0.4}
_REGIONS = {
    Outcome.UNDECIDED: "undecided: not measured,\nor too close to a boundary",
    Outcome.CONVERGED: "converges monotonically",
    Outcome.OSCILLATING: "oscillates, decays",
    Outcome.UNSTABLE: "unstable",
    Outcome.COLLAPSED: "collapsed to a vertex",
    Outcome.NON_FINITE: "not finite",
}


def phase_diagram(results: "xarray.Dataset") -> Figure:
    """One column per momentum (at most three): the diagram above, thresholds over the law's below if there is a law.

    There are at least two refresh intervals and two learning rates.
    """
    momenta = drawn_momenta(results["momentum"].values)
    compared = bool(results["threshold_law"].isel(kl_weight=0).notnull().any())  # else nothing is in units of the law
    figure, axes = plt.subplots(
        2 if compared else 1,
        len(momenta),
        figsize=(max(1.2 + 3.2 * len(momenta), 5), 6.5 if compared else 5.2),
        height_ratios=(2.1, 1) if compared else None,
        sharex="col",
        sharey="row",
        squeeze=False,
    )
    for column, momentum in enumerate(momenta):
        part = results.isel(kl_weight=0).sel(momentum=momentum)
        coarse, lines = _coarse(results, float(momentum)), _lines(results, part)
        _diagram(axes[0, column], part, lines, coarse)
        if compared:
            _ratio(axes[1, column], part, lines, coarse)
        axes[-1, column].set_xlabel(_INTERVAL)
        axes[0, column].set_title(rf"momentum $\mu$ = {momentum:g}")
    axes[0, 0].set_ylabel(s.RATE)
    if compared:
        axes[1, 0].set_ylabel(r"$\eta$ / law's $\eta$")
    lost = results["sampled_boundary"].attrs.get("lost", "") if "sampled_boundary" in results else ""
    about = {"title": f"lost: {lost}", "title_fontsize": 7} if lost else {}
    figure.legend(
        handles=_handles(results, results.sel(momentum=momenta)), loc="outside lower center", ncols=2, **about
    )
    drift = f"regions and lines: drift at {results.attrs['drift']}, {results.attrs['momentum_form']}"
    put_above(figure, verdict(results), f"{_setting(results)}; {drift}")
    return figure


def _setting(results: "xarray.Dataset") -> str:
    """The variants in words: `two arms, GRPO with std, frozen, refresh`."""
    words = {"two_arm": "two arms", "k_arm": "several arms", "grpo": "GRPO with std"}
    return ", ".join(words.get(name, name.replace("_", " ")) for name in results.attrs["setting"].split(", "))


def draw_on(axes: Axes, results: "xarray.Dataset", momentum: float | None = None, legend: bool = True) -> None:
    """The diagram of one momentum on given axes. momentum: of the grid; None: its largest. legend: below the axes too.
    A figure without a layout gets the constrained one.

    Raises:
      ValueError: another momentum.
    """
    grid = results["momentum"].values.tolist()
    chosen = grid[-1] if momentum is None else momentum
    _checks.require(chosen in grid, "momentum", f"one of {', '.join(map(str, grid))}", chosen)
    part = results.isel(kl_weight=0).sel(momentum=chosen)
    _diagram(axes, part, _lines(results, part), _coarse(results, chosen))
    axes.set(xlabel=_INTERVAL, ylabel=s.RATE.replace(" (", "\n("), title=rf"momentum $\mu$ = {chosen:g}")
    figure = axes.figure.figure
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    if legend:  # below the axes; the onset as measured is in the panel of ratios alone
        down = axes.transAxes + ScaledTranslation(0, -AXIS_TEXT, figure.dpi_scale_trans)
        place: s.Look = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": down, "frameon": False}
        text: s.Look = {"fontsize": 6, "ncols": 2, "handlelength": 1.3, "columnspacing": 0.8, "handletextpad": 0.4}
        axes.legend(handles=_handles(results.drop_vars("onset_measured"), part), **place, **text)


def _shade(
    axes: Axes,
    interval: np.ndarray,
    rate: np.ndarray,
    outcome: np.ndarray,
    measured: Mapping[int, np.ndarray],
    bends: Mapping[int, tuple[np.ndarray, np.ndarray]],
) -> None:
    """Colour the plane by what happened, with the edges of regions where the lines of the thresholds run.

    What is known belongs to refresh intervals and learning rates of the grid. Between two refresh intervals the edge of
    a region is straight on the two logarithms, or bent as the predicted line is. Within a step of the learning rate it
    lies where the threshold was measured, beyond the grid where it is predicted. Where a region comes back (an island)
    it is drawn as cells.

    interval [N], rate [L], both rising. outcome: [L, N] codes. measured: outcome code -> [N] learning rate from which
    on runs have it, NaN where it is not known. bends: outcome code -> (refresh intervals [M], predicted learning rate
    there [M]).
    """
    colours = ListedColormap([s.FILL[code] for code in sorted(s.FILL)])
    norm = BoundaryNorm(np.arange(-0.5, len(s.FILL)), len(s.FILL))
    rising, unknown = np.maximum.accumulate(outcome, axis=0), np.full(len(interval), np.nan)
    for code in range(int(outcome[0].min()), len(s.FILL)):
        begins = zip(rising.T, measured.get(code, unknown), strict=True)
        low = np.array([_edge(rate, column, code, at) for column, at in begins])
        at, low = _bent(interval, low, *bends.get(code, (interval, low)))
        axes.fill_between(at, low, np.maximum(low, rate[-1]), color=s.FILL[code], linewidth=0, zorder=0)
        if np.any(back := (rising == code) & (outcome < code)):
            cells = (_between(interval), _between(rate), np.ma.masked_where(~back, outcome))
            axes.pcolormesh(*cells, cmap=colours, norm=norm, rasterized=True, zorder=0)


def _bent(place: np.ndarray, low: np.ndarray, interval: np.ndarray, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An edge at `place` [P] that runs between as a line [M] does, moved onto it on the logarithms."""
    if not np.all(np.isfinite(line) & (line > 0)) or not np.all(np.isfinite(low) & (low > 0)):
        return place, low
    at = np.union1d(place, interval[(interval > place[0]) & (interval < place[-1])])
    course = np.interp(np.log(at), np.log(interval), np.log(line))
    off = np.log(low) - np.interp(np.log(place), np.log(interval), np.log(line))
    return at, np.exp(course + np.interp(np.log(at), np.log(place), off))


def _edge(rate: np.ndarray, column: np.ndarray, code: int, measured: float) -> float:
    """Learning rate from which on a rising column has at least this code: the known one, if the grid agrees.

    Beyond the grid it is where the line of the thresholds goes, so that the edge leaves the picture with that line.
    """
    at = int(np.searchsorted(column, code))
    if at == 0:
        return float(measured) if measured < rate[0] else float(rate[0])
    if at == len(column):
        return float(measured) if measured > rate[-1] else float(rate[-1])
    low, high = float(rate[at - 1]), float(rate[at])
    return float(measured) if low <= measured <= high else float(np.sqrt(low * high))


def _between(centres: np.ndarray) -> np.ndarray:
    """Edges of cells halfway between their centres on the log."""
    logs = np.log(centres)
    inner = 0.5 * (logs[1:] + logs[:-1])
    return np.exp(np.concatenate([[logs[0] - (inner[0] - logs[0])], inner, [logs[-1] + (logs[-1] - inner[-1])]]))


def _coarse(results: "xarray.Dataset", momentum: float) -> "xarray.Dataset | None":
    if "sampled_momentum" not in results.coords or momentum not in results["sampled_momentum"].values:
        return None
    return results.isel(kl_weight=0).sel(sampled_momentum=momentum)


def _lines(results: "xarray.Dataset", part: "xarray.Dataset") -> dict[str, np.ndarray]:
    """Predicted lines [M] of one momentum, at more refresh intervals than the grid has where they are stored."""
    momentum, names = float(part["momentum"]), ("threshold_law", "threshold_exact", "onset_exact")
    if "drawn_momentum" not in results.coords or momentum not in results["drawn_momentum"].values:
        return {"interval": _positive(part["refresh_interval"].values)} | {name: part[name].values for name in names}
    drawn = results.sel(drawn_momentum=momentum)
    interval = _positive(drawn["drawn_refresh_interval"].values)
    return {"interval": interval} | {name: drawn[f"drawn_{name}"].values for name in names}


def _diagram(axes: Axes, part: "xarray.Dataset", lines: dict[str, np.ndarray], coarse: "xarray.Dataset | None") -> None:
    interval, rate = _positive(part["refresh_interval"].values), part["learning_rate"].values
    outcome = part["outcome"].transpose("learning_rate", "refresh_interval").values.copy()
    exact, again = part["threshold_exact"].values, _windows(part)
    for n in again:
        outcome[rate > exact[n], n] = Outcome.UNSTABLE  # but for the windows, which are laid over it
    axes.set(xscale="log", yscale="log", ylim=(rate[0], rate[-1]), xlim=(interval[0], interval[-1]))
    measured, bends = {}, {}
    for code, name in ((int(Outcome.UNSTABLE), "threshold"), (int(Outcome.OSCILLATING), "onset")):
        measured[code] = part[f"{name}_measured"].fillna(part[f"{name}_exact"]).values
        bends[code] = (lines["interval"], lines[f"{name}_exact"])
    measured[int(Outcome.UNSTABLE)][list(again)] = exact[list(again)]  # what is measured there may be a later loss
    _shade(axes, interval, rate, outcome, measured, bends)
    sides = _between(interval)
    for n, windows in again.items():
        for low, high in windows:
            axes.fill_between(sides[n : n + 2], low, high, zorder=0, **_AGAIN)
    shown = _marked(interval)
    axes.plot(lines["interval"], lines["onset_exact"], **s.ONSET)
    axes.plot(lines["interval"], lines["threshold_exact"], **s.EXACT)
    axes.plot(lines["interval"], lines["threshold_law"], **s.LAW)
    axes.plot(interval[shown], part["threshold_measured"].values[shown], **s.MEASURED)
    if coarse is not None:
        seen = coarse["sampled_boundary"].values
        inside = np.where((seen >= rate[0]) & (seen <= rate[-1]), seen, np.nan)  # markers are not clipped
        axes.plot(_positive(coarse["sampled_refresh_interval"].values), inside, **s.SAMPLED)
    _interval_ticks(axes, interval)


def _windows(part: "xarray.Dataset") -> dict[int, np.ndarray]:
    """Place of a refresh interval -> windows [W, 2] of learning rates in which it is stable again, if it has any."""
    if "stable_again" not in part:
        return {}
    windows = part["stable_again"].transpose("refresh_interval", ...).values
    return {n: one[~np.isnan(one[:, 0])] for n, one in enumerate(windows) if not np.isnan(one).all()}


def _ratio(axes: Axes, part: "xarray.Dataset", lines: dict[str, np.ndarray], coarse: "xarray.Dataset | None") -> None:
    interval, law = _positive(part["refresh_interval"].values), part["threshold_law"].values
    shown = _marked(interval)
    axes.plot(lines["interval"], lines["onset_exact"] / lines["threshold_law"], **s.ONSET)
    axes.plot(interval[shown], (part["onset_measured"].values / law)[shown], **s.MEASURED_ONSET)
    axes.axhline(1.0, **s.LAW)
    axes.plot(lines["interval"], lines["threshold_exact"] / lines["threshold_law"], **s.EXACT)
    axes.plot(interval[shown], (part["threshold_measured"].values / law)[shown], **s.MEASURED)
    if coarse is not None:
        places = coarse["sampled_refresh_interval"].values
        name = "finite_group_threshold_law"
        own = coarse[name].values if name in coarse else part["threshold_law"].sel(refresh_interval=places).values
        axes.plot(_positive(places), coarse["sampled_boundary"].values / own, **s.SAMPLED)
    axes.set(xscale="log", yscale="log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    _interval_ticks(axes, interval)


def _handles(results: "xarray.Dataset", shown: "xarray.Dataset") -> list[Any]:
    """Of a legend: lines and markers that are drawn, and the regions of what is shown."""
    looks = {
        "threshold_law": (s.LAW, r"leading-order law $K \eta N = 1 - \mu$"),
        "threshold_exact": (s.EXACT, "exact threshold"),
        "threshold_measured": (s.MEASURED, "measured threshold"),
        "onset_exact": (s.ONSET, "onset of oscillation, exact"),
        "onset_measured": (s.MEASURED_ONSET, "onset, measured"),
    }
    first = results.isel(kl_weight=0)
    entries = [look for name, look in looks.items() if name in first and bool(first[name].notnull().any())]
    if "sampled_boundary" in results:
        finite = results.get("finite_group_threshold_exact")
        of = "" if finite is None else f", {finite.attrs['drift']}"
        entries.append((s.SAMPLED, f"sampled runs{of}: half are lost"))
    handles: list[Any] = [Line2D([], [], label=label, **look) for look, label in entries]
    codes = sorted(np.unique(shown["outcome"].values).tolist())
    handles += [Patch(facecolor=s.FILL[c], edgecolor=s.GREY, label=_REGIONS[Outcome(c)]) for c in codes]
    again = "stable_again" in shown and bool(shown["stable_again"].notnull().any())
    return handles + [Patch(**_AGAIN, label="stable again, beyond the threshold")] * again


def _positive(interval: np.ndarray) -> np.ndarray:
    """Refresh intervals for a log axis: lag 0 is drawn at one half."""
    return np.where(interval == 0, 0.5, interval.astype(float))


def _marked(interval: np.ndarray) -> np.ndarray:
    """About ten log-spaced indices at which markers stand."""
    wanted = np.geomspace(interval[0], interval[-1], 10)
    return np.unique([int(np.argmin(np.abs(np.log(interval / w)))) for w in wanted])


def _interval_ticks(axes: Axes, interval: np.ndarray) -> None:
    ticks = [t for t in (0.5, *(2.0**k for k in range(20))) if interval[0] <= t <= interval[-1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: "0" if v == 0.5 else f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def trajectory_panels(results: "xarray.Dataset") -> Figure:
    """Example runs on both sides of both boundaries, under the curves of two oscillators: lag N, and the mean age."""
    with s.column():
        figure, axes = plt.subplots(2, 2, figsize=(s.COLUMN, 3.5))
        about = results["example_reward"].attrs
        fixed, looks = float(about["fixed_point"]), {"oscillator_mean_age": s.EXACT, "oscillator_law": s.LAW}
        for index, axis in enumerate(axes.flat):
            one = results.isel(example=index)
            length = int(one["example_length"])
            run = 1e3 * (one["example_reward"].values[: length + 1] - fixed)
            top = 1.25 * np.nanmax(np.abs(run))
            shown = np.unique(np.linspace(0, length, 60).round().astype(int))
            axis.axhline(0, color=s.GREY, linewidth=0.6)
            for name, look in looks.items():
                curve = 1e3 * (one[f"example_{name}"].values[: length + 1] - fixed)
                gone = np.cumsum(~(np.abs(curve) <= 1.3 * top)) > 0  # what a diverging formula does then says nothing
                axis.plot(np.where(gone, np.nan, curve), **look)
            axis.plot(shown, run[shown], **(s.MEASURED | {"markersize": 2.2, "markeredgewidth": 0.6}))
            axis.set(ylim=(-top, top), xlim=(0, length))
            axis.set_title(f"{one['example'].item()}\n\u03b7 = {float(one['example_learning_rate']):.3g}")
        figure.supylabel(r"$10^3$ (reward $-$ fixed point)", fontsize=8)
        for axis in axes[1]:
            axis.set_xlabel("step (updates)")
        named = [
            (s.MEASURED, "run of the mean update"),
            (s.EXACT, "oscillator, lag = mean age of the acting policy"),
            (s.LAW, "oscillator, lag = refresh interval (the law's)"),
        ]
        figure.legend(handles=[Line2D([], [], label=text, **look) for look, text in named], loc="outside lower center")
        where = f"drift at {about['drift']}, \u03bc = {about['momentum']:g}, N = {about['refresh_interval']}"
        put_above(figure, "Runs on both sides of both boundaries", f"{_setting(results)}; {where}")
        return figure
