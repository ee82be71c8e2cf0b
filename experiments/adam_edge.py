"""Where does the sharpness of a network stop that Adam trains: at the threshold of its staleness model, preconditioned?

Prediction (written before the runs). With a second moment that hardly changes in a period, Adam is a heavy ball with
an averaged gradient and the preconditioner P^{-1}, P the diagonal of the second moment's root (arXiv 2207.14484, fresh
gradients: P^{-1/2} H P^{-1/2} stops at 2 (1 + b1)/((1 - b1) eta), 38/eta at b1 = 0.9). A gradient that is stale by
whole blocks changes the number alone: the edge is kappa(model, N, b1)/eta of bandit_lab/theory/thresholds.py,
convention `ema`. The second moment falls with the gradient, so that the preconditioned stiffness rises until the swings
at the edge hold the second moment up. So every run gets there, whatever the plain stiffness does. What is neglected:
the second moment's own ripple, of order (1 - b2) times the period.
Setting: experiments/adam_edge.yaml. Measured: largest eigenvalue of P^{-1/2} H P^{-1/2} along runs of the
laboratory's update, at means of the parameters and of P^{-1}; median over the last third. Drawn: it over the edge
against updates, and times eta N against N.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import BANDITS, Bandit
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner, Optimizer
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared import sheet
from experiments.shared.measure.averaged_path import averaged_path, stiffness_of_paths
from experiments.shared.readings import blocks_between, share_near_one
from experiments.shared.theory.edge_of_stability import edge

TITLE = "The edge of stability under Adam"
FINDING = "Under Adam, too, a network's sharpness stops at the exact edge: {plateau:.0%} of runs within 10 %"

# What prediction and measurement are both told.

INVERSE, RATIO, STEPS = {"units": "1/learning rate"}, {"units": "1"}, {"units": "updates"}
LAST = 2 / 3
"""Share of a run after which its plateau is read."""


def bandit_of(setting: Setting, network: str, seed: int) -> Bandit:
    """The network with the weights of one seed."""
    options = {"architecture": network, "width": setting.widths[network], "seed": seed}
    bandit: Bandit = BANDITS.build("neural", setting.bandit.as_dict() | options)
    return bandit


def rate_of(setting: Setting, model: str, interval: int) -> float:
    """The learning rate."""
    return float(setting.travel[model] / interval)


def stride(setting: Setting, interval: int) -> int:
    """Updates between two checks."""
    return interval * blocks_between(setting.updates / interval, setting.checks)


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets. share: of the run, in the middle between two checks."""
    return {
        "network": ("network", setting.networks, {"units": ""}),
        "model": ("model", setting.models, {"units": ""}),
        "interval": ("interval", setting.intervals, RATIO),
        "seed": ("seed", np.arange(setting.seeds), RATIO),
        "share": ("share", (np.arange(setting.checks) + 0.5) / setting.checks, RATIO),
    }


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """The preconditioned stiffness at the edge, and that of the published law."""
    edges, laws = np.empty((2, len(setting.models), len(setting.intervals)))
    for i, j in np.ndindex(edges.shape):
        model, n = setting.models[i], setting.intervals[j]
        rate = rate_of(setting, model, n)
        edges[i, j] = edge(model, n, setting.b1, rate, "ema")
        laws[i, j] = theory.leading_order(n, setting.b1, "ema") / rate
    columns = {"edge": (("model", "interval"), edges, INVERSE), "law": (("model", "interval"), laws, INVERSE)}
    return xarray.Dataset(columns, coordinates(setting))


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Preconditioned stiffness along runs of every network, model and interval."""
    pairs = [(network, model) for network in setting.networks for model in setting.models]
    parts = lab.keep_each({f"{network} {model}": partial(_runs, setting, network, model) for network, model in pairs})
    rows = [[parts[f"{network} {model}"] for model in setting.models] for network in setting.networks]
    stiffness = xarray.concat([xarray.concat(row, "model") for row in rows], "network")
    late = stiffness.stiffness.isel(share=slice(int(LAST * setting.checks), None))
    return stiffness.assign(edge=late.median("share").assign_attrs(INVERSE)).assign_coords(coordinates(setting))


def _runs(setting: Setting, network: str, model: str) -> xarray.Dataset:
    bandits = [bandit_of(setting, network, k) for k in range(setting.seeds)]
    parts = ADVANTAGES["grpo"](), ESTIMATORS["frozen"](), STALENESS[model](), Optimizer("adam", (("b2", setting.b2),))
    learner, plain = Learner(bandits[0], *parts, horizon=16), Learner(bandits[0])  # compiled once for all models
    runs = []
    for n in setting.intervals:
        rates = np.full(setting.seeds, rate_of(setting, model, n))
        hyper, every = Hyper(rates, setting.b1, n, setting.kl_weight), stride(setting, n)
        seen = averaged_path(learner, "mean_field", bandits, hyper, setting.checks, every, noise=setting.stir)
        about = hyper.kl_weight, seen.mean, seen.preconditioner
        runs.append(stiffness_of_paths(plain, "mean_field", bandits, *about))
    return xarray.Dataset({"stiffness": (("interval", "seed", "share"), np.array(runs), INVERSE)})


# Numbers that the claims compare.


def middle(results: Results, unit: Any, **place: Any) -> float:
    """Median plateau in units of others, of the runs at a place."""
    return float((results.measured.edge / unit).sel(place).median())


# Picture.

MOST, LEAST = 1.5, 0.4  # of the panels' vertical axes


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.writers(setting.bandit, *setting.networks),
        f"GRPO with std; Adam ({setting.b1:g}, {setting.b2:g})",
        kl_weight=setting.kl_weight,
    )


def draw(figure: Figure, results: Results) -> None:
    """Stiffness over the edge against updates; the plateaus against N."""
    sheet.fill(figure, results, (_draw_time, _draw_plateaus), height=5.6)


def _draw_time(panel: Axes, results: Results) -> None:
    shown = results.setting.shown
    ratio = (results.measured.stiffness / results.predicted.edge).sel(network="mlp", interval=shown, seed=0)
    panel.axhline(1, color=s.BLACK, linewidth=1.4)
    updates = ratio.share * results.setting.checks * stride(results.setting, shown)
    for model in results.setting.models:
        look = s.MEASURED | {"color": s.MODEL_COLOURS[model], "markersize": 3}
        panel.plot(updates, ratio.sel(model=model).clip(max=MOST), **look, label=s.MODEL_NAMES[model])
    sheet.name_level(panel, 0.93, "predicted edge", va="top")
    panel.legend(loc="lower right", fontsize=6.5, title="measured", title_fontsize=6.5)
    panel.set(xlabel="updates", ylabel="preconditioned stiffness / edge", ylim=(0.5, MOST), xlim=(0, None))
    sheet.note(panel, 0.06, 0.94, "on the frame: beyond it")
    panel.set_title(f"One MLP, N = {shown}")


def _draw_plateaus(panel: Axes, results: Results) -> None:
    panel.axhline(1, **s.LAW)
    intervals = np.asarray(results.setting.intervals, float)
    for row, model in enumerate(results.setting.models):
        colour = s.MODEL_COLOURS[model]
        predicted, ratio = (
            (side.edge / results.predicted.law).sel(model=model) for side in (results.predicted, results.measured)
        )
        panel.plot(intervals, predicted, color=colour, linewidth=1.4)
        for place, network in enumerate(results.setting.networks):
            aside = 2 ** (0.13 * (3 * (row - 1) + place - 1))
            look = s.MEASURED | {"color": colour, "marker": s.NETWORK_MARKERS[network], "markersize": 3.2}
            seen = ratio.sel(network=network).transpose("interval", "seed").clip(min=LEAST)
            panel.plot(aside * intervals, seen, **look)
    sheet.note(panel, 0.985, 0.06, "dashed: published law", ha="right")
    panel.set(xscale="log", yscale="log", xlabel="refresh interval N (steps)", ylim=(LEAST, 100))
    panel.set(ylabel=r"preconditioned stiffness $\times\ \eta N$")
    sheet.ticks_at(panel.xaxis, results.setting.intervals)
    sheet.plain_log(panel.yaxis)
    lines = {s.MODEL_NAMES[model]: s.MODEL_COLOURS[model] for model in results.setting.models}
    sheet.key(
        panel,
        lines,
        {sheet.NETWORKS[name]: marker for name, marker in s.NETWORK_MARKERS.items()},
        loc="upper right",
        ncols=2,
        fontsize=6.5,
    )
    panel.set_title("All networks and seeds: lines predicted")


# Claims.

EDGE = "bandit_lab/theory/thresholds.py; arXiv 2207.14484 for fresh gradients in supervised learning"


def _middle(model: str) -> Claim:
    return Claim.one(
        f"adam_edge.middle_{model}",
        f"Model {s.MODEL_LETTERS[model]}: measured over predicted plateau, the median of all runs",
        EDGE,
        measured=lambda f: middle(f, f.predicted.edge, model=model),
        tolerance=0.05,
        fails_if="networks stopped at another multiple of the threshold, such as that of the law",
        explanation="a draft has one run, and single runs lie up to 10 % from the edge",
        follows="adam_edge.plateau",
    )


CLAIMS = (
    Claim.one(
        "adam_edge.plateau",
        "Share of the runs whose median preconditioned stiffness over the last third is within 10 % of the edge",
        EDGE,
        measured=lambda f: share_near_one(f.measured.edge, f.predicted.edge, f.setting.within),
        tolerance=0.1,
        unit="share",
        fails_if="Adam's edge were not that of a heavy ball with an averaged gradient, or were never reached",
        explanation="some runs of the transformer lose their stiffness; why is not known",
    ),
    *map(_middle, s.MODEL_LETTERS),
    Claim(
        "adam_edge.over_law",
        "Model A at the smallest N, median plateau in units of the published law's (N = 1: 38)",
        EDGE,
        predicted=lambda f: float((f.predicted.edge / f.predicted.law).sel(model="refresh").isel(interval=0)),
        measured=lambda f: middle(f, f.predicted.law, model="refresh", interval=f.setting.intervals[0]),
        tolerance=0.05,
        relative=True,
        fails_if="swings of period two did not hold Adam's preconditioned stiffness",
        explanation="a draft has one run, and single runs lie up to 10 % from the edge",
        follows="adam_edge.plateau",
    ),
)
