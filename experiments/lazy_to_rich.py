"""When does a network learn like a plain bandit: is its threshold in N then known before the training begins?

Prediction (written before the runs). The more a network's output is scaled up, or the wider it is, the less its weights
move, and its tangent kernel freezes (arXiv 1806.07572, 1812.07956). The network linearised at its start then says what
a run does: its stiffness K after the same time of training gives the threshold N = kappa/(eta K) of the whole network
(shared/theory/lazy.py). The policy moves all the same, and K with it. So K at the start gives the threshold only
where the KL weight is so large that the policy hardly moves; elsewhere it is off by a factor that the linearised
network knows. What is neglected is of first order in how far the weights move, and falls as 1/scale.
Setting: experiments/lazy_to_rich.yaml. Measured: networks are trained with N = 1; from where they get to, the N
from experiments.shared.theory import gradient_flow
from which a small displacement grows at the same learning rate. Drawn: that N over the predicted one, against scale or
width.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared import sheet
from experiments.shared.measure.averaged_path import averaged_path, interval_threshold
from experiments.shared.theory import gradient_flow
from experiments.shared.theory.lazy import lazy_climb

TITLE = "Lazy and rich networks: a threshold known at the start"
FINDING = "The larger its output scale or width, the better a network's start predicts its threshold"

# What prediction and measurement are both told.

STEPS = {"units": "steps"}
LADDER, RATIO = ("factor", "kl_weight", "seed"), {"units": "1"}


def bandits_of(setting: Setting, ladder: str, factor: int) -> list[Any]:
    """Networks of one rung, one a seed."""
    about = setting.ladders[ladder]
    options = setting.bandit.as_dict() | {"architecture": about.architecture, "width": about.width, "scale": 1.0}
    options[about.grows] = type(options[about.grows])(options[about.grows] * factor)
    return [BANDITS.build("neural", options | {"seed": k}) for k in range(setting.seeds)]


def kernel_of(bandit: Any) -> float:
    """Trace of the tangent kernel at the start per logit, in squared logits per squared parameter."""
    slope = np.asarray(jax.jacrev(lambda theta: bandit.logits(theta).reshape(-1))(bandit.initial_parameters))
    return float(np.sum(slope**2) / len(slope))


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    return {
        "ladder": ("ladder", setting.shown, {"units": ""}),
        "factor": ("factor", setting.factors, RATIO),
        "kl_weight": ("kl_weight", setting.kl_weights, {"units": "reward per nat"}),
        "seed": ("seed", np.arange(setting.seeds), RATIO),
    }


# Prediction: theory alone.

STEP = 0.2  # of the flow's integration, times kernel * KL weight


def predict(setting: Setting) -> xarray.Dataset:
    """Thresholds in N by the network linearised at its start: after its training, and at the start itself."""
    shape = len(setting.shown), len(setting.factors), len(setting.kl_weights), setting.seeds
    trained, start = np.empty(shape), np.empty(shape)
    for i, ladder in enumerate(setting.shown):
        for j, factor in enumerate(setting.factors):
            for k, bandit in enumerate(bandits_of(setting, ladder, factor)):
                for m, weight in enumerate(setting.kl_weights):
                    start[i, j, m, k], trained[i, j, m, k] = _thresholds(setting, bandit, weight)
    columns = {"trained": (("ladder", *LADDER), trained, STEPS), "start": (("ladder", *LADDER), start, STEPS)}
    return xarray.Dataset(columns, coordinates(setting))


def _thresholds(setting: Setting, bandit: Any, weight: float) -> np.ndarray:
    """N [2] at which the linearised network loses stability: at its start, after its training."""
    unit = kernel_of(bandit) * weight
    climb = lazy_climb(bandit, weight)
    places = gradient_flow.follow(climb, "grpo", np.array([0.0, setting.duration / unit]), STEP / unit)
    kappa = theory.exact("refresh", 1, 0.0).kappa  # of eta K N, for every N without momentum
    return kappa * unit / (setting.learning_rate * gradient_flow.sharpness(climb, "grpo", places))


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The N from which displacements grow, of every network after its training."""
    rungs = [(ladder, factor) for ladder in setting.shown for factor in setting.factors]
    parts = {f"{ladder} {factor}": partial(_rung, setting, ladder, factor) for ladder, factor in rungs}
    by_rung = lab.keep_each(parts)
    rows = [[by_rung[f"{ladder} {factor}"] for factor in setting.factors] for ladder in setting.shown]
    grid = xarray.concat([xarray.concat(row, "factor") for row in rows], "ladder")
    return grid.transpose("ladder", *LADDER).assign_coords(coordinates(setting))


def _rung(setting: Setting, ladder: str, factor: int) -> xarray.Dataset:
    bandits = bandits_of(setting, ladder, factor)
    learner = Learner(bandits[0], ADVANTAGES["grpo"](), ESTIMATORS["frozen"](), STALENESS["refresh"](), horizon=16)
    kernels = np.array([kernel_of(one) for one in bandits])
    steps, aside = round(setting.duration / setting.learning_rate), setting.displacement / np.sqrt(kernels.max())
    seeds = []
    for weight in setting.kl_weights:
        hyper = Hyper(setting.learning_rate / (kernels * weight), 0.0, 1, weight)
        end = averaged_path(learner, "mean_field", bandits, hyper, 1, steps).end
        about = setting.intervals, setting.blocks, aside
        seeds.append(interval_threshold(learner, "mean_field", bandits, hyper, end, *about))
    return xarray.Dataset({"trained": (("kl_weight", "seed"), np.array(seeds), STEPS)})


# Numbers that the claims compare.


def widest(data: xarray.Dataset, name: str = "trained") -> Any:
    """Thresholds in N of the last rung."""
    return data[name].isel(factor=-1)


def over_start(results: Results, data: xarray.Dataset) -> float:
    """Threshold in N over that from the stiffness at the start, median of the widest at the smallest KL weight."""
    return float((widest(data) / widest(results.predicted, "start")).isel(kl_weight=0).median())


def off_start(results: Results) -> float:
    """Threshold in N over that from K at the start, of the widest at the largest KL weight: the farthest from 1."""
    sides = widest(results.measured), widest(results.predicted, "start")
    return farthest_from_one(*(side.isel(kl_weight=-1) for side in sides))


def slope(results: Results) -> float:
    """Of the logarithm of what the linearised network neglects, over that of the scale; median over runs."""
    missed = np.abs(results.measured.trained / results.predicted.trained - 1)
    ladders = [name for name in results.setting.shown if results.setting.ladders[name].grows == "scale"]
    ends = np.log(missed.sel(ladder=ladders).isel(factor=[-2, -1]))
    rise = ends.isel(factor=1) - ends.isel(factor=0)
    return float(rise.median() / np.log(results.setting.factors[-1] / results.setting.factors[-2]))


# Picture.

LOOKS = {"mlp scale": (s.BLUE, "o"), "transformer scale": (s.ORANGE, "^"), "mlp width": (s.GREEN, "s")}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.writers(setting.bandit),
        "GRPO with std; SGD; model A (refresh)",
        kl_weight=setting.kl_weights,
    )


def draw(figure: Figure, results: Results) -> None:
    """The ratio where the policy moves far; how far off the prediction is, at every KL weight."""
    left, right = sheet.panels(figure, 2, height=5.2)
    _draw_ratios(left, results, results.setting.kl_weights[0])
    _draw_errors(right, results)


def _draw_ratios(panel: Axes, results: Results, weight: float) -> None:
    predicted, seen = (side.sel(kl_weight=weight) for side in (results.predicted, results.measured))
    panel.axhline(1, **s.EXACT)
    sheet.name_level(panel, 1.05, "predicted: network linearised at its start", color=s.BLUE)
    for place, ladder in enumerate(results.setting.shown):
        colour, marker = LOOKS[ladder]
        at = np.asarray(results.setting.factors) * 1.13 ** (place - 1)
        ratio = (seen.trained / predicted.trained).sel(ladder=ladder).transpose("factor", "seed")
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 4}
        panel.plot(at, ratio, **look, label=[ladder] + ["_"] * (ratio.sizes["seed"] - 1))
    start = (predicted.start / predicted.trained).median(("seed", "ladder"))
    panel.plot(results.setting.factors, start, **s.LAW)
    sheet.name_level(panel, 0.85 * float(start[-1]), "from K at the start alone", va="top")
    _axes(panel, results, "threshold in $N$, measured / predicted", (0.04, 2.0))
    panel.set_title(f"KL weight {weight:g}: the policy moves far")
    panel.legend(loc="lower right", title="measured", title_fontsize=7)


def _draw_errors(panel: Axes, results: Results) -> None:
    missed = np.abs(results.measured.trained / results.predicted.trained - 1).median("seed")
    for ladder in results.setting.shown:
        colour, marker = LOOKS[ladder]
        for k, weight in enumerate(results.setting.kl_weights):
            look = s.MEASURED | {"color": colour, "marker": marker, "linestyle": "-", "linewidth": 0.6}
            fill = {"markerfacecolor": "white" if k == 0 else colour}
            panel.plot(results.setting.factors, missed.sel(ladder=ladder, kl_weight=weight), **look | fill)
    factors = np.array(results.setting.factors[1:], float)
    panel.plot(factors, 1.5 * factors[0] * float(missed[..., 1, 0].max()) / factors, **s.LAW)
    sheet.note(panel, 0.97, 0.94, "dashed: as 1/scale", ha="right", va="top")
    ends = [f"{weight:g}" for weight in results.setting.kl_weights]
    sheet.note(panel, 0.03, 0.05, f"open: KL weight {ends[0]}, filled: {ends[-1]}\nmedian of seeds")
    _axes(panel, results, "what the prediction misses (relative)", (float(missed.min()) / 4, 2.5))
    panel.set_title("what is missed falls as 1/scale")


def _axes(panel: Axes, results: Results, name: str, limits: tuple[float, float]) -> None:
    panel.set(xscale="log", yscale="log", xlabel="output scale or width / the smallest", ylabel=name, ylim=limits)
    sheet.ticks_at(panel.xaxis, results.setting.factors)
    sheet.plain_log(panel.yaxis, (1.0,) if limits[0] < 0.01 else (1.0, 2.0, 5.0))


# Claims.

SOURCE = "shared/theory/lazy.py; arXiv 1806.07572 and 1812.07956 for supervised learning"
SEEN = "KL weights and duration were chosen after gradient flows were seen, of linearised networks and of two others"
CLAIMS = (
    Claim.ratio(
        "lazy_to_rich.frozen",
        "At the widest and the largest scale: threshold in N over that of the network linearised at its start, the "
        "run farthest from 1",
        SOURCE,
        widest,
        tolerance=0.1,
        fails_if="the kernel of the widest network moved, or the threshold were not that of the linear loop",
        post_hoc=SEEN,
    ),
    Claim.one(
        "lazy_to_rich.start",
        "The same over that from the stiffness at the start alone, at the larger KL weight; the run farthest from 1",
        SOURCE,
        measured=off_start,
        tolerance=0.1,
        fails_if="the policy moved far enough to change the stiffness",
        post_hoc=SEEN,
    ),
    Claim(
        "lazy_to_rich.start_misses",
        "At the smaller KL weight: the same ratio to the start alone, median over runs, is the predicted one, not 1",
        SOURCE,
        predicted=lambda f: over_start(f, f.predicted),
        measured=lambda f: over_start(f, f.measured),
        tolerance=0.1,
        relative=True,
        fails_if="the frozen kernel gave another stiffness than the run after the policy had moved",
        follows="lazy_to_rich.frozen",
        post_hoc=SEEN,
    ),
    Claim(
        "lazy_to_rich.order",
        "What the linearised network neglects falls as 1/scale: slope between the two largest, median over runs",
        SOURCE,
        predicted=lambda f: -1.0,
        measured=slope,
        tolerance=0.3,
        fails_if="the change of the kernel were of another order in the scale, or something else were missed",
    ),
)
