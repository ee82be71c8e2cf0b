"""Which detector "confirms" the law K eta N = 1 - mu: one that looks for overshoot, or one that looks for growth?

Prediction (written before the run). Law: kappa N = 1 - mu, kappa = K eta (arXiv 2606.30789). Derived in
bandit_lab/theory/thresholds.py, model A (refresh) at mu = 0: the displacement changes sign from kappa N = 1 and grows
from kappa N = 2. So the overshoot detector confirms the law there, at every N, and the growth detector finds twice it.
With momentum, and in the models B (lag) and C (pipeline), the law lies between the two or beyond both.
Setting: experiments/two_detectors.yaml. Measured on the same runs of the nonlinear mean update: the smallest
learning rate whose dominant pole is not real and positive, the smallest whose overshoot can be seen (10^-6 of the
displacement), and the smallest at which a displacement grows. Drawn: all three over the law's learning rate.
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
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from experiments.shared import sheet
from experiments.shared.measure.boundaries import first_overshoot

TITLE = "Two detectors, one law"
FINDING = (
    "Overshoot confirms the law for refresh, growth finds {growth_finds_twice:.0f} times its learning rate: "
    "the detector decides"
)

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient"}


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Law, exact onset of oscillation and exact threshold."""
    signal = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards))
    even = np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))
    dims, coords = _axes(setting)
    shape = [len(coords[name]) for name in dims]
    law, onset, threshold = np.empty((3, *shape))
    for place in np.ndindex(*shape):
        model, mu, n = (coords[name][i] for name, i in zip(dims, place, strict=True))
        law[place] = theory.leading_order(n, mu) / stiffness
        onset[place] = theory.oscillation_onset(model, n, mu) / stiffness
        threshold[place] = theory.exact(model, n, mu).kappa / stiffness
    values = {"law": law, "onset": onset, "threshold": threshold}
    return xarray.Dataset({name: (dims, value, RATE) for name, value in values.items()}, coords)


def _axes(setting: Setting) -> tuple[tuple[str, ...], dict[str, list]]:
    coords = {"model": setting.models, "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
    return tuple(coords), coords


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The three detectors at every model, momentum and refresh interval."""
    return xarray.concat([lab.keep(model, partial(_one_model, model, setting)) for model in setting.models], "model")


def _one_model(model: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    report = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point)
    mode = detectors.stiffest_mode(report.relaxation_matrix, point.basis)
    momentum, interval = np.meshgrid(setting.momentum, setting.refresh_interval, indexing="ij")
    cells = Hyper(np.ones(momentum.size), momentum.ravel(), interval.ravel(), np.full(momentum.size, setting.kl_weight))
    scan = setting.learning_rate
    rates = np.geomspace(scan.start, scan.stop, scan.num)
    here = (learner, "mean_field", cells, np.tile(point.rest, (momentum.size, 1)))
    boundaries = {
        "onset": detectors.learning_rate_onset(*here, *mode, rates),
        "overshoot": first_overshoot(*here, *mode, rates),
        "threshold": detectors.learning_rate_boundary(*here, mode[0], rates),
    }
    dims = ("model", "momentum", "refresh_interval")
    coords = {"model": [model], "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
    values = {name: (dims, one.value.reshape(1, *momentum.shape), RATE) for name, one in boundaries.items()}
    return xarray.Dataset(values, coords)


# Picture.

SEEN = {"color": s.VERMILION, "marker": "x", "linestyle": "none", "markersize": 4.5}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(sheet.two_arms(setting.rewards), "GRPO with std", "heavy ball", kl_weight=setting.kl_weight)


def draw(figure: Figure, results: Results) -> None:
    """Ratios to the law of model A at both momenta."""
    momenta = results.setting.momentum
    axes = figure.subplots(len(momenta), 1, sharex=True)
    figure.set_figheight(3.8)
    for row, panel in enumerate(axes):
        place: dict[str, Any] = {"model": "refresh", "momentum": momenta[row]}
        predicted, measured = results.predicted.sel(place), results.measured.sel(place)
        n, law = predicted.refresh_interval.values, predicted.law
        panel.axhline(1.0, **s.LAW)
        panel.plot(n, predicted.threshold / law, **s.EXACT)
        panel.plot(n, predicted.onset / law, **s.ONSET)
        panel.plot(n, measured.threshold / law, **s.MEASURED)
        panel.plot(n, measured.onset / law, **s.MEASURED_ONSET)
        panel.plot(n, measured.overshoot / law, **SEEN)
        panel.set(xscale="log", yscale="log")
        panel.set_title(rf"A: refresh, $\mu$ = {momenta[row]:g}")
        sheet.ticks_at(panel.xaxis, n)
        sheet.plain_log(panel.yaxis, (1.0,) if momenta[row] > 0 else (1.0, 2.0, 5.0))
        panel.set_ylabel(r"learning rate / law's")
    axes[-1].set_xlabel(r"refresh interval $N$ (steps)")
    _label(axes[-1])
    key = "lines: predicted, markers: measured"
    sheet.note(axes[0], 0.03, 0.06, key)
    axes[0].set_ylim(0.18, 2.5)
    axes[-1].set_ylim(0.012, 60)


def _label(panel: Axes) -> None:
    """Names of the curves, in the panel where they lie apart."""
    text: dict[str, Any] = {"ha": "right", "fontsize": 7, "transform": panel.get_yaxis_transform()}
    panel.text(0.99, 7.0, "displacement grows", color=s.BLUE, **text)
    panel.text(0.99, 1.2, r"law $K\eta N = 1 - \mu$", **text)
    panel.text(0.99, 0.035, r"pole not real, positive ($\triangle$)", color=s.GREEN, **text)
    panel.text(0.99, 0.016, r"overshoot $10^{-6}$ seen ($\times$)", color=s.VERMILION, **text)


# Claims.

TWICE = 2.0
PLAIN_A, PLAIN_C = ({"model": model, "momentum": 0.0} for model in ("refresh", "pipeline"))
MOMENTUM_A = {"model": "refresh", "momentum": 0.9, "refresh_interval": 16}
THEORY = "derived in bandit_lab/theory/thresholds.py"


# Brackets are 2^-13 of a grid step (a factor 1.46) wide, 5e-5; growth over 150 periods resolves a threshold to 3e-4.
CLAIMS = (
    Claim.one(
        "two_detectors.overshoot_confirms_law",
        "Model A without momentum: overshoot is seen from the law's learning rate on, at every refresh interval",
        f"arXiv 2606.30789; {THEORY}",
        measured=lambda f: farthest_from_one(f.measured.overshoot.sel(PLAIN_A), f.predicted.law.sel(PLAIN_A)),
        tolerance=1e-3,
        fails_if="an overshoot of 10^-6 were seen earlier or later than the sign change of the multiplier",
    ),
    Claim(
        "two_detectors.growth_finds_twice",
        "Model A without momentum: displacements grow only from twice the law's learning rate on",
        THEORY,
        predicted=lambda f: TWICE,
        measured=lambda f: (
            TWICE * farthest_from_one(f.measured.threshold.sel(PLAIN_A), TWICE * f.predicted.law.sel(PLAIN_A))
        ),
        tolerance=2e-3,
        fails_if="the exact threshold without momentum were not twice the law",
        follows="two_detectors.threshold_exact",
        constant="the flip at kappa N = 2 in bandit_lab/theory/thresholds.py",
    ),
    Claim.one(
        "two_detectors.growth_confirms_law_of_c",
        "Model C without momentum: displacements grow from the law's learning rate on",
        THEORY,
        measured=lambda f: farthest_from_one(f.measured.threshold.sel(PLAIN_C), f.predicted.law.sel(PLAIN_C)),
        tolerance=1e-3,
        fails_if="the exact threshold of model C without momentum were not the law",
        follows="two_detectors.threshold_exact",
    ),
    Claim(
        "two_detectors.momentum_overshoot_before_law",
        "Model A, momentum 0.9, N = 16: oscillation begins at this multiple of the law's learning rate, far below it",
        THEORY,
        predicted=lambda f: float((f.predicted.onset / f.predicted.law).sel(MOMENTUM_A)),
        measured=lambda f: float((f.measured.onset / f.predicted.law).sel(MOMENTUM_A)),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows="two_detectors.onset_exact",
    ),
    Claim(
        "two_detectors.momentum_growth_beyond_law",
        "Model A, momentum 0.9, N = 16: displacements grow from this multiple of the law's learning rate on",
        THEORY,
        predicted=lambda f: float((f.predicted.threshold / f.predicted.law).sel(MOMENTUM_A)),
        measured=lambda f: float((f.measured.threshold / f.predicted.law).sel(MOMENTUM_A)),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows="two_detectors.threshold_exact",
    ),
    Claim.ratio(
        "two_detectors.onset_exact",
        "The measured onset of oscillation is the exact one in models A, B, C at every refresh interval and momentum",
        THEORY,
        lambda d: d.onset,
        tolerance=1e-3,
        fails_if="the dominant pole of one model left the positive real axis elsewhere",
    ),
    Claim.ratio(
        "two_detectors.threshold_exact",
        "The measured threshold is the exact one in models A, B, C at every refresh interval and momentum",
        THEORY,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="the same bandit had other thresholds than in the phase diagram",
        follows="phase_diagram.a_exact, b_exact, c_exact",
    ),
)
