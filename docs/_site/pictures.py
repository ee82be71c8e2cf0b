"""The pictures of the theory's pages, drawn from `bandit_lab.theory`.

`python docs/_site/pictures.py` writes docs/pictures: SVG of one column's width. On a dark page the style sheet turns
them dark. A test draws each anew.
"""

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.pyplot import rc_context
from scipy.special import softmax

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.theory.conventions import Model
from experiments.shared.sheet import name_level, plain_log, ticks_at
from experiments.shared.theory.adaptive import adaptive_threshold, noise_second_moment
from experiments.shared.theory.two_cycle import flip_slope, two_cycle

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
WIDTH = 4.6  # inches: letters of 9 points are still legible where a phone shows it in 3.4
MODELS: Final[tuple[Model, ...]] = ("refresh", "lag", "pipeline")
EVEN = np.full(2, 0.5)
_RC: dict[Any, Any] = {
    "svg.hashsalt": "bandit_lab",
    "legend.handlelength": 1.5,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}
LEADER: dict[str, Any] = {"arrowstyle": "-", "color": s.GREEN, "shrinkB": 3}
DRAWN: dict[str, Callable[[Figure], None]] = {}
"""What draws a picture, by the name of its file."""


def picture(draw: Callable[[Figure], None]) -> Callable[[Figure], None]:
    DRAWN[draw.__name__] = draw
    return draw


def svg(name: str) -> str:
    """One picture as text that repeats to the byte."""
    buffer = io.StringIO()
    with s.style(), rc_context(_RC):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        DRAWN[name](figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def pair(figure: Figure, height: float, sizes: Sequence[float] = (1, 1), **how: Any) -> tuple[Axes, Axes]:
    """Two panels beside each other."""
    figure.set_figheight(height)
    left, right = figure.subplots(1, 2, width_ratios=sizes, **how)
    return left, right


def point_of(kl_weight: float = 1.0) -> tuple[theory.BinarySignal, theory.FixedPoint, theory.Split]:
    """The two arms of the pages (0.9 and 0.1, mean and std, G = infinity): signal, fixed point, stiffness."""
    signal = theory.BinarySignal(theory.GroupLaw("grpo"), (0.9, 0.1))
    point = theory.settled_point(signal, EVEN, kl_weight, EVEN)
    return signal, point, theory.stiffness_split(signal, point.policy, kl_weight)


def thresholds_over_law(ages: Sequence[int], momentum: float, model: Model) -> list[float]:
    return [theory.exact(model, n, momentum).kappa / theory.leading_order(n, momentum) for n in ages]


@picture
def drift(figure: Figure) -> None:
    """Reward pulls to the good arm, the KL term pulls back: their sum is the drift."""
    signal, point, split = point_of()
    gaps = np.linspace(-1, 5, 200)
    both = np.array([theory.mean_drift(signal, EVEN, 1.0, np.array([x, -x]) / 2) for x in gaps]) @ [1, -1]
    reward = np.array([theory.mean_drift(signal, EVEN, 0.0, np.array([x, -x]) / 2) for x in gaps]) @ [1, -1]
    stiffness, rest = theory.largest_stiffness(split), float(np.log(point.policy[0] / point.policy[1]))
    panel = figure.subplots()
    panel.axhline(0, color=s.GREY, linewidth=0.8)
    panel.plot(gaps, reward, color=s.GREEN, label="reward term")
    panel.plot(gaps, both - reward, color=s.VERMILION, label="KL term")
    panel.plot(gaps, both, color=s.BLUE, linewidth=2.2, label="drift: their sum")
    near = rest + np.array([-1.3, 1.3])
    panel.plot(near, -stiffness * (near - rest), **s.LAW, label=f"slope $-K = {-stiffness:.3f}$")
    panel.plot(rest, 0, **s.MEASURED)
    panel.annotate("fixed point", (rest, 0), (rest + 0.15, 0.1), fontsize=8)
    panel.set(xlabel="logit gap, good arm over bad arm", ylabel="mean change of the gap\nper step and unit of $\\eta$")
    panel.legend(loc="upper right", bbox_to_anchor=(1.02, 1.06))


@picture
def oscillator(figure: Figure) -> None:
    """Displacement against time, and the same against its velocity."""
    left, right = pair(figure, 2.7, (1.25, 1))
    steps = np.linspace(0, 160, 641)
    left.axhline(0, color=s.GREY, linewidth=0.8)
    for rate, colour in ((0.005, s.GREEN), (0.02, s.BLUE), (0.1, s.VERMILION)):
        osc = theory.oscillator(rate, momentum=0.9, stiffness=0.1382, lag=8)
        x = np.asarray(theory.displacement(osc, steps, 1.0))
        seen = np.cumsum(np.abs(x) > 2) == 0
        left.plot(steps[seen], x[seen], color=colour, label=f"$\\eta$ = {rate:g}: {osc.regime}")
        right.plot(x[seen], 10 * np.gradient(x, steps)[seen], color=colour)
    right.plot(1, 0, **s.MEASURED)
    right.annotate("start", (1, 0), (0.85, 0.18), ha="right", fontsize=8)
    right.plot(0, 0, marker="+", color=s.BLACK)
    left.set(xlabel="step", ylabel="displacement $x$ / start", ylim=(-2, 2))
    right.set(xlabel="displacement $x$", ylabel="$x'$, per 10 steps")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)


@picture
def staleness(figure: Figure) -> None:
    """Which policy acts at every update: the distance to the diagonal is its age."""
    interval, steps = 4, np.arange(13)
    figure.set_figheight(2.2)
    first = {"refresh": 0, "lag": interval, "pipeline": interval}
    for panel, model in zip(figure.subplots(1, 3, sharey=True), MODELS, strict=True):
        started = steps if model == "lag" else steps // interval * interval
        acting = np.maximum(started - first[model], 0)
        panel.plot(steps, steps, **s.LAW | {"color": s.GREY})
        colour = s.MODEL_COLOURS[model]
        panel.vlines(steps, acting, steps, color=colour, alpha=0.35, linewidth=3)
        panel.plot(steps, acting, linestyle="none", marker="o", markersize=3.5, color=colour, clip_on=False)
        panel.set_title(f"{s.MODEL_NAMES[model]}\nmean age {theory.mean_age(model, interval):g}")
        panel.set(xlabel="update", xlim=(0, 12), ylim=(0, 12), aspect="equal")
        ticks_at(panel.xaxis, (0, 4, 8, 12))
        ticks_at(panel.yaxis, (0, 4, 8, 12))
    figure.axes[0].set_ylabel("acting policy, of update")
    figure.axes[1].text(10.3, 7.6, "age", rotation=45, ha="center", va="center", fontsize=8)


@picture
def branch(figure: Figure) -> None:
    """The orbit of period two beyond a flip, and the straight line along which its amplitude squared begins."""
    signal, point, _ = point_of()
    rest = float(np.log(point.policy[0] / point.policy[1]))
    drift_at = lambda x: float(theory.gap_drift(np.asarray(x), signal, 0.0, 1.0))  # noqa: E731
    orbit, slope = two_cycle(drift_at, rest, 3.0), flip_slope(drift_at, rest)
    stable, dashed = np.abs(orbit.slope) <= 1, (0, (3, 2))
    left, right = pair(figure, 2.7, (1.25, 1))
    left.plot([0.4, 1], [point.expected_reward] * 2, color=s.BLUE, label="fixed point")
    left.plot([1, 1.4], [point.expected_reward] * 2, color=s.BLUE, linestyle=dashed)
    for end, label in ((orbit.low, "cycle of two blocks"), (orbit.high, None)):
        reward = signal.means @ np.array([1 / (1 + np.exp(-end)), 1 / (1 + np.exp(end))])
        left.plot(orbit.ratio[stable], reward[stable], color=s.VERMILION, label=label)
        left.plot(orbit.ratio[~stable], reward[~stable], color=s.VERMILION, linestyle=dashed)
    left.axvline(0.5, label="published law", **s.LAW)
    left.plot(1, point.expected_reward, marker="D", color=s.BLACK, markersize=4.5)
    left.annotate("flip", (0.98, point.expected_reward + 0.004), ha="right", fontsize=8)
    left.set(xlabel="$\\eta$ / threshold", ylabel="expected reward", xlim=(0.4, 1.4))
    right.plot(orbit.ratio, orbit.amplitude**2, color=s.VERMILION)
    right.plot([1, 1.3], [0, 0.3 * slope], label="normal form", **s.ONSET)
    right.set(xlabel="$\\eta$ / threshold", ylabel="amplitude$^2$ (nats$^2$)", xlim=(0.95, 1.4), ylim=(0, 0.45))
    right.legend(loc="upper left")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)


@picture
def loop(figure: Figure) -> None:
    """The linear loop: an optimiser, and a gradient that answers to an old position."""
    figure.set_figheight(1.7)
    panel = figure.subplots()
    panel.set(xlim=(0, 10), ylim=(0.2, 3.6))
    panel.set_axis_off()
    look: dict[str, Any] = {"boxstyle": "round,pad=0.45", "facecolor": s.FILL[1], "edgecolor": s.BLACK, "linewidth": 1}
    boxes = ((3.3, 2.7, "gradient\n$-K\\,y$"), (6.7, 2.7, "optimiser\n$\\eta$, momentum $\\mu$"))
    for x, y, text in (*boxes, (5.0, 0.8, "sampler: $y_t = x_{t-\\mathrm{age}}$\nA, B and C differ here alone")):
        panel.text(x, y, text, ha="center", va="center", bbox=look)
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": s.BLACK, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    for start, end in (((4.35, 2.7), (5.35, 2.7)), ((9.3, 0.8), (7.2, 0.8)), ((0.7, 2.7), (2.4, 2.7))):
        panel.annotate("", end, start, arrowprops=arrow)
    for xs, ys in (([8.05, 9.3, 9.3], [2.7, 2.7, 0.8]), ([2.8, 0.7, 0.7], [0.8, 0.8, 2.7])):
        panel.plot(xs, ys, color=s.BLACK, linewidth=1.2, solid_joinstyle="miter")
    panel.text(8.65, 2.85, "position $x$", ha="center", fontsize=8)
    panel.text(1.55, 2.85, "old $y$", ha="center", fontsize=8)


@picture
def thresholds(figure: Figure) -> None:
    """Threshold over the law: above 1 the law is conservative, below 1 it is unsafe."""
    intervals = np.unique(np.round(np.geomspace(1, 256, 60))).astype(int).tolist()
    for panel, momentum in zip(pair(figure, 2.6, sharey=True), (0.0, 0.9), strict=True):
        panel.axhspan(0.4, 1, color=s.FILL[3], linewidth=0)
        for model in MODELS:
            ratios = thresholds_over_law(intervals, momentum, model)
            panel.plot(intervals, ratios, color=s.MODEL_COLOURS[model], label=s.MODEL_NAMES[model])
        panel.axhline(1, **s.LAW, label="law")
        panel.set(title=f"momentum $\\mu$ = {momentum:g}", xlabel="refresh interval $N$, steps", xscale="log")
        panel.set(yscale="log", ylim=(0.5, 20), xlim=(1, 256))
        ticks_at(panel.xaxis, (1, 4, 16, 64, 256))
    ticks_at(figure.axes[0].yaxis, (0.5, 1, 2, 5, 10, 20))
    figure.axes[0].set_ylabel("threshold over the law's")
    name_level(figure.axes[1], 0.55, "law unsafe")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


@picture
def root_locus(figure: Figure) -> None:
    """Multipliers of model A as the learning rate rises, and the largest of them."""
    interval, momentum = 8, 0.9
    unit = theory.LinearLoop(0.0, 1.0, momentum, "refresh")
    ring, lost = (
        theory.oscillation_onset("refresh", interval, momentum),
        theory.exact("refresh", interval, momentum).kappa,
    )
    law = theory.leading_order(interval, momentum)
    kappas = np.unique([*np.geomspace(ring / 30, 3 * lost, 160), *(ring * (1 + np.linspace(-0.1, 0.1, 41) ** 3)), lost])
    roots = np.array([theory.multipliers(unit, kappa, interval) for kappa in kappas])
    roots = np.take_along_axis(roots, np.argsort(1e6 * roots.imag + roots.real), -1)  # one branch in each column
    left, right = pair(figure, 2.7, (1.1, 1))
    turn = np.exp(2j * np.pi * np.linspace(0, 1, 200))
    left.fill(turn.real, turn.imag, color=s.FILL[1], edgecolor=s.BLACK, linewidth=1)
    for part, colour in ((kappas <= lost, s.BLUE), (kappas >= lost, s.VERMILION)):
        left.plot(roots[part].real, roots[part].imag, linewidth=1.8, color=colour)
    for start in (1.0, momentum**interval):
        left.plot(start, 0, marker="x", color=s.BLACK, markersize=6)
    met = theory.multipliers(unit, ring, interval)[0].real
    out = theory.multipliers(unit, lost, interval)[:2]
    left.plot(met, 0, **s.MEASURED_ONSET)
    left.plot(out.real, out.imag, **s.MEASURED)
    left.annotate("onset", (met, 0), (0.25, -0.3), ha="right", fontsize=8, color=s.GREEN, arrowprops=LEADER)
    left.annotate("threshold", (out.real[0], abs(out.imag[0])), (0.35, 1.22), ha="center", fontsize=8)
    left.set(
        xlim=(-1.15, 1.35), ylim=(-1.4, 1.45), aspect="equal", xlabel="real part of $z$", ylabel="imaginary part of $z$"
    )
    right.axhspan(1, 2, color=s.FILL[3], linewidth=0)
    right.plot(kappas / law, np.abs(roots).max(-1), color=s.BLUE, linewidth=1.8)
    right.axvline(1, **s.LAW)
    right.plot(ring / law, met, **s.MEASURED_ONSET)
    right.plot(lost / law, 1, **s.MEASURED)
    right.set(
        xscale="log",
        xlim=(0.02, 8),
        ylim=(0.4, 1.6),
        xlabel="$\\kappa$ over the law's",
        ylabel="largest $|z|$, per block",
    )
    ticks_at(right.xaxis, (0.1, 1, 5))
    right.text(0.85, 0.45, "law", ha="right", fontsize=8)
    right.text(0.03, 1.5, "grows", fontsize=8)


@picture
def fixed_points(figure: Figure) -> None:
    """Where the signal and the KL term balance: two points, one, or none."""
    signal = theory.BinarySignal(theory.GroupLaw("grpo"), (1.0, 0.0))
    critical = theory.critical_kl_weight(signal, EVEN)
    assert critical is not None
    tilts = np.linspace(0, 6, 300)
    panel = figure.subplots()
    panel.plot(
        tilts, [signal.factor(softmax(x * signal.means)) for x in tilts], color=s.BLUE, label="signal $h(\\pi(x))$"
    )
    ends = ((1.2, "none: runs to the vertex"), (critical, "critical"), (2.0, "two"))
    for (weight, text), line in zip(ends, ("--", "-.", "-"), strict=True):
        panel.plot(
            tilts,
            weight * tilts,
            color=s.BLACK,
            linewidth=1.1,
            linestyle=line,
            label=f"$\\beta$ = {weight:.3g}: {text}",
        )
    for point in theory.fixed_points(signal, EVEN, 2.0):
        at, filled = (point.tilt, 2 * point.tilt), s.BLACK if point.attracts else "white"
        panel.plot(*at, **s.MEASURED | {"markersize": 6, "markerfacecolor": filled})
        word, offset = ("attracts", (-4, 7)) if point.attracts else ("repels", (-8, 2))
        panel.annotate(word, at, offset, textcoords="offset points", ha="right", fontsize=8)
    panel.set(xlabel="logit gap $x$ from the reference", ylabel="$h$ and $\\beta x$, reward", xlim=(0, 6), ylim=(0, 9))
    panel.legend(loc="upper left")


@picture
def estimators(figure: Figure) -> None:
    """How an estimator splits the stiffness, and what long blocks then do."""
    left, right = pair(figure, 2.6, (1, 1.1))
    signal, point, _ = point_of()
    names = ("frozen", "uncorrected", "ratio")
    for place, name in enumerate(names):
        fresh, stale = (float(part[0, 0]) for part in theory.stiffness_split(signal, point.policy, 1.0, name).reduced())
        left.barh(
            place - 0.2,
            fresh,
            0.38,
            color=s.SKY,
            edgecolor=s.BLACK,
            linewidth=0.8,
            label="fresh" if place == 0 else None,
        )
        left.barh(
            place + 0.2,
            stale,
            0.38,
            color=s.ORANGE,
            edgecolor=s.BLACK,
            linewidth=0.8,
            hatch="///",
            label="stale" if place == 0 else None,
        )
    left.axvline(0, color=s.BLACK, linewidth=0.8)
    left.set_yticks(range(3), names)
    left.invert_yaxis()
    left.set(xlabel="stiffness, reward per logit$^2$")
    intervals = np.arange(1, 257)
    right.axhspan(1, 1.4, color=s.FILL[3], linewidth=0)
    for momentum, colour in ((0.0, s.GREEN), (0.9, s.BLUE)):
        mixed = theory.LinearLoop(0.2, 0.16, momentum, "refresh")
        right.plot(
            intervals,
            [theory.spectral_radius(mixed, 0.05, int(n)) for n in intervals],
            color=colour,
            label=f"$\\mu$ = {momentum:g}",
        )
    right.axhline(0.8, color=s.GREY, linestyle=":", linewidth=1.2)
    right.text(250, 0.75, "limit, 0.8", ha="right", va="top", fontsize=8)
    right.text(250, 1.33, "unstable", ha="right", va="top", fontsize=8)
    right.set(xlabel="refresh interval $N$, steps", ylabel="largest $|z|$, per block", ylim=(0, 1.4), xlim=(0, 256))
    right.legend(loc="lower right")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=2)


@picture
def noise(figure: Figure) -> None:
    """Fluctuations grow towards the threshold, and the factor of a finite group on the mean gradient."""
    left, right = pair(figure, 2.5)
    fractions = np.linspace(0.02, 0.98, 60)
    for interval, colour in ((1, s.GREEN), (8, s.BLUE)):
        unit = theory.LinearLoop(0.0, 1.0, 0.9, "refresh")
        critical = theory.exact("refresh", interval, 0.9).kappa
        warning = theory.early_warning(unit, critical, interval, np.array([[1.0]]), fractions)
        left.plot(fractions, warning, color=colour, label=f"A, $N$ = {interval}")
    left.axvline(1, color=s.BLACK, linewidth=0.8)
    left.set(
        xlabel="learning rate over threshold",
        ylabel="variance over its\nsmall-step value",
        yscale="log",
        xlim=(0, 1.02),
    )
    ticks_at(left.yaxis, (1, 2, 5, 10, 20, 50))
    left.legend(loc="upper left")
    success = np.linspace(0.01, 0.99, 99)
    for size, colour in ((4, s.VERMILION), (16, s.ORANGE), (64, s.SKY)):
        right.plot(success, theory.GroupLaw("grpo", size).group_factor(success), color=colour, label=f"$G$ = {size}")
    right.axhline(1, **s.LAW)
    right.set(xlabel="success probability $p$", ylabel="factor $c_G(p)$", ylim=(0, 1.08), xlim=(0, 1))
    right.legend(loc="lower center")


@picture
def complex_stiffness(figure: Figure) -> None:
    """Threshold over the law against the angle of a complex stiffness."""
    figure.set_figheight(2.5)
    panel = figure.subplots()
    degrees = np.linspace(0, 85, 120)
    law = theory.leading_order(2, 0.97)
    panel.axhspan(1e-3, 1, color=s.FILL[3], linewidth=0)
    for model in MODELS:
        ratios = [theory.exact(model, 2, 0.97, angle=a).kappa * np.cos(a) / law for a in np.radians(degrees)]
        panel.plot(degrees, ratios, color=s.MODEL_COLOURS[model], label=s.MODEL_NAMES[model])
    panel.axhline(1, **s.LAW, label="law")
    panel.text(3, 0.02, "law unsafe", fontsize=8)
    panel.set(
        xlabel="angle $\\varphi$ of the stiffness, degrees",
        ylabel="threshold over the law's",
        yscale="log",
        ylim=(0.01, 8),
        xlim=(0, 85),
    )
    plain_log(panel.yaxis, (1.0,))
    panel.legend(ncols=2)


@picture
def adam(figure: Figure) -> None:
    """The threshold with the second moment held, and what the moment does when it is not."""
    left, right = pair(figure, 2.5)
    sizes = 2 ** np.arange(2, 11)
    held = []
    for size in sizes.tolist():
        law = theory.GroupLaw("grpo", size)
        signal = theory.BinarySignal(law, (0.9, 0.1))
        point = theory.settled_point(signal, EVEN, 1.0, EVEN)
        moment = noise_second_moment(theory.binary_covariance(law, signal.means, point.policy))
        held.append(adaptive_threshold(theory.stiffness_split(signal, point.policy, 1.0), moment, "refresh", 4).kappa)
    left.plot(sizes, held, color=s.BLUE, marker="o", markersize=3.5)
    left.plot(sizes, held[-1] * (sizes / sizes[-1]) ** -0.5, **s.LAW, label="$\\propto 1/\\sqrt{G}$")
    left.set(xscale="log", yscale="log", xlabel="group size $G$", ylabel="held threshold, $\\eta$")
    ticks_at(left.xaxis, (4, 16, 64, 256, 1024))
    plain_log(left.yaxis)
    left.legend()
    seen = np.linspace(0.19, 1.995, 300)
    nominal = seen * np.sqrt(2 / (2 - seen))
    right.axhspan(2, 3, color=s.FILL[3], linewidth=0)
    right.plot((0.2, 3), (0.2, 3), **s.LAW, label="moment held")
    right.plot(nominal, seen, color=s.BLUE, linewidth=1.8, label="moment follows")
    right.set(xscale="log", ylim=(0, 2.6), xlim=(0.2, 20), xlabel="$\\eta K / \\sqrt{C}$", ylabel="effective $\\kappa$")
    right.text(19, 2.3, "unstable", ha="right", fontsize=8)
    ticks_at(right.xaxis, (0.2, 1, 2, 5, 20))
    right.legend(loc="lower right")


@picture
def ages(figure: Figure) -> None:
    """Threshold against the mean age, for three distributions of ages, beside the bound from the mean age."""
    means = np.unique(np.round(np.geomspace(1, 64, 24) * 2)) / 2
    for panel, momentum in zip(pair(figure, 2.8, sharey=True), (0.0, 0.9), strict=True):
        bound = (1 - momentum) / means
        panel.fill_between(means, bound, 1e-4, color=s.FILL[1], linewidth=0)
        panel.plot(means, bound, **s.LAW, label="safe below: $(1-\\mu)$ / mean age")
        whole = means[means == np.round(means)]
        panel.plot(
            whole, [theory.exact("lag", int(a), momentum).kappa for a in whole], color=s.VERMILION, label="constant age"
        )
        uniform = [np.full(int(2 * a) + 1, 1 / (2 * a + 1)) for a in means]
        panel.plot(
            means,
            [theory.averaged_ages_threshold(q, momentum).kappa for q in uniform],
            color=s.BLUE,
            linestyle="-.",
            label="uniform ages",
        )
        panel.plot(
            means,
            [theory.averaged_threshold(a, momentum).kappa for a in means],
            color=s.GREEN,
            linestyle=(0, (4, 1.2)),
            label="geometric ages",
        )
        panel.set(title=f"momentum $\\mu$ = {momentum:g}", xlabel="mean age, updates", xscale="log", yscale="log")
        panel.set(xlim=(1, 64), ylim=(1e-3, 20))
        ticks_at(panel.xaxis, (1, 2, 4, 8, 16, 32, 64))
    plain_log(figure.axes[0].yaxis, (1.0,))
    figure.axes[0].set_ylabel("threshold $\\kappa_c = \\eta_c K$")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)


@picture
def sampler(figure: Figure) -> None:
    """Where training rests under a hot and a cold sampler, and below which KL weight it collapses."""
    left, right = pair(figure, 2.7)
    gaps = np.linspace(0, 9, 400)
    signal = theory.BinarySignal(theory.GroupLaw("dr_grpo"), (1.0, 0.0))
    for tau, colour, line in ((0.8, s.BLUE, "-."), (1.0, s.GREEN, "-"), (1.25, s.VERMILION, (0, (4, 1.2)))):
        pull = np.cosh(gaps / 2) ** 2 / np.cosh(gaps / tau / 2) ** 2
        left.plot(gaps, pull, color=colour, linestyle=line, label=f"$\\tau$ = {tau:g}")
    for weight in (0.4, 0.6):
        left.plot(gaps, weight * gaps, color=s.GREY, linestyle=":", linewidth=1.2)
    left.text(4.7, 3.15, "$\\beta$ = 0.6", ha="right", fontsize=8)
    left.text(8.95, 2.55, "$\\beta$ = 0.4", ha="right", fontsize=8)
    left.set(xlabel="logit gap $x$", ylabel="pull of the reward, $s(y)/s(x)$", xlim=(0, 9), ylim=(0, 3.6))
    left.legend(loc="lower right", bbox_to_anchor=(1.02, 0.29))
    taus = np.linspace(1.01, 1.6, 40)
    critical = np.array(
        [theory.SampledTwoArms(signal, theory.ActingLaw(tau=t)).critical_kl_weight() for t in taus], float
    )
    right.fill_between(taus, 0, critical, color=s.FILL[3], linewidth=0)
    right.plot(taus, critical, color=s.VERMILION)
    right.plot(taus, math.e * (1 - 1 / taus), **s.LAW, label="$e\\,(1 - 1/\\tau)$")
    right.text(1.42, 0.2, "collapses", ha="center", fontsize=8)
    right.set(xlabel="temperature $\\tau$", ylabel="KL weight $\\beta$", xlim=(1, 1.6), ylim=(0, 1.1))
    right.legend(loc="upper left")


def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name in DRAWN:
        (FOLDER / f"{name}.svg").write_text(svg(name), encoding="utf-8")


if __name__ == "__main__":
    main()
