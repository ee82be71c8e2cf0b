"""By how much does the noise of real groups hold a network below its edge of stability, against the group size?

Prediction (written before the runs). At the edge a run swings, and the mean square of its swings s^2 holds K there: the
path is pushed to flatter places by s^2 times the slope of K, at the rate at which the flow sharpens (arXiv 2209.15594
for supervised learning). Just below the edge noise swings the run as well. With d = 1 - K/edge the multiplier of a
block is m = 1 - 2(1 - d), and a variance C/G a block is amplified to s^2 = C/(G (1 - m^2)) = C/(4 G d (1 - d)). The
s^2 that is needed is that of the flow's sharpening, whatever G: so d(1 - d) falls as 1/G, derived here. The stiffness
is that of the mean update at this G.
Setting: conf/experiment/noisy_edge.yaml. Measured: stiffness along the averaged path of runs with sampled groups,
median over the last third. Drawn: it over the edge against time, and d(1 - d) against G.
"""

from functools import partial

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import BANDITS, Bandit
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.lab.reproduce import sheet
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.measure.averaged_path import averaged_path, stiffness_of_paths

TITLE = "The edge of stability under group noise"
FINDING = "Group noise holds a network below its edge at every group size"

# What prediction and measurement are both told.

RATIO, TIME = {"units": "1"}, {"units": "steps of unit learning rate"}
STIFFNESS = {"units": "reward per squared parameter"}
LAST = 2 / 3
"""Share of a run after which its plateau is read."""


def bandit_of(setting: Setting, seed: int) -> Bandit:
    """The network with the weights of one seed."""
    found: Bandit = BANDITS.build("neural", setting.bandit.as_dict() | {"seed": seed})
    return found


def rate_of(setting: Setting) -> float:
    """The learning rate."""
    return float(2 / (setting.interval * setting.edge))


def coordinates(setting: Setting) -> dict[str, object]:
    """Axes of the datasets."""
    time = (np.arange(setting.checks) + 0.5) * setting.duration / setting.checks
    return {
        "group_size": ("group_size", setting.sizes, RATIO),
        "seed": ("seed", np.arange(setting.seeds), RATIO),
        "time": ("time", time, TIME),
    }


# Prediction: theory alone.

STEP = 0.05  # of the flow's integration


def predict(setting: Setting) -> xarray.Dataset:
    """The flow's stiffness over the edge, without noise; the power of G with which d(1 - d) falls."""
    edge = theory.edge("refresh", setting.interval, 0.0, rate_of(setting))
    coords = coordinates(setting)
    times = coords["time"][1]  # type: ignore[index]
    climbs = [theory.climb_of(bandit_of(setting, k), setting.kl_weight) for k in range(setting.seeds)]
    flow = [theory.sharpness(c, "grpo", theory.follow(c, "grpo", times, STEP)) / edge for c in climbs]
    columns = {
        "flow": (("seed", "time"), np.array(flow), RATIO),
        "power": ((), -1.0, RATIO),
        "edge": ((), edge, STIFFNESS),
    }
    return xarray.Dataset(columns, coords)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Stiffness of the averaged path of runs with sampled groups."""
    kept = lab.keep_each({f"G {size}": partial(_runs, setting, size) for size in setting.sizes})
    found = xarray.concat([kept[f"G {size}"] for size in setting.sizes], "group_size")
    return found.assign_coords(coordinates(setting))


def _runs(setting: Setting, size: int) -> xarray.Dataset:
    bandits = [bandit_of(setting, k) for k in range(setting.seeds)]
    learner, rate = Learner(bandits[0], group_size=size), rate_of(setting)
    hyper = Hyper(np.full(setting.seeds, rate), 0.0, setting.interval, setting.kl_weight)
    block = setting.interval * rate  # in time
    every = setting.interval * round(setting.duration / setting.checks / block)
    seen = averaged_path(learner, "sampled", bandits, hyper, setting.checks, every)
    stiffness = stiffness_of_paths(learner, "finite_group", bandits, setting.kl_weight, seen.mean)
    return xarray.Dataset({"stiffness": (("seed", "time"), stiffness, STIFFNESS)})


# Numbers that the claims compare.


def plateau(found: Results) -> xarray.DataArray:
    """Stiffness over the edge [G], median over the last third, then mean over seeds."""
    late = found.measured.stiffness.isel(time=slice(int(LAST * found.setting.checks), None))
    return (late.median("time") / found.predicted.edge).mean("seed")


def missing(found: Results) -> xarray.DataArray:
    """d(1 - d) [G]; NaN where the runs are not below the edge."""
    ratio = plateau(found)
    product = ratio * (1 - ratio)
    return product.where(product > 0)


def power(found: Results) -> float:
    """Of G in d(1 - d): slope of the logarithms over all sizes."""
    return float(np.polyfit(np.log(found.setting.sizes), np.log(missing(found)), 1)[0])


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.writers(setting.bandit, setting.bandit.architecture),
        f"GRPO with std; heavy ball without momentum; model A (refresh), N = {setting.interval}",
        kl_weight=setting.kl_weight,
        drift="sampled groups",
    )


def draw(figure: Figure, found: Results, wide: bool) -> None:
    """Stiffness against time; what is missing to the edge against G."""
    sheet.fill(figure, found, wide, (_draw_time, _draw_missing), heights=(2.8, 5.2))


def _draw_time(panel: Axes, found: Results) -> None:
    panel.axhline(1, color=s.BLACK, linewidth=1.2)
    panel.plot(found.predicted.time, found.predicted.flow.isel(seed=0), color=s.GREY, linewidth=1.2)
    colours = (s.PURPLE, s.ORANGE, s.GREEN, s.BLUE)[-len(found.setting.sizes) :]
    ratio = (found.measured.stiffness / found.predicted.edge).isel(seed=0)
    for size, colour, marker in zip(found.setting.sizes, colours, "ovs^", strict=False):
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 3}
        panel.plot(found.measured.time, ratio.sel(group_size=size), **look, label=f"G = {size}")
    sheet.name_level(panel, 1.01, "edge")
    sheet.name_level(panel, float(found.predicted.flow.isel(seed=0, time=-1)) + 0.02, "gradient flow", color=s.GREY)
    panel.legend(loc="upper left", fontsize=6.5, ncols=2)
    panel.set(xlabel="time (steps of unit learning rate)", ylabel="stiffness / edge", ylim=(0, 1.9))
    panel.set_title("One network: lines predicted, markers measured")


def _draw_missing(panel: Axes, found: Results) -> None:
    sizes, product = np.asarray(found.setting.sizes, float), missing(found)
    middle = float(np.exp(np.mean(np.log(sizes * product))))
    panel.plot(sizes, middle / sizes, color=s.BLUE, linewidth=1.4, label="predicted: 1/G (its height is fitted)")
    panel.plot(sizes, product, **s.MEASURED | {"color": s.VERMILION}, label="measured, mean over seeds")
    panel.set(xscale="log", yscale="log", xlabel="group size G", ylabel="d (1 - d),  d = 1 - K / edge")
    sheet.ticks_at(panel.xaxis, found.setting.sizes)
    sheet.plain_log(panel.yaxis)
    panel.legend(loc="lower left", fontsize=6.5)
    panel.set_title("How far below the edge noise holds K")


# Claims.

SOURCE = "derived in experiments/noisy_edge.py; arXiv 2209.15594 for supervised learning"
FALLS = (
    "the runs do not stay: their stiffness falls for as long as they last, the faster the smaller G. d(1 - d) is at "
    "most 1/4, so that noise above a certain size has no balance with the flow; and noise moves soft directions as "
    "well, which is neglected. Which of the two it is was not tested"
)
CLAIMS = (
    Claim(
        "noisy_edge.order",
        "What noise takes from the stiffness at the edge, d(1 - d) with d = 1 - K/edge, falls as 1/G: slope of logs",
        SOURCE,
        predicted=lambda f: float(f.predicted.power),
        measured=power,
        tolerance=0.3,
        fails_if="noise held K below the edge by another way than swings that the edge amplifies",
        explanation=FALLS,
    ),
    Claim.one(
        "noisy_edge.largest",
        "At the largest group the stiffness stops at the edge of the mean update, median of the last third",
        "bandit_lab/theory/thresholds.py",
        measured=lambda f: float(plateau(f)[-1]),
        tolerance=0.1,
        fails_if="sampled runs were held by something that does not fade with G",
        explanation="its runs reach the edge, stay there for a sixth of the time, and then fall slowly below it",
    ),
)
