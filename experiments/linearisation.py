"""How far from the fixed point does the linear threshold hold, and what lies beyond it?

Prediction (written before the run). Threshold of the linear map (bandit_lab/theory/thresholds.py); arXiv 2606.30789 has
the boundary track its law where the linearisation holds. Model A (refresh) loses stability by a flip here; the orbit of
period two beyond it is known exactly and depends on the learning rate over its threshold alone
(shared/theory/two_cycle.py). It exists only above the threshold, hence at zero momentum the linear threshold is the
boundary for starts at any distance. For models B (lag) and C (pipeline) there is no such proof: the same is tried. A
run thrown far out comes to a flat place and takes long to return, so that shorter runs see an earlier boundary. Which
starts the first block throws out for the whole run, and at which learning rate: shared/theory/excursion.py. So the
map of basins of model A at zero momentum: below the threshold all starts return; above it they end on the orbit or a
longer cycle, but for those that are thrown out.
Setting: experiments/linearisation.yaml. Measured: the smallest learning rate from which a run that starts displaced
does not return, against its displacement; the range of the logit gap at the starts of blocks, late in runs above the
threshold; what becomes of every start at every learning rate. Drawn: all three, with the exact orbit (dotted where it
repels) and the edges of what is thrown out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from bandit_lab import measure as detectors, theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared import sheet
from experiments.shared.measure.late_time import return_boundary, tail_range
from experiments.shared.theory.excursion import edges, place_of_return, thrown_out
from experiments.shared.theory.two_cycle import TwoCycle, two_cycle

TITLE = "How far the linear threshold holds"
FINDING = "The linear threshold holds for large displacements too; beyond it runs cycle or are thrown out"

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient"}
GAP = {"units": "logits", "long_name": "amplitude of the logit gap"}
LETTERS = {"refresh": "A", "lag": "B", "pipeline": "C"}
ALONG = np.array([1.0, -1.0])


def coordinates(setting: Setting) -> dict:
    loop = [f"{LETTERS[model]}, N = {n}, mu = {mu:g}" for model, n, mu in setting.loops]
    return {"loop": loop, "displacement": setting.displacement, "steps": setting.steps, "excess": setting.excess}


FAR = 10.0  # logits from the fixed point: a run farther out stays for long where the policy hardly moves
RETURNS, CYCLES, THROWN = 0, 1, 2
BISECTIONS = 12  # of a step of the scan: to 1e-5, so that what is read is where runs return and not the last bracket
BASIN = {"units": "1", "long_name": "0: returns, 1: stays within 10 logits, 2: farther out"}


def basin_axes(setting: Setting) -> dict[str, np.ndarray]:
    """Learning rates over the linear threshold, and displacements of the logit gap at the start."""
    scans = {"ratio": setting.basins.ratio, "start": setting.basins.start}
    return {name: np.linspace(scan.start, scan.stop, scan.num) for name, scan in scans.items()}


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Thresholds and the amplitude of the exact orbit."""
    signal, even = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards)), np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))

    def drift(gap: float) -> float:
        return float(ALONG @ theory.mean_drift(signal, even, setting.kl_weight, 0.5 * gap * ALONG))

    gap = float(ALONG @ np.log(point.policy))
    orbit = two_cycle(drift, gap, 10.0)
    threshold = [theory.exact(model, n, mu).kappa / stiffness for model, n, mu in setting.loops]
    ratio = 1 + np.array(setting.excess)
    amplitude = np.sqrt(np.interp(ratio, orbit.ratio, orbit.amplitude**2, right=np.nan))  # a root at the threshold
    thin = slice(None, None, 2)
    values = {
        "threshold": ("loop", threshold, RATE),
        "amplitude": ("excess", amplitude, GAP),
        "orbit_ratio": ("orbit", orbit.ratio[thin], {"units": "1", "long_name": "learning rate over threshold"}),
        "orbit_amplitude": ("orbit", orbit.amplitude[thin], GAP),
        "orbit_slope": ("orbit", orbit.slope[thin], {"units": "1", "long_name": "slope over two blocks, mu = 0"}),
        "least_orbit_ratio": ((), float(orbit.ratio.min()), {"units": "1"}),
    }
    basins = _predicted_basins(setting, drift, gap, stiffness, orbit)
    return xarray.Dataset(values, coordinates(setting)).merge(basins)


def _predicted_basins(
    setting: Setting, drift: Callable[[float], float], fixed: float, stiffness: float, orbit: TwoCycle
) -> xarray.Dataset:
    """The first loop: what becomes of every start, the edges of what the first block throws out, the orbit's points."""
    axes, interval = basin_axes(setting), setting.loops[0][1]
    fine = np.linspace(axes["ratio"][0], axes["ratio"][-1], 161)
    ends = fixed + axes["start"][0], fixed + axes["start"][-1]

    def limits(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        push = 2 * ratio / stiffness
        return push, place_of_return(drift, fixed, FAR, push / interval * setting.basins.steps)

    thrown = thrown_out(drift, fixed + axes["start"], *limits(axes["ratio"]))
    above = np.broadcast_to(axes["ratio"][:, None] > 1, thrown.shape)
    basin = np.where(above, np.where(thrown, float(THROWN), float(CYCLES)), float(RETURNS))
    edge = edges(drift, *ends, *limits(fine)) - fixed
    edge[fine < 1] = np.nan
    outside = {"left": np.nan, "right": np.nan}
    points = [np.interp(fine, orbit.ratio, side - fixed, **outside) for side in (orbit.low, orbit.high)]
    slope = np.interp(fine, orbit.ratio, orbit.slope, **outside)
    shown = {"units": "logits", "long_name": "displacement"}
    values = {
        "basin": (("ratio", "start"), basin, BASIN),
        "thrown_edge": (("fine_ratio", "side"), edge, shown),
        "orbit_point": (("fine_ratio", "side"), np.transpose(points), shown),
        "point_slope": ("fine_ratio", slope, {"units": "1", "long_name": "slope over two blocks"}),
    }
    return xarray.Dataset(values, axes | {"fine_ratio": fine, "side": [0, 1]})


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Boundary against displacement, and range of the gap above the threshold, for every loop."""
    parts = {f"loop {place}": partial(_one_loop, setting, place) for place in range(len(setting.loops))}
    loops = xarray.concat(list(lab.keep_each(parts).values()), "loop").assign_coords(coordinates(setting))
    return loops.merge(lab.keep("basins", partial(_measured_basins, setting, float(loops.threshold[0]))))


def _measured_basins(setting: Setting, threshold: float) -> xarray.Dataset:
    """What becomes of runs of the first loop that start anywhere, below and above the threshold."""
    axes, (model, interval, momentum) = basin_axes(setting), setting.loops[0]
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=interval)
    fixed = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight).rest
    ratio, away = (one.ravel() for one in np.meshgrid(*axes.values(), indexing="ij"))
    columns = np.broadcast_arrays(threshold * ratio, momentum, interval, setting.kl_weight)
    theta, start = np.tile(fixed, (ratio.size, 1)), fixed + 0.5 * away[:, None] * ALONG
    cells = Hyper(*(np.array(column) for column in columns))
    reach = tail_range(learner, "mean_field", cells, theta, start, ALONG, setting.basins.steps)
    farthest = np.abs(reach).max(axis=1)
    codes = [RETURNS, THROWN]
    basin = np.select([farthest < setting.basins.returned, farthest > FAR], codes, CYCLES).reshape(
        len(axes["ratio"]), -1
    )
    return xarray.Dataset({"basin": (("ratio", "start"), basin.astype(float), BASIN)}, axes)


def _one_loop(setting: Setting, place: int) -> xarray.Dataset:
    model, interval, momentum = setting.loops[place]
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=interval)
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)

    def cells(rates: np.ndarray) -> tuple[Hyper, np.ndarray]:
        ones = np.ones(len(rates))
        hyper = Hyper(rates, momentum * ones, np.full(len(ones), interval), setting.kl_weight * ones)
        return hyper, np.tile(point.rest, (len(ones), 1))

    wide = np.geomspace(1e-2, 1e2, 40)
    small = detectors.learning_rate_boundary(learner, "mean_field", *cells(np.ones(1)), ALONG / 2, wide).value[0]
    away = np.array(setting.displacement)
    hyper, theta = cells(np.ones(len(away)))
    grid = small * np.linspace(setting.scan.start, setting.scan.stop, setting.scan.num)
    start = theta + 0.5 * away[:, None] * ALONG
    boundary = [
        return_boundary(learner, "mean_field", hyper, theta, start, ALONG, grid, steps, BISECTIONS).value
        for steps in setting.steps
    ]
    hyper, theta = cells(small * (1 + np.array(setting.excess)))
    start = theta + 0.5 * setting.cycle_start * ALONG
    reach = tail_range(learner, "mean_field", hyper, theta, start, ALONG, setting.steps[0])
    values = {
        "threshold": ((), small, RATE),
        "boundary": (("steps", "displacement"), boundary, RATE),
        "amplitude": ("excess", 0.5 * (reach[:, 1] - reach[:, 0]), GAP),
        "farthest": ("excess", np.abs(reach).max(axis=1), {"units": "logits", "long_name": "largest displacement"}),
    }
    return xarray.Dataset(values)


# Picture.

FILLS = ("#D9ECF9", "#FCEBC4", "#E8A07A")
THROWN_LABEL = (-2.9, 1.7)  # where the first block throws out
COLOURS = (s.BLUE, s.PURPLE, s.GREEN, s.VERMILION)
MARKERS = ("o", "^", "s", "D")
TOP = 12.0  # logits: where runs farther out are drawn


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(sheet.two_arms(setting.rewards), "GRPO with std; heavy ball", kl_weight=setting.kl_weight)


def draw(figure: Figure, results: Results) -> None:
    """Boundary over prediction against displacement; amplitude against learning rate; map of basins."""
    sheet.fill(figure, results, (_draw_boundary, _draw_amplitude, _draw_basins), height=7.2)


def _loops(results: Results) -> Any:
    """(place, look) of every loop."""
    for place, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        yield place, s.MEASURED | {"color": colour, "marker": marker, "markersize": 3.4}


def _name_loops(panel: Axes, results: Results, left: float, top: float) -> None:
    """Marker and name of every loop, in axes coordinates."""
    for place, look in _loops(results):
        name = str(results.measured.loop.values[place]).replace("mu", r"$\mu$").replace("N", "$N$")
        sheet.name_marker(panel, left, top - 0.085 * place, name, look)


def _draw_boundary(panel: Axes, results: Results) -> None:
    panel.axhline(1, **s.EXACT | {"linewidth": 1.2})
    for place, look in _loops(results):
        measured = results.measured.isel(loop=place)
        ratio = measured.boundary / results.predicted.threshold.isel(loop=place)
        panel.plot(measured.displacement, ratio.isel(steps=-1), **look)
        panel.plot(
            measured.displacement, ratio.isel(steps=0), **look | {"marker": "", "linestyle": ":", "linewidth": 1}
        )
    short, long = (f"{steps:,}" for steps in results.setting.steps)
    note = f"line: predicted\nmarkers: measured, {long} steps\ndotted: measured, {short} steps"
    sheet.note(panel, 0.97, 0.06, note, ha="right")
    _name_loops(panel, results, 0.33, 0.7)
    panel.set(xlabel="displacement at the start (logits)", ylabel="boundary / linear threshold", ylim=(0.45, 1.1))


def _draw_amplitude(panel: Axes, results: Results) -> None:
    excess = np.array(results.setting.excess)
    for place, look in _loops(results):
        measured = results.measured.isel(loop=place)
        lost = measured.farthest.values > FAR
        panel.plot(excess[~lost], measured.amplitude[~lost], **look | {"clip_on": True})
        if lost.any():
            panel.plot(excess[lost], np.full(lost.sum(), TOP), **look)
    if (results.measured.farthest > FAR).any():
        sheet.note(panel, 0.9, 0.95, "thrown\nfar out", ha="right", va="center")
    beyond, amplitude = results.predicted.orbit_ratio - 1, results.predicted.orbit_amplitude
    attracts = np.abs(results.predicted.orbit_slope) < 1
    panel.plot(beyond.where(attracts), amplitude, **s.EXACT | {"linewidth": 1.2})
    panel.plot(beyond.where(~attracts), amplitude, **s.EXACT | {"linewidth": 1.2, "linestyle": ":"})
    panel.set(xscale="log", yscale="log", xlim=(excess[0] / 1.5, excess[-1] * 1.5), ylim=(0.04, 1.25 * TOP))
    panel.set(xlabel=r"$\eta$ / threshold - 1", ylabel="amplitude of the gap (logits)")
    _name_loops(panel, results, 0.06, 0.95)
    note = "line: predicted (A)\ndotted: repels\nmarkers: measured"
    sheet.note(panel, 0.97, 0.05, note, ha="right", va="bottom")
    sheet.ticks_at(panel.xaxis, (0.01, 0.03, 0.1, 0.3, 1))
    sheet.plain_log(panel.yaxis, (1.0,))


def _draw_basins(panel: Axes, results: Results) -> None:
    """Fills are measured, lines predicted."""
    basin, line = results.measured.basin, s.EXACT | {"linewidth": 1.4}
    panel.pcolormesh(
        basin.start, basin.ratio, basin, cmap=ListedColormap(FILLS), vmin=-0.5, vmax=2.5, shading="nearest", linewidth=0
    )
    panel.axhline(1, **line)
    ratio, attracts = results.predicted.fine_ratio, np.abs(results.predicted.point_slope) < 1
    for side in results.predicted.side:
        panel.plot(results.predicted.thrown_edge.sel(side=side), ratio, **line)
        point = results.predicted.orbit_point.sel(side=side)
        panel.plot(point.where(attracts), ratio, **line | {"linewidth": 1})
        panel.plot(point.where(~attracts), ratio, **line | {"linewidth": 1, "linestyle": ":"})
    text: dict[str, Any] = {"fontsize": 7, "ha": "center", "va": "center"}
    panel.text(0.5 * float(basin.start[0] + basin.start[-1]), 0.5 * float(1 + basin.ratio[0]), "all return", **text)
    panel.text(0.7 * float(basin.start[-1]), 1.75, "cycle", **text)
    panel.text(THROWN_LABEL[0], THROWN_LABEL[1], "thrown\nfar out", **text)
    sheet.note(panel, 0.97, 0.04, "fills measured, lines predicted", ha="right", va="center")
    panel.set(xlabel="displacement at the start (logits)", ylabel=r"$\eta$ / threshold")
    panel.set_title(str(results.measured.loop.values[0]).replace("mu", r"$\mu$").replace("N", "$N$"), fontsize=7)


# Claims.

SLOW_RETURN = (
    "A run that starts 2 logits below the fixed point overshoots to 11 logits above it, where the policy hardly moves: "
    "64,000 steps are too few to come back. It is no other basin: within 500,000 steps all tried are back (0.98 to "
    "0.998 of the threshold). All starts nearer than 2 logits are within the tolerance."
)


def _boundary_claim(place: int, name: str, statement: str, explanation: str = "") -> Claim:
    # Close to the threshold a run takes longer to return than it lasts: the tolerance in the setting is some ten
    # e-foldings of a distance from the threshold, about 30 steps each at distance 1, over the steps; and a bracket.
    return Claim.one(
        f"linearisation.{name}",
        f"{statement}: boundary over linear threshold, the farthest from 1 over all starts, in the longer runs",
        "arXiv 2606.30789 (law); derived in bandit_lab/theory/thresholds.py and two_cycle.py",
        measured=lambda f: farthest_from_one(
            f.measured.boundary.isel(loop=place, steps=-1), f.predicted.threshold.isel(loop=place)
        ),
        tolerance=lambda f: f.setting.tolerance,
        fails_if="a cycle or another attractor took starts away below the linear threshold",
        explanation=explanation,
    )


def _amplitude_claim(place: int, name: str, statement: str) -> Claim:
    # The orbit is exact; at this distance from the threshold runs settle to it within the steps.
    return Claim(
        f"linearisation.{name}",
        f"{statement}: half the range of the logit gap 5 % above the threshold, the exact orbit of period two",
        "derived in shared/theory/two_cycle.py",
        predicted=lambda f: float(f.predicted.amplitude.sel(excess=f.setting.claimed_excess)),
        measured=lambda f: float(f.measured.amplitude.isel(loop=place).sel(excess=f.setting.claimed_excess)),
        tolerance=5e-3,
        relative=True,
        unit="logits",
        fails_if="runs ended on another orbit, or its width depended on more than the learning rate over its threshold",
    )


CLAIMS = (
    _boundary_claim(0, "a", "Model A without momentum"),
    _boundary_claim(1, "a_momentum", "Model A with momentum 0.5", SLOW_RETURN),
    _boundary_claim(2, "b", "Model B with momentum 0.9"),
    _boundary_claim(3, "c", "Model C with momentum 0.9"),
    _amplitude_claim(0, "amplitude", "Model A without momentum"),
    _amplitude_claim(1, "amplitude_momentum", "Model A with momentum 0.5, N = 8, the same"),
    # Starts that a later block throws out, and at draft those on their way back at the end: see the setting.
    Claim.one(
        "linearisation.basins",
        "Map of basins, model A without momentum: share of (start, learning rate) that return, cycle or are thrown out "
        "by the first block as predicted",
        "derived in shared/theory/two_cycle.py and excursion.py",
        measured=lambda f: float((f.measured.basin == f.predicted.basin).mean()),
        tolerance=lambda f: f.setting.basins.tolerance,
        fails_if="more than one start in fifty ended elsewhere",
        post_hoc="after a first run the starts were moved off the fixed point itself, which stays there",
    ),
)
