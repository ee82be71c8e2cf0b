"""When does a run become unstable, and is K eta N < 1 - mu the right condition?

Prediction (written before the run). Law: kappa N = 1 - mu, kappa = K eta, with N the refresh interval (K_ref of arXiv
2606.30789) and K the largest stiffness at the fixed point. It does not say how a policy becomes stale; exactly, derived
in bandit_lab/theory/thresholds.py for one stiffness and heavy ball:
model A (refresh: the gradient is taken at the policy of the last refresh, ages 0 to N - 1) loses stability at twice
the law or later, for N >= 2 at most 5.7 times; model B (lag: always N steps old) between 1 and pi/2 times; model C
(pipeline: ages N to 2 N - 1) between 2/3 and 1 times, exactly there without momentum.
Setting: experiments/phase_diagram.yaml. Measured: the smallest learning rate at which a small displacement from
the fixed point grows, in runs of the nonlinear mean update (its brackets are far smaller than the markers). Drawn: law,
exact, measured; below, thresholds over the law's. What noise does to the boundary: experiments/temperature.py.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import measure as detectors, theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce import claims
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared import sheet

TITLE = "Stability threshold of refresh, lag and pipeline"
FINDING = (
    "From N = 2, A (refresh) is stable up to {a_careful_least:.0f} to {a_careful_most:.0f} times the law; "
    "C (pipeline), at worst, up to {c_unsafe_least:.0%}"
)

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient"}
LONG = {"refresh": "model A (refresh)", "lag": "model B (constant lag)", "pipeline": "model C (pipeline)"}


def coordinates(setting: Setting) -> dict[str, list]:
    return {"model": setting.models, "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Law, exact threshold and onset of oscillation."""
    signal = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards))
    even = np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))
    coords = coordinates(setting)
    law, exact, onset = np.empty((3, *map(len, coords.values())))
    for place in np.ndindex(*law.shape):
        model, mu, n = (values[i] for values, i in zip(coords.values(), place, strict=True))
        law[place] = theory.leading_order(n, mu) / stiffness
        exact[place] = theory.exact(model, n, mu).kappa / stiffness
        onset[place] = theory.oscillation_onset(model, n, mu) / stiffness
    values = {"law": law, "threshold": exact, "onset": onset}
    return xarray.Dataset({name: (tuple(coords), value, RATE) for name, value in values.items()}, coords)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The threshold at every model, momentum and refresh interval."""
    parts = {model: partial(_one_model, model, setting) for model in setting.models}
    return xarray.concat(list(lab.keep_each(parts).values()), "model")


def _one_model(model: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    mu, n = (x.ravel() for x in np.meshgrid(setting.momentum, setting.refresh_interval, indexing="ij"))
    cells = Hyper(np.ones(len(n)), mu, n, np.full(len(n), setting.kl_weight))
    rates = np.geomspace(setting.learning_rate.start, setting.learning_rate.stop, setting.learning_rate.num)
    theta, direction = np.tile(point.rest, (len(n), 1)), detectors.generic_direction(point.basis)
    boundary = detectors.learning_rate_boundary(learner, "mean_field", cells, theta, direction, rates)
    coords = coordinates(setting) | {"model": [model]}
    value = boundary.value.reshape([len(values) for values in coords.values()])
    return xarray.Dataset({"threshold": (tuple(coords), value, RATE)}, coords)


# Numbers that the claims compare.


def over_law(part: xarray.Dataset, f: Results, model: str) -> xarray.DataArray:
    """Thresholds over the law's where a policy is stale at all (model A at N = 1 is on-policy)."""
    ratio = (part.threshold / f.predicted.law).sel(model=model)
    return ratio.sel(refresh_interval=slice(2, None)) if model == "refresh" else ratio


# Picture.

NAMES = {"refresh": "A: refresh", "lag": "B: constant lag", "pipeline": "C: pipeline"}
BESIDE = (2.1, 1.2, 0.66)  # heights of the models' names beside their lines
TOP = 6.5  # of the ratios; model A at N = 1 is on-policy and lies above


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(sheet.two_arms(setting.rewards), "GRPO with std", "heavy ball", kl_weight=setting.kl_weight)


def draw(figure: Figure, results: Results) -> None:
    """The diagram of model A; below, the thresholds of all models over the law."""
    figure.set_figheight(4.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.2, 1))
    _diagram(above, results, "refresh")
    for line in _by_model(results):
        _ratio(below, results, *line)
    below.axhline(1.0, **s.LAW)
    below.set(yscale="log", ylim=(0.6, TOP), xlabel=r"refresh interval $N$ (steps)")
    sheet.plain_log(below.yaxis)
    sheet.ticks_at(below.xaxis, sorted({1, 2, 4, 8, 16, 32, 64} & set(results.setting.refresh_interval)))
    above.set_ylabel(f"learning rate $\\eta$\n({s.RATE_UNIT})")
    below.set_ylabel(r"threshold / law's $\eta$")
    below.text(0.97, 0.72, r"law: $K\eta N = 1 - \mu$", ha="right", transform=below.get_yaxis_transform(), fontsize=7)
    _name_regions(above)
    below.set_title(rf"all models, $\mu$ = {results.setting.drawn_momentum:g}")
    for (label, colour, _), height in zip(_by_model(results), BESIDE, strict=True):
        below.text(3.2, height, label, color=colour, fontsize=7)


def _diagram(panel: Axes, results: Results, model: str) -> None:
    """Learning rate against refresh interval: what happens where."""
    place: dict[str, Any] = {"model": model, "momentum": results.setting.drawn_momentum}
    predicted, measured = results.predicted.sel(place), results.measured.sel(place)
    n = predicted.refresh_interval.values
    low, high = 0.4 * float(results.predicted.onset.sel(momentum=place["momentum"]).min()), 60.0
    panel.fill_between(n, low, predicted.onset, color=s.FILL[1], linewidth=0)
    panel.fill_between(n, predicted.onset, predicted.threshold, color=s.FILL[2], linewidth=0)
    panel.fill_between(n, predicted.threshold, high, color=s.FILL[3], linewidth=0)
    panel.plot(n, predicted.threshold, **s.EXACT)
    panel.plot(n, predicted.law, **s.LAW)
    panel.plot(n, measured.threshold, **s.MEASURED)
    panel.set(xscale="log", yscale="log", ylim=(low, high), xlim=(n[0], n[-1]))
    panel.set_title(rf"{NAMES[model]}, $\mu$ = {place['momentum']:g}")
    sheet.plain_log(panel.yaxis, (1.0,))


def _name_regions(panel: Axes) -> None:
    sheet.note(panel, 0.97, 0.93, "unstable", ha="right", va="top")
    sheet.note(panel, 0.97, 0.83, "line: predicted, circles: measured", ha="right", va="top", color=s.BLUE)
    sheet.note(panel, 0.04, 0.52, "law", va="top")
    sheet.note(panel, 0.05, 0.32, "oscillates, decays", va="center")
    sheet.note(panel, 0.05, 0.09, "converges monotonically", va="center")


def _by_model(results: Results) -> list[tuple[str, str, dict]]:
    mu = results.setting.drawn_momentum
    return [(NAMES[m], s.MODEL_COLOURS[m], {"model": m, "momentum": mu}) for m in results.setting.models]


def _ratio(panel: Axes, results: Results, label: str, colour: str, place: dict) -> None:
    law = results.predicted.law.sel(place)
    n, measured = law.refresh_interval, (results.measured.threshold / law).sel(place)
    panel.plot(n, results.predicted.threshold.sel(place) / law, **s.EXACT | {"color": colour, "linewidth": 1.2})
    panel.plot(n, measured.where(measured < TOP), **s.MEASURED | {"color": colour, "markersize": 3.4})


# Table below the claims.


def table(results: Results) -> str:
    """Measured threshold over the law's, per model: momentum down, refresh interval across."""
    ratio = results.measured.threshold / results.predicted.law
    intervals = ratio.refresh_interval.values
    parts = []
    for model in results.setting.models:
        parts.append(f"Measured threshold / law's learning rate, {LONG[model]} (above 1: the law is careful):\n")
        rows = [(mu, ratio.sel(model=model, momentum=mu).values) for mu in ratio.momentum.values]
        head = ["momentum", *(f"N = {n:g}" for n in intervals)]
        parts += [*claims.grid(head, ([f"{mu:g}", *(f"{x:.3g}" for x in values)] for mu, values in rows)), ""]
    return "\n".join(parts)


# Claims.

THEORY = "derived in bandit_lab/theory/thresholds.py"
MOMENTUM = 0.9  # of the claim on policy
ON_POLICY = {"model": "refresh", "momentum": MOMENTUM, "refresh_interval": 1}


def _exactly(letter: str, model: str) -> Claim:
    # Brackets are 2^-13 of a grid step (a factor 1.28) wide, 3e-5; growth over 150 periods resolves thresholds to 3e-4.
    return Claim.ratio(
        f"phase_diagram.{letter}_exact",
        f"{LONG[model]}: measured / exact threshold, the farthest from 1 over all N and momenta",
        THEORY,
        lambda d: d.threshold.sel(model=model),
        tolerance=1e-3,
        fails_if="the nonlinear run lost stability elsewhere at one refresh interval and momentum",
    )


def _extreme(name: str, model: str, which: str, statement: str) -> Claim:
    # what the law's factor is on this grid: numbers to quote
    return Claim(
        f"phase_diagram.{name}",
        f"{LONG[model]}: {statement}",
        f"arXiv 2606.30789 (law); {THEORY}",
        predicted=lambda f: float(getattr(over_law(f.predicted, f, model), which)()),
        measured=lambda f: float(getattr(over_law(f.measured, f, model), which)()),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows=f"phase_diagram.{name[0]}_exact",
    )


CLAIMS = (
    _exactly("a", "refresh"),
    _exactly("b", "lag"),
    _exactly("c", "pipeline"),
    _extreme("a_careful_least", "refresh", "min", "the law is careful, N >= 2: smallest factor on the grid"),
    _extreme(
        "a_careful_most", "refresh", "max", "the law is careful, N >= 2: largest factor on the grid (5.7 over all mu)"
    ),
    _extreme("b_least", "lag", "min", "smallest factor from the law to the threshold (N = 1)"),
    _extreme("b_most", "lag", "max", "the law is careful: largest factor on the grid (pi/2 for N to infinity)"),
    _extreme("c_unsafe_least", "pipeline", "min", "the law is unsafe: smallest factor on the grid (2/3 at worst)"),
    _extreme("c_most", "pipeline", "max", "largest factor from the law to the threshold (without momentum)"),
    Claim(
        "phase_diagram.a_on_policy",
        "Model A at N = 1 is on-policy and stable up to 2 (1 + mu)/(1 - mu) times the law, here at momentum 0.9",
        THEORY,
        predicted=lambda f: 2 * (1 + MOMENTUM) / (1 - MOMENTUM),
        measured=lambda f: float((f.measured.threshold / f.predicted.law).sel(ON_POLICY)),
        tolerance=1e-3,
        relative=True,
        fails_if="the closed form of one step were not that of the block map",
        follows="phase_diagram.a_exact",
        constant="the closed form 2 (1 + mu)/(1 - mu) of bandit_lab/theory/thresholds.py",
    ),
)
