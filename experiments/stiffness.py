"""Does the largest stiffness alone set the stability threshold, whatever the bandit?

Prediction (written before the run). K is the largest eigenvalue of minus the Hessian of the objective at the fixed
point, in closed form (bandit_lab/theory/stiffness.py); the threshold is eta = kappa/K, with kappa(model, N, mu) of one
stiffness (bandit_lab/theory/thresholds.py). arXiv 2606.30789 has kappa = (1 - mu)/N instead. With the frozen estimator
each gradient is as old as its model says, so that the K - 1 directions of K arms decouple and the stiffest decides.
Setting: experiments/stiffness.yaml. Measured: the Hessian by automatic differentiation, and the smallest learning
rate at which a displacement along the stiffest direction (found from the runs' own response) grows. Another
displacement also starts to grow there, but many softer directions hide it for longer. Drawn: threshold against
prediction for every bandit, and the relative error.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray
from matplotlib.figure import Figure

from bandit_lab import measure as detectors, theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared import sheet

TITLE = "Threshold from the Hessian"
FINDING = "The largest stiffness alone sets the threshold, whatever the bandit, over three decades"

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient"}
STIFFNESS = {"units": "reward per logit^2", "long_name": "largest stiffness"}


class Problem(NamedTuple):
    """Numbers of one random bandit and its settings."""

    rewards: list[float]
    reference: list[float]  # logits
    kl_weight: float
    momentum: float
    refresh_interval: int


def problems_of(setting: Setting, place: int) -> list[Problem]:
    """The random bandits of a class."""
    rng, arms = np.random.default_rng([setting.seed, place]), setting.classes[place][0]
    low, high = np.log(setting.kl_weight)
    return [
        Problem(
            rng.uniform(setting.reward[0], setting.reward[1], arms).tolist(),
            rng.normal(0, setting.reference_std, arms).tolist(),
            float(np.exp(rng.uniform(low, high))),
            float(rng.choice(setting.momentum)),
            int(rng.choice(setting.refresh_interval)),
        )
        for _ in range(setting.bandits_per_class)
    ]


def coordinates(setting: Setting) -> dict[str, tuple]:
    """What every bandit is, as coordinates."""
    count, rows = setting.bandits_per_class, range(len(setting.classes))
    problems = [p for place in rows for p in problems_of(setting, place)]
    about: dict[str, tuple] = {
        name: ("bandit", [one[i] for one in setting.classes for _ in range(count)], {"units": unit})
        for i, (name, unit) in enumerate([("arms", "1"), ("advantage", ""), ("model", "")])
    }
    for name, unit in (("kl_weight", "reward per nat"), ("momentum", "1"), ("refresh_interval", "steps")):
        about[name] = ("bandit", [getattr(p, name) for p in problems], {"units": unit})
    return about | {"bandit": ("bandit", np.arange(len(problems)), {"units": "1"})}


# Prediction: theory alone.

NONE = {"units": "1"}


def predict(setting: Setting) -> xarray.Dataset:
    """Stiffness, threshold and law of every bandit."""
    rows = []
    for place, (arms, advantage, model) in enumerate(setting.classes):
        for p in problems_of(setting, place):
            signal = theory.BinarySignal(theory.GroupLaw(advantage), tuple(p.rewards))
            reference = np.exp(p.reference) / np.exp(p.reference).sum()
            point = theory.settled_point(signal, reference, p.kl_weight, np.full(arms, 1 / arms))
            stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, p.kl_weight))
            kappa = theory.exact(model, p.refresh_interval, p.momentum).kappa
            law = theory.leading_order(p.refresh_interval, p.momentum)
            rows.append((stiffness, kappa, kappa / stiffness, law / stiffness))
    names = zip(("stiffness", "kappa", "threshold", "law"), (STIFFNESS, NONE, RATE, RATE), strict=True)
    values = {name: ("bandit", [row[i] for row in rows], about) for i, (name, about) in enumerate(names)}
    return xarray.Dataset(values, coordinates(setting))


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Hessian and threshold of every bandit."""
    parts = {f"class {place}": partial(_one_class, setting, place) for place in range(len(setting.classes))}
    return xarray.concat(list(lab.keep_each(parts).values()), "bandit").assign_coords(coordinates(setting))


def _one_class(setting: Setting, place: int) -> xarray.Dataset:
    _, advantage, model = setting.classes[place]
    problems = problems_of(setting, place)
    bandits = [k_arm(p.rewards, p.reference) for p in problems]
    still = Learner(bandits[0], ADVANTAGES[advantage]())
    moving = replace(still, staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    theta, along, stiffness = [], [], []
    for p, bandit in zip(problems, bandits, strict=True):
        here = replace(still, bandit=bandit)
        point = detectors.find_fixed_point(here, "mean_field", p.kl_weight)
        report = detectors.measure_stiffness(here, "mean_field", p.kl_weight, point)
        theta.append(point.rest)
        along.append(detectors.stiffest_mode(report.relaxation_matrix, point.basis)[0])
        stiffness.append(np.asarray(report.hessian)[0])
    rest = (np.array([getattr(p, name) for p in problems]) for name in Hyper._fields[1:])
    cells = Hyper(np.ones(len(problems)), *rest)
    unit = (1 - cells.momentum) / (cells.refresh_interval * np.array(stiffness))
    rates = unit[:, None] * np.geomspace(setting.scan.start, setting.scan.stop, setting.scan.num)
    many = detectors.stack_bandits(bandits)
    boundary = detectors.learning_rate_boundary(
        moving, "mean_field", cells, np.stack(theta), np.stack(along), rates, bandits=many
    )
    return xarray.Dataset(
        {"stiffness": ("bandit", stiffness, STIFFNESS), "threshold": ("bandit", boundary.value, RATE)}
    )


# Picture.

MARKERS = {"refresh": "o", "lag": "s", "pipeline": "D"}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        "random arms, Bernoulli rewards", "advantages as named; heavy ball", kl_weight=setting.kl_weight
    )


def draw(figure: Figure, results: Results) -> None:
    """Thresholds on the diagonal; relative errors below."""
    axes = sheet.panels(figure, 2, height=4.4, sizes=(2, 1))
    predicted, measured = results.predicted.threshold, results.measured.threshold
    ends = np.array([predicted.min() / 2, predicted.max() * 2])
    axes[0].plot(ends, ends, **s.EXACT | {"linewidth": 1.2, "zorder": 1})
    error = np.abs(measured / predicted - 1)
    for row, (model, marker) in enumerate(MARKERS.items()):
        colour = s.MODEL_COLOURS[model]
        mine = (predicted.model == model).values
        look: dict[str, Any] = {
            "marker": marker,
            "linestyle": "none",
            "markerfacecolor": "none",
            "color": colour,
            "markersize": 3.6,
        }
        axes[0].plot(predicted[mine], measured[mine], markeredgewidth=0.8, **look)
        sheet.name_marker(axes[0], 0.05, 0.93 - 0.09 * row, s.MODEL_NAMES[model], look)
        axes[1].plot(predicted[mine], np.maximum(error[mine], 1e-11), markeredgewidth=0.8, clip_on=False, **look)
    axes[0].set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes[0].set_ylabel(f"measured threshold $\\eta$\n({s.RATE_UNIT})")
    note = f"line: measured = predicted\n{error.size} random bandits"
    sheet.note(axes[0], 0.97, 0.05, note, ha="right")
    axes[1].axhline(1e-3, **s.LAW | {"linewidth": 1.0})
    axes[1].text(0.97, 1.4e-3, "claimed", ha="right", va="bottom", fontsize=7, transform=axes[1].get_yaxis_transform())
    axes[1].set(xscale="log", yscale="log", xlim=ends, ylim=(1e-11, 2e-2), yticks=[1e-10, 1e-8, 1e-6, 1e-4, 1e-2])
    axes[1].set_ylabel("relative error")
    axes[1].set_xlabel(f"predicted threshold $\\eta$ ({s.RATE_UNIT})")
    axes[0].sharex(axes[1])
    axes[0].tick_params(labelbottom=False)


# Claims.

THEORY = "derived in bandit_lab/theory/stiffness.py and thresholds.py"


CLAIMS = (
    # The fixed point is found to 1e-9 logits.
    Claim.ratio(
        "stiffness.hessian",
        "Largest eigenvalue of the measured Hessian over the closed form, the farthest from 1 over all bandits",
        "derived in bandit_lab/theory/stiffness.py",
        lambda d: d.stiffness,
        tolerance=1e-6,
        fails_if="the drift's derivative and the closed form disagreed for one bandit",
    ),
    # Brackets are 2^-13 of a scan step (a factor 1.26) wide, 3e-5; growth over 150 periods resolves thresholds to 3e-4.
    Claim.ratio(
        "stiffness.worst",
        "Measured over predicted threshold, the farthest from 1 over all bandits (three decades of thresholds)",
        THEORY,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="a softer direction, or the bandit's size, decided instead of the largest stiffness",
    ),
    Claim.one(
        "stiffness.median",
        "Median of the relative errors of the predicted thresholds, taken from 1",
        THEORY,
        measured=lambda f: 1 - float(np.abs(f.measured.threshold / f.predicted.threshold - 1).median()),
        tolerance=3e-5,
        fails_if="half of the bandits were off by more than the detector's bracket",
    ),
)
