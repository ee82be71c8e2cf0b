"""Which detector "confirms" the law K eta N = 1 - mu: one that looks for overshoot, or one that looks for growth?

Prediction (written before the run). Law: kappa N = 1 - mu, kappa = K eta (arXiv 2606.30789). Derived in
bandit_lab/theory/thresholds.py, model A (refresh) at mu = 0: the displacement changes sign from kappa N = 1 and grows
from kappa N = 2. So the overshoot detector confirms the law there, at every N, and the growth detector finds twice it.
With momentum, and in the models B (lag) and C (pipeline), the law lies between the two or beyond both.
Setting: conf/experiment/two_detectors.yaml. Measured on the same runs of the nonlinear mean update: the smallest
learning rate whose dominant pole is not real and positive, the smallest whose overshoot can be seen (10^-6 of the
displacement), and the smallest at which a displacement grows. Drawn: all three over the law's learning rate.
"""

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab import theory
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Claim, Found, Lab, Setting

TITLE = "Two detectors, one law"
RATE = {"units": "logits per unit gradient"}
SEEN = {"color": s.VERMILION, "marker": "x", "linestyle": "none", "markersize": 4.5}


def predict(setting: Setting) -> xarray.Dataset:
    """Law, exact onset of oscillation and exact threshold."""
    signal = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards))
    even = np.full(2, 0.5)
    point = theory.attracting_fixed_point(signal, even, setting.kl_weight, even)
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


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The three detectors at every model, momentum and refresh interval."""
    dims, coords = _axes(setting)
    return xarray.concat(
        [lab.keep(model, lambda m=model: _one_model(m, setting)) for model in coords["model"]], "model"
    )


def _one_model(model: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    report = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point)
    mode = detectors.stiffest_mode(report.relaxation_matrix, point.basis)
    momentum, interval = np.meshgrid(setting.momentum, setting.refresh_interval, indexing="ij")
    cells = Hyper(np.ones(momentum.size), momentum.ravel(), interval.ravel(), np.full(momentum.size, setting.kl_weight))
    scan = setting.learning_rate
    rates = np.geomspace(scan.start, scan.stop, scan.num)
    here = (learner, "mean_field", cells, np.tile(point.theta, (momentum.size, 1)))
    found = {
        "onset": detectors.learning_rate_onset(*here, *mode, rates),
        "overshoot": detectors.first_overshoot(*here, *mode, rates),
        "threshold": detectors.learning_rate_boundary(*here, mode[0], rates),
    }
    dims = ("model", "momentum", "refresh_interval")
    coords = {"model": [model], "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
    values = {name: (dims, one.value.reshape(1, *momentum.shape), RATE) for name, one in found.items()}
    return xarray.Dataset(values, coords)


def _axes(setting: Setting) -> tuple[tuple[str, ...], dict[str, list]]:
    coords = {"model": setting.models, "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
    return tuple(coords), coords


def draw(figure, found: Found, wide: bool) -> None:
    """Ratios to the law: model A at both momenta; two columns: all three models."""
    models = found.setting.models if wide else found.setting.models[:1]
    momenta = found.setting.momentum
    axes = figure.subplots(len(momenta), len(models), sharex=True, sharey="row", squeeze=False)
    figure.set_figheight(3.6)
    names = {"refresh": "A: refresh", "lag": "B: constant lag", "pipeline": "C: pipeline"}
    for (row, column), panel in np.ndenumerate(axes):
        place = {"model": models[column], "momentum": momenta[row]}
        law = found.predicted.law.sel(place)
        n = law.refresh_interval
        panel.axhline(1.0, **s.LAW)
        panel.plot(n, found.predicted.threshold.sel(place) / law, **s.EXACT)
        panel.plot(n, found.predicted.onset.sel(place) / law, **s.ONSET)
        panel.plot(n, found.measured.threshold.sel(place) / law, **s.MEASURED)
        panel.plot(n, found.measured.onset.sel(place) / law, **s.MEASURED_ONSET)
        panel.plot(n, found.measured.overshoot.sel(place) / law, **SEEN)
        panel.set(xscale="log", yscale="log")
        panel.set_title(rf"{names[models[column]]}, $\mu$ = {momenta[row]:g}")
        panel.set_xticks(n.values, [f"{v:g}" for v in n.values], minor=False)
        panel.minorticks_off()
    for panel in axes[-1]:
        panel.set_xlabel(r"refresh interval $N$ (steps)")
    figure.supylabel(r"learning rate / law's", fontsize=8)


def _worst(ratio: xarray.DataArray) -> float:
    """The ratio that is farthest from 1."""
    values = ratio.values.ravel()
    return float(values[np.argmax(np.abs(values - 1))])


def _plain(f: Found) -> dict[str, object]:
    return {"model": "refresh", "momentum": 0.0}


# Brackets are 2^-13 of a grid step of 1.46 wide, 5e-5; the growth of runs of 150 periods resolves the threshold to 3e-4.
CLAIMS = (
    Claim(
        "two_detectors.overshoot_confirms_law",
        "Model A without momentum: overshoot is seen from the law's learning rate on, at every refresh interval",
        "arXiv 2606.30789; derived in bandit_lab/theory/thresholds.py",
        predicted=lambda f: 1.0,
        measured=lambda f: _worst((f.measured.overshoot / f.predicted.law).sel(_plain(f))),
        tolerance=1e-3,
    ),
    Claim(
        "two_detectors.growth_finds_twice",
        "Model A without momentum: displacements grow only from twice the law's learning rate on",
        "derived in bandit_lab/theory/thresholds.py",
        predicted=lambda f: 2.0,
        measured=lambda f: 2 * _worst((f.measured.threshold / (2 * f.predicted.law)).sel(_plain(f))),
        tolerance=2e-3,
    ),
    Claim(
        "two_detectors.onset_exact",
        "The measured onset of oscillation is the exact one in models A, B, C at every refresh interval and momentum",
        "derived in bandit_lab/theory/thresholds.py",
        predicted=lambda f: 1.0,
        measured=lambda f: _worst(f.measured.onset / f.predicted.onset),
        tolerance=1e-3,
    ),
    Claim(
        "two_detectors.threshold_exact",
        "The measured threshold is the exact one in models A, B, C at every refresh interval and momentum",
        "derived in bandit_lab/theory/thresholds.py",
        predicted=lambda f: 1.0,
        measured=lambda f: _worst(f.measured.threshold / f.predicted.threshold),
        tolerance=1e-3,
    ),
)
