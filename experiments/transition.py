"""How does a run go from over-damped to oscillatory, and where?

Prediction (written before the run). arXiv 2606.30789 reads training as an oscillator m x'' + gamma x' + K x = 0. Here
m = mu/eta, gamma = (1 - mu)/eta - K lag (derived in bandit_lab/theory/oscillator.py), with damping ratio
gamma/(2 sqrt(m K)). Exactly, step by step, the displacement is a sum of two powers of the poles z1, z2
(the same file; with a lag block_map.py); with s = log z the damping ratio is -(s1 + s2)/(2 sqrt(s1 s2))
and the frequency |Im s|. On-policy the poles meet at kappa = eta K = (1 - sqrt(mu))^2: critical damping.
Setting: experiments/transition.yaml. Measured: mean reward of runs displaced by +-0.02 logits (half their
difference), and the poles of a linear recurrence fitted to the displacement (none where the second pole has died out
before it can be read). Drawn: trajectories with the closed form
over them; damping ratio and frequency through the transition, in learning rate and in momentum.
"""

from collections.abc import Iterator

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
from bandit_lab.measure import FixedPoint
from bandit_lab.measure.onset import displacement, fit_poles
from experiments.shared import sheet
from experiments.shared.mean_curves import mean_curves
from experiments.shared.theory.release import pole_response

TITLE = "From over-damped to oscillatory"
FINDING = "Oscillation sets in at the learning rate and the momentum that the loop's poles predict"

# What prediction and measurement are both told.

RATIO = {"units": "1", "long_name": "damping ratio"}
FREQUENCY = {"units": "radians per step", "long_name": "frequency"}
KAPPA = {"units": "1", "long_name": "learning rate times stiffness"}
SHAPE = {"units": "of the first displacement", "long_name": "displacement of the expected reward"}
REGIMES = {
    "over_damped": ("over-damped", s.BLUE),
    "critical": ("critical", s.GREEN),
    "oscillatory": ("oscillatory", s.VERMILION),
}


def from_poles(poles: np.ndarray) -> tuple[float, float]:
    """Damping ratio and frequency of the two dominant poles."""
    if len(poles) < 2:
        return np.nan, np.nan
    first, second = np.log(np.asarray(poles[:2], complex))
    return float(np.real(-(first + second) / (2 * np.sqrt(first * second)))), float(abs(first.imag))


def swept(setting: Setting, name: str) -> Iterator[tuple[float, float]]:
    """(kappa, momentum) of every point of a sweep."""
    if name == "kappa":
        scan = setting.kappa_sweep
        return ((float(k), setting.momentum) for k in np.geomspace(scan.start, scan.stop, scan.num))
    scan = setting.momentum_sweep
    return ((setting.fixed_kappa, float(mu)) for mu in np.linspace(scan.start, scan.stop, scan.num))


def coordinates(setting: Setting) -> dict:
    return {
        "regime": list(vars(setting.trajectories)),
        "step": np.arange(setting.steps + 1),
        "lag": setting.lags,
        "kappa": [kappa for kappa, _ in swept(setting, "kappa")],
        "momentum": [mu for _, mu in swept(setting, "momentum")],
        "onset_momentum": setting.onset_momentum,
    }


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Trajectories, damping ratio, frequency and onset: exact, and of the oscillator."""
    values: dict = {}
    curves = [
        [pole_response(t, kappa, setting.momentum) for t in range(setting.steps + 1)]
        for kappa in vars(setting.trajectories).values()
    ]
    values["trajectory"] = (("regime", "step"), curves, SHAPE)
    for sweep in ("kappa", "momentum"):
        cells = list(swept(setting, sweep))
        rows = [[_exact(kappa, mu, lag) for kappa, mu in cells] for lag in setting.lags]
        law = [[_oscillator(kappa, mu, lag) for kappa, mu in cells] for lag in setting.lags]
        for name, table in (("", np.array(rows)), ("oscillator_", np.array(law))):
            values[f"{name}damping_ratio_{sweep}"] = (("lag", sweep), table[..., 0], RATIO)
            values[f"{name}frequency_{sweep}"] = (("lag", sweep), table[..., 1], FREQUENCY)
    onset = [[theory.oscillation_onset("lag", lag, mu) for mu in setting.onset_momentum] for lag in setting.lags]
    plain = [(1 - mu) ** 2 / (4 * mu) for mu in setting.onset_momentum]
    values["onset"] = (("lag", "onset_momentum"), onset, KAPPA)
    values["oscillator_onset"] = ("onset_momentum", plain, KAPPA)
    values["critical_momentum"] = ((), (1 - np.sqrt(setting.fixed_kappa)) ** 2, {"units": "1"})
    return xarray.Dataset(values, coordinates(setting))


def _exact(kappa: float, mu: float, lag: int) -> tuple[float, float]:
    loop = theory.LinearLoop(0.0, 1.0, mu, "lag") if lag else theory.LinearLoop(1.0, 0.0, mu, "refresh")
    return from_poles(theory.multipliers(loop, kappa, lag if lag else 1)[:2])


def _oscillator(kappa: float, mu: float, lag: int) -> tuple[float, float]:
    osc = theory.oscillator(kappa, mu, 1.0, lag)
    return osc.damping_ratio, abs(osc.rates[0].imag)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Trajectories of displaced runs; poles and onsets from their displacement."""
    learner = Learner(two_arm(setting.rewards))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    report = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point)
    mode = detectors.stiffest_mode(report.relaxation_matrix, point.basis)
    values: dict = {"trajectory": (("regime", "step"), _trajectories(setting, learner, point, report.largest), SHAPE)}
    grid = np.geomspace(setting.onset_scan.start, setting.onset_scan.stop, setting.onset_scan.num) / report.largest
    onsets = []
    for sweep in ("kappa", "momentum"):
        values[f"damping_ratio_{sweep}"] = (("lag", sweep), [], RATIO)
        values[f"frequency_{sweep}"] = (("lag", sweep), [], FREQUENCY)
    for lag in setting.lags:
        here = Learner(
            two_arm(setting.rewards), staleness=STALENESS["lag" if lag else "refresh"](), horizon=max(setting.lags)
        )
        for sweep in ("kappa", "momentum"):
            kappa, mu = np.array(list(swept(setting, sweep))).T
            cells = _cells(kappa / report.largest, mu, lag, setting)
            theta = np.tile(point.rest, (len(mu), 1))
            series = displacement(here, "mean_field", cells, theta, *mode)
            poles = np.array([from_poles(fit_poles(row, 2)) for row in series])
            values[f"damping_ratio_{sweep}"][1].append(poles[:, 0])
            values[f"frequency_{sweep}"][1].append(poles[:, 1])
        mu = np.array(setting.onset_momentum)
        theta = np.tile(point.rest, (len(mu), 1))
        cells = _cells(np.ones(len(mu)), mu, lag, setting)
        onset = detectors.learning_rate_onset(here, "mean_field", cells, theta, *mode, grid)
        onsets.append(onset.value * report.largest)
    values["onset"] = (("lag", "onset_momentum"), onsets, KAPPA)
    values["critical_momentum"] = ((), _critical(setting, values), {"units": "1"})
    return xarray.Dataset(values, coordinates(setting))


def _trajectories(setting: Setting, learner: Learner, point: FixedPoint, stiffness: float) -> np.ndarray:
    """Half the difference of the expected rewards of runs displaced both ways, over its first value [regime, step]."""
    rates = np.repeat([kappa / stiffness for kappa in vars(setting.trajectories).values()], 2)
    away = np.tile([[1.0, -1.0], [-1.0, 1.0]], (len(rates) // 2, 1)) * setting.displacement
    cells = _cells(rates, np.full(len(rates), setting.momentum), 0, setting)
    reward = mean_curves(learner, cells, steps=setting.steps, initial=point.rest + away)
    difference = reward[::2] - reward[1::2]
    return difference / difference[:, :1]


def _cells(rates: np.ndarray, mu: np.ndarray, lag: int, setting: Setting) -> Hyper:
    """Settings with a lag; without one the gradient is fresh at every step."""
    return Hyper(rates, mu, np.full(len(mu), max(lag, 1)), np.full(len(mu), setting.kl_weight))


def _critical(setting: Setting, values: dict) -> float:
    """Momentum at which the squared damping ratio, smooth through the transition, passes 1 on-policy."""
    from scipy.interpolate import CubicSpline

    mu, ratio = np.array([mu for _, mu in swept(setting, "momentum")]), values["damping_ratio_momentum"][1][0]
    fine = np.isfinite(ratio)
    roots = CubicSpline(mu[fine], ratio[fine] ** 2 - 1).roots(extrapolate=False)
    return float(roots[0]) if len(roots) else np.nan


# Numbers that the claims compare.


def both_sweeps(f: Results, quantity: str, below: float) -> float:
    """Measured over predicted, farthest from 1, where the damping ratio is below a limit."""
    ratios = []
    for sweep in ("kappa", "momentum"):
        predicted = f.predicted[f"{quantity}_{sweep}"].where(f.predicted[f"damping_ratio_{sweep}"] < below)
        ratios.append(farthest_from_one(f.measured[f"{quantity}_{sweep}"], predicted))
    return float(farthest_from_one(np.array(ratios), 1.0))


def lost_damping(part: xarray.Dataset, f: Results, prefix: str = "") -> float:
    """Damping ratio on-policy less that with the largest lag, at the learning rate in the middle of the sweep."""
    ratio = part[f"{prefix}damping_ratio_kappa"].isel(kappa=f.setting.kappa_sweep.num // 2)
    return float(ratio.sel(lag=f.setting.lags[0]) - ratio.sel(lag=f.setting.lags[-1]))


# Picture.

COLOURS = (s.BLUE, s.VERMILION)


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.two_arms(setting.rewards), "GRPO with std", "heavy ball, constant lag", kl_weight=setting.kl_weight
    )


def draw(figure: Figure, results: Results) -> None:
    """Trajectories; damping ratio and frequency against learning rate and momentum."""
    figure.set_figheight(4.8)
    axes = figure.subplot_mosaic([["t", "t"], ["dk", "dm"], ["fk", "fm"]], height_ratios=(1.2, 1, 1))
    _draw_trajectories(axes["t"], results)
    for letter, sweep in (("k", "kappa"), ("m", "momentum")):
        for row, quantity in (("d", "damping_ratio"), ("f", "frequency")):
            _draw_sweep(axes[row + letter], results, quantity, sweep)
        axes["d" + letter].set(yscale="log", ylim=(0.04, 8))
        axes["d" + letter].tick_params(labelbottom=False)
        axes["f" + letter].set_ylim(0, 0.32)
        sheet.ticks_at(axes["d" + letter].yaxis, (0.1, 1))
    for panel in (axes["dm"], axes["fm"]):
        panel.tick_params(labelleft=False)
    axes["dk"].set_ylabel("damping ratio")
    axes["fk"].set_ylabel("frequency (rad/step)")
    axes["fk"].set_xlabel(r"$\eta K$ at $\mu$ = " + f"{results.setting.momentum:g}")
    axes["fm"].set_xlabel(r"$\mu$ at $\eta K$ = " + f"{results.setting.fixed_kappa:g}")
    sheet.note(axes["dk"], 0.03, 0.06, "lag 0", color=COLOURS[0])
    sheet.note(axes["dk"], 0.03, 0.22, "lag 4", color=COLOURS[1])
    sheet.note(axes["dm"], 0.97, 0.97, "dashed: predicted\nby the oscillator", ha="right", va="top")


def _draw_trajectories(panel: Axes, results: Results) -> None:
    every = slice(None, None, 3)
    for place, (regime, (label, colour)) in enumerate(REGIMES.items()):
        predicted, measured = (
            results.predicted.trajectory.sel(regime=regime),
            results.measured.trajectory.sel(regime=regime),
        )
        panel.plot(predicted.step, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        look = s.MEASURED | {"color": colour, "markersize": 2.6, "markeredgewidth": 0.7}
        panel.plot(measured.step[every], measured[every], **look)
        name = f"{label}, " + rf"$\eta K$ = {results.setting.trajectories[regime]:.2g}"
        sheet.note(panel, 0.98, 0.98 - 0.085 * place, name, color=colour, ha="right", va="top")
    panel.axhline(0, color=s.GREY, linewidth=0.6, zorder=0)
    key = "lines: predicted exactly, circles: measured"
    sheet.note(panel, 0.98, 0.03, key, ha="right")
    panel.set(xlabel="step", ylabel="displacement / first", xlim=(0, results.setting.steps), ylim=(-0.9, 1.35))


def _draw_sweep(panel: Axes, results: Results, quantity: str, sweep: str) -> None:
    name = f"{quantity}_{sweep}"
    for lag, colour in zip(results.setting.lags, COLOURS, strict=True):
        exact, law, measured = (
            one.sel(lag=lag)
            for one in (results.predicted[name], results.predicted[f"oscillator_{name}"], results.measured[name])
        )
        x = exact[sweep]
        panel.plot(x, law.where(law > 0), **s.LAW | {"color": colour, "linewidth": 0.9})
        panel.plot(x, exact.where(exact > 0), **s.EXACT | {"color": colour, "linewidth": 1.2})
        panel.plot(x, measured.where(measured > 0), **s.MEASURED | {"color": colour, "markersize": 2.8})
    if quantity == "damping_ratio":
        panel.axhline(1, color=s.GREY, linewidth=0.6, zorder=0)
    first, last = results.predicted[sweep].values[[0, -1]]
    if sweep == "kappa":
        panel.set(xscale="log", xlim=(first / 1.2, last * 1.2))
        sheet.ticks_at(panel.xaxis, (0.001, 0.01))
    else:
        panel.set_xlim(first - 0.03, 1)


# Claims.

THEORY = "derived in bandit_lab/theory/oscillator.py and block_map.py"


def _trajectory_claim(regime: str, label: str) -> Claim:
    # Half the difference of two opposite runs leaves an error of third order: 0.04^2 of the gap.
    return Claim.one(
        f"transition.{regime}",
        f"The closed form lies over the {label} trajectory: 1 less their largest difference over the displacement",
        "arXiv 2606.30789; derived in bandit_lab/theory/oscillator.py",
        measured=lambda f: 1 - float(abs(f.measured.trajectory - f.predicted.trajectory).sel(regime=regime).max()),
        tolerance=2e-3,
        fails_if="the reward of displaced runs did not follow the two poles from the first step on",
    )


CLAIMS = (
    *(_trajectory_claim(regime, label) for regime, (label, _) in REGIMES.items()),
    # Poles that meet are resolved to the square root of the rounding error of a displacement of 2e-5: 1e-5.
    Claim.one(
        "transition.damping_ratio",
        "Measured over predicted damping ratio, the farthest from 1 over both sweeps and both lags",
        THEORY,
        measured=lambda f: both_sweeps(f, "damping_ratio", np.inf),
        tolerance=1e-3,
        fails_if="a pole of the real update was another at one learning rate, momentum or lag",
    ),
    Claim.one(
        "transition.frequency",
        "Measured over predicted frequency where the damping ratio is below 0.9, the farthest from 1",
        THEORY,
        measured=lambda f: both_sweeps(f, "frequency", 1 / f.setting.clear),
        tolerance=1e-3,
        fails_if="the angle of a pole were another there",
    ),
    Claim.ratio(
        "transition.onset",
        "Learning rate at which oscillation sets in, measured over predicted, the farthest from 1",
        "derived in bandit_lab/theory/thresholds.py",
        lambda d: d.onset,
        tolerance=1e-3,
        fails_if="the dominant pole left the real axis elsewhere",
    ),
    # A cubic through points 0.03 apart.
    Claim.same(
        "transition.onset_in_momentum",
        "Momentum at which oscillation sets in on-policy, at learning rate times stiffness 0.02: (1 - sqrt(0.02))^2",
        "derived in bandit_lab/theory/oscillator.py",
        lambda d: d.critical_momentum,
        tolerance=1e-3,
        relative=True,
        fails_if="(1 - sqrt(kappa))^2 were not where the poles meet",
        follows="transition.damping_ratio",
    ),
    Claim(
        "transition.oscillator_onset",
        "The oscillator with mass mu/eta puts the on-policy onset at momentum 0.9 too high by (1 + sqrt(mu))^2/(4 mu)",
        "arXiv 2606.30789 (oscillator); derived in bandit_lab/theory/oscillator.py",
        predicted=lambda f: float(
            (f.predicted.oscillator_onset / f.predicted.onset.sel(lag=0)).sel(onset_momentum=0.9)
        ),
        measured=lambda f: float((f.predicted.oscillator_onset / f.measured.onset.sel(lag=0)).sel(onset_momentum=0.9)),
        tolerance=1e-3,
        relative=True,
        fails_if="the oscillator's critical damping were another",
        follows="transition.onset",
    ),
    Claim(
        "transition.lag_erodes_damping",
        "A lag of 4 steps takes this much off the damping ratio, at momentum 0.9 in the middle of the sweep",
        THEORY,
        predicted=lambda f: lost_damping(f.predicted, f),
        measured=lambda f: lost_damping(f.measured, f),
        tolerance=1e-3,
        relative=True,
        fails_if="the difference of two damping ratios were formed wrongly",
        follows="transition.damping_ratio",
    ),
    # The oscillator is of leading order in lag * (1 - mu) = 0.4 and in the learning rate.
    Claim(
        "transition.lag_erodes_damping_oscillator",
        "The same as the oscillator has it, lag * sqrt(kappa/mu)/2",
        "arXiv 2606.30789; derived in bandit_lab/theory/oscillator.py",
        predicted=lambda f: lost_damping(f.predicted, f, "oscillator_"),
        measured=lambda f: lost_damping(f.measured, f),
        tolerance=0.25,
        relative=True,
        fails_if="the oscillator's leading order were off by more than a quarter",
        follows="transition.damping_ratio",
        explanation="The oscillator is of leading order in the lag; the exact poles are what is measured.",
    ),
)
