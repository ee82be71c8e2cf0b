"""The phase diagram: learning rate against refresh interval, what happened as colour, the boundaries as lines."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from bandit_lab import _checks
from bandit_lab._types import Outcome
from bandit_lab.app.plots import style as s
from bandit_lab.app.plots.heading import put_above
from bandit_lab.lab.sweep.plan import drawn_momenta
from bandit_lab.lab.sweep.regions import shade
from bandit_lab.lab.sweep.report import verdict

if TYPE_CHECKING:
    import xarray

INTERVAL = r"refresh interval $N$ (steps)"
LEGEND = 5.0  # inches that it needs
NARROW = 3.0  # on the natural log of the learning rate: lower regions are labelled along their slope
REGION = {
    Outcome.CONVERGED: "converges\nmonotonically",
    Outcome.OSCILLATING: "oscillates, decays",
    Outcome.UNSTABLE: "unstable",
}
NOT_NAMED = {
    Outcome.UNDECIDED: "undecided: not measured,\nor too close to a boundary",
    Outcome.COLLAPSED: "collapsed to a vertex",
    Outcome.NON_FINITE: "not finite",
}


def phase_diagram(results: "xarray.Dataset") -> Figure:
    """One column per momentum (at most three): the diagram above, thresholds over the law's below if there is a law.

    There are at least two refresh intervals and two learning rates.
    """
    momenta = drawn_momenta(results["momentum"].values)
    count = len(momenta)
    compared = bool(results["threshold_law"].isel(kl_weight=0).notnull().any())  # else nothing is in units of the law
    figure, axes = plt.subplots(
        2 if compared else 1,
        count,
        figsize=(max(1.2 + 3.2 * count, LEGEND), 6.5 if compared else 5.2),
        height_ratios=(2.1, 1) if compared else None,
        sharex="col",
        sharey="row",
        squeeze=False,
    )
    named: set[int] = set()
    for column, momentum in enumerate(momenta):
        part = results.isel(kl_weight=0).sel(momentum=momentum)
        coarse, lines = _coarse(results, float(momentum)), _lines(results, part)
        named |= _diagram(axes[0, column], part, lines, coarse)
        if compared:
            _ratio(axes[1, column], part, lines, coarse)
        axes[-1, column].set_xlabel(INTERVAL)
        axes[0, column].set_title(rf"momentum $\mu$ = {momentum:g}")
    axes[0, 0].set_ylabel(s.RATE)
    if compared:
        axes[1, 0].set_ylabel(r"$\eta$ / law's $\eta$")
    shown = results["outcome"].isel(kl_weight=0).sel(momentum=momenta).values
    _legend(figure, results, sorted(set(np.unique(shown).tolist()) - named))
    return figure


def draw_on(axes: Axes, results: "xarray.Dataset", momentum: float | None = None, legend: bool = True) -> None:
    """The diagram of one momentum on given axes. momentum: of the grid; None: its largest. legend: on the axes too.

    Raises:
      ValueError: another momentum.
    """
    grid = results["momentum"].values.tolist()
    chosen = grid[-1] if momentum is None else momentum
    _checks.require(chosen in grid, "momentum", f"one of {', '.join(map(str, grid))}", chosen)
    part = results.isel(kl_weight=0).sel(momentum=chosen)
    named = _diagram(axes, part, _lines(results, part), _coarse(results, chosen))
    axes.set(xlabel=INTERVAL, ylabel=s.RATE.replace(" (", "\n("), title=rf"momentum $\mu$ = {chosen:g}")
    if legend:
        _legend_on(axes, results.drop_vars("onset_measured"), set(np.unique(part["outcome"]).tolist()) - named)


def _legend_on(axes: Axes, results: "xarray.Dataset", fills: set[int]) -> None:
    """A legend on the axes. A region whose name it would cover is in it instead.

    results: without the onset as measured, which is in the panel of ratios.
    """
    codes = {name.replace("\n", " "): int(code) for code, name in REGION.items()}
    names = {text: codes[name] for text in axes.texts if (name := text.get_text().replace("\n", " ")) in codes}
    box = s.legend_on(axes, _handles(results, sorted(fills)))
    axes.figure.figure.draw_without_rendering()
    covered = [text for text in names if text.get_window_extent().overlaps(box.get_window_extent())]
    for text in covered:
        text.remove()
    if covered:
        _legend_on(axes, results, fills | {names[text] for text in covered})


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


def _diagram(
    axes: Axes, part: "xarray.Dataset", lines: dict[str, np.ndarray], coarse: "xarray.Dataset | None"
) -> set[int]:
    """Returns the outcomes whose names are written in their regions."""
    interval, rate = _positive(part["refresh_interval"].values), part["learning_rate"].values
    outcome = part["outcome"].transpose("learning_rate", "refresh_interval").values
    axes.set(xscale="log", yscale="log", ylim=(rate[0], rate[-1]), xlim=(interval[0], interval[-1]))
    names = {Outcome.UNSTABLE: "threshold", Outcome.OSCILLATING: "onset"}
    known = {int(code): _known(part, name) for code, name in names.items()}
    bends = {int(code): (lines["interval"], lines[f"{name}_exact"]) for code, name in names.items()}
    shade(axes, interval, rate, outcome, known, bends)
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
    return _name_regions(axes, interval, rate, outcome, part["threshold_law"].values)


def _known(part: "xarray.Dataset", name: str) -> np.ndarray:
    """Learning rates [N] as measured, or predicted where nothing was measured (beyond the grid)."""
    measured, exact = part[f"{name}_measured"].values, part[f"{name}_exact"].values
    return np.where(np.isnan(measured), exact, measured)


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


def _name_regions(axes: Axes, interval: np.ndarray, rate: np.ndarray, outcome: np.ndarray, law: np.ndarray) -> set[int]:
    """Write the name of each outcome along the middle of its region, clear of the law's line; returns the named."""
    named: set[int] = set()
    for code, name in REGION.items():
        middle, height = np.full(len(interval), np.nan), np.zeros(len(interval))
        for column in range(len(interval)):
            inside = rate[outcome[:, column] == code]
            if len(inside) < 3:
                continue
            low, high = float(inside[0]), float(inside[-1])
            if low < law[column] < high and law[column] / low > 1.5:
                high = float(law[column])
            middle[column], height[column] = np.sqrt(low * high), np.log(high / low)
        if not np.any(height > 0):
            continue
        place = np.log(interval / interval[0]) / np.log(interval[-1] / interval[0])
        inner = np.flatnonzero((place >= 0.25) & (place <= 0.75) & (height > 0))
        if not len(inner):
            continue
        column = int(inner[np.argmax(height[inner] - 2 * np.abs(place[inner] - 0.5))])
        named.add(int(code))
        narrow = height[column] < NARROW
        angle = _angle(interval, middle, column) if narrow else 0.0
        axes.text(
            interval[column],
            middle[column],
            name.replace("\n", " ") if narrow else name,
            ha="center",
            va="center",
            rotation=angle,
            rotation_mode="anchor",
            transform_rotates_text=True,
            fontsize=8 if narrow else 9,
            color="#333333",
            zorder=3,
        )
    return named


def _angle(interval: np.ndarray, middle: np.ndarray, column: int) -> float:
    """Angle in data coordinates, degrees, at which a narrow region runs near a column."""
    known = np.flatnonzero(np.isfinite(middle))
    ends = known[[0, -1]]
    slope = np.diff(np.log(middle[ends]))[0] / np.diff(np.log(interval[ends]))[0] if len(known) > 1 else 0.0
    return float(np.degrees(np.arctan(slope * middle[column] / interval[column])))


def _handles(results: "xarray.Dataset", fills: list[int]) -> list[Any]:
    """Lines and markers that are drawn, and the fills [codes] that no text in a region explains."""
    looks = {
        "threshold_law": (s.LAW, r"leading-order law $K \eta N = 1 - \mu$"),
        "threshold_exact": (s.EXACT, "exact threshold"),
        "threshold_measured": (s.MEASURED, "measured threshold"),
        "onset_exact": (s.ONSET, "onset of oscillation, exact"),
        "onset_measured": (s.MEASURED_ONSET, "onset, measured"),
    }
    shown = results.isel(kl_weight=0)
    entries = [look for name, look in looks.items() if name in shown and bool(shown[name].notnull().any())]
    if "sampled_boundary" in results:
        finite = (
            results["finite_group_threshold_exact"].attrs["drift"] if "finite_group_threshold_exact" in results else ""
        )
        entries.append((s.SAMPLED, f"sampled runs{', ' + finite if finite else ''}: half are lost"))
    handles: list[Any] = [Line2D([], [], label=label, **look) for look, label in entries]
    names = NOT_NAMED | {code: name.replace("\n", " ") for code, name in REGION.items()}
    return handles + [Patch(facecolor=s.FILL[code], edgecolor=s.GREY, label=names[Outcome(code)]) for code in fills]


def _legend(figure: Figure, results: "xarray.Dataset", fills: list[int]) -> None:
    """What is drawn, what counts as lost, and what was trained."""
    lost = results["sampled_boundary"].attrs.get("lost", "") if "sampled_boundary" in results else ""
    about = {"title": s.lines(f"lost: {lost}", figure.get_figwidth()), "title_fontsize": 7.5} if lost else {}
    figure.legend(handles=_handles(results, fills), loc="outside lower center", ncols=2, **about)
    drift = f"regions and lines: drift at {results.attrs['drift']}, {results.attrs['momentum_form']}"
    put_above(figure, verdict(results), [f"{s.trained(results)}; {drift}"])


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
