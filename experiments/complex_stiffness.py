"""Is the stiffness of GRPO always real, and what is the law worth where it is not?

Prediction (written before the run). Divided by the group's std, three or more reward values make a drift that is no
gradient: its stiffness matrix beta F - s (grad h)^T is not symmetric (bandit_lab/theory/stiffness.py), and a pair of
eigenvalues |l| e^{+-i phi} can be complex. Without the std the drift is a gradient and every stiffness real. The
threshold of a complex pair lies where the marginal curve of the multipliers has the argument +-phi
(bandit_lab/theory/thresholds.py). It falls with phi for every staleness model, and as N (1 - mu) -> 0 it is
N (1 - mu)/tan^2(phi) of the law eta Re(l) N = 1 - mu of arXiv 2606.30789: no model is safe, model A included.
Setting: experiments/complex_stiffness.yaml. Bandits are drawn by their fixed point, so that every one has it.
Measured: eigenvalues of the drift's derivative (automatic differentiation); for some complex cases with three arms the
smallest learning rate at which a displacement grows in runs of the nonlinear mean update. Drawn: share of bandits with
a complex stiffness against the number of arms; threshold over law against the argument.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bandit_lab import measure as detectors, theory
from bandit_lab._types import Array
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import TabularBandit, k_arm
from bandit_lab.grpo import ADVANTAGES, STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.measure.directions import policy_directions
from bandit_lab.simulation import drift_of
from experiments.shared import sheet

TITLE = "Complex stiffness"
FINDING = "Dividing by the std can make the stiffness complex: the threshold then falls to {unsafe_a:.0%} of the law's"

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient"}
DEGREES = {"units": "degrees", "long_name": "largest argument of a stiffness"}
SHARE = {"units": "1", "long_name": "share of the bandits whose fixed point attracts"}
ROUNDING = 1e-6
"""Imaginary parts up to this share of the largest stiffness count as none."""


class Problem(NamedTuple):
    """Numbers of one random bandit; logits [K] of the policy at its fixed point and of the reference."""

    rewards: np.ndarray
    logits: np.ndarray
    reference: np.ndarray
    kl_weight: float


def problems_of(setting: Setting, advantage: str, arms: int) -> list[Problem]:
    """The random bandits of one advantage and number of arms."""
    rng, (low, high) = np.random.default_rng([setting.seed, arms]), np.log(setting.kl_weight)
    problems = []
    for _ in range(setting.bandits):
        rewards = rng.uniform(setting.reward[0], setting.reward[1], arms)
        logits = rng.normal(0, setting.logit_std, arms)
        weight = float(np.exp(rng.uniform(low, high)))
        policy = np.exp(logits) / np.exp(logits).sum()
        advantages = rewards - policy @ rewards
        if advantage == "grpo":
            advantages = advantages / np.sqrt(policy @ advantages**2)
        problems.append(Problem(rewards, logits, logits - advantages / weight, weight))
    return problems


def attracts(spectrum: np.ndarray) -> bool:
    """Whether every stiffness [R] has a positive real part."""
    return bool(np.min(spectrum.real) > 0)


def argument(spectrum: np.ndarray) -> float:
    """Largest argument of a stiffness [R], degrees; 0 if all are real to rounding, NaN where the fixed point repels."""
    if not attracts(spectrum):
        return float("nan")
    turning = np.abs(spectrum.imag) > ROUNDING * np.abs(spectrum).max()
    return float(np.degrees(np.abs(np.angle(spectrum[turning])).max())) if turning.any() else 0.0


def shares(arguments: np.ndarray) -> tuple[float, float]:
    """Of the bandits that attract: (share with a complex stiffness, share without). arguments: [M], see `argument`."""
    finite = arguments[np.isfinite(arguments)]
    return float(np.mean(finite > 0)), float(np.mean(finite == 0))


def chosen(setting: Setting, arguments: np.ndarray) -> np.ndarray:
    """Numbers of the bandits of the nonlinear runs: complex ones, evenly by the rank of their argument."""
    some = np.flatnonzero(np.nan_to_num(arguments) >= setting.least_argument)
    ranked = some[np.argsort(arguments[some], kind="stable")]
    return ranked[np.round(np.linspace(0, len(ranked) - 1, setting.cases)).astype(int)]


def loop_names(setting: Setting) -> list[str]:
    """One name for every loop."""
    letters = {"refresh": "A", "lag": "B", "pipeline": "C"}
    return [f"{letters[model]}: N = {interval}, mu = {momentum:g}" for model, interval, momentum in setting.loops]


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    none = {"units": "1"}
    return {
        "advantage": ("advantage", setting.advantages, {"units": ""}),
        "arms": ("arms", setting.arms, none),
        "loop": ("loop", loop_names(setting), {"units": ""}),
        "model": ("loop", [model for model, _, _ in setting.loops], {"units": ""}),
        "case": ("case", np.arange(setting.cases), none),
    }


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Shares and arguments by class; threshold and law of every case; threshold over law against the argument."""
    variables = {
        (advantage, arms): np.array([argument(_spectrum(p, advantage)) for p in problems_of(setting, advantage, arms)])
        for advantage in setting.advantages
        for arms in setting.arms
    }
    share = np.array([[shares(variables[a, k]) for k in setting.arms] for a in setting.advantages])
    largest = np.array([[np.nanmax(variables[a, k]) for k in setting.arms] for a in setting.advantages])
    first = setting.advantages[0], setting.case_arms
    which = chosen(setting, variables[first])
    stiffness = [_spectrum(problems_of(setting, *first)[i], first[0])[0] for i in which]
    threshold = [[_threshold(loop, value) for value in stiffness] for loop in setting.loops]
    law = [[theory.leading_order(n, mu) / value.real for value in stiffness] for _, n, mu in setting.loops]
    angles = np.linspace(setting.curve.start, setting.curve.stop, setting.curve.num)
    curve = [[_over_law(loop, np.radians(angle)) for angle in angles] for loop in setting.loops]
    columns = {
        "complex_share": (("advantage", "arms"), share[..., 0], SHARE),
        "real_share": (("advantage", "arms"), share[..., 1], SHARE),
        "largest_argument": (("advantage", "arms"), largest, DEGREES),
        "argument": ("case", variables[first][which], DEGREES),
        "threshold": (("loop", "case"), threshold, RATE),
        "law": (("loop", "case"), law, RATE),
        "curve": (("loop", "angle"), curve, {"units": "1", "long_name": "exact threshold over law"}),
    }
    return xarray.Dataset(columns, coordinates(setting) | {"angle": ("angle", angles, {"units": "degrees"})})


def _spectrum(problem: Problem, advantage: str) -> np.ndarray:
    """Stiffnesses [K - 1] at the fixed point, by the closed form."""
    signal = theory.MomentSignal(tuple(problem.rewards), advantage=advantage)
    policy = np.exp(problem.logits) / np.exp(problem.logits).sum()
    return theory.stiffness_split(signal, policy, problem.kl_weight).spectrum()


def _threshold(loop: list, stiffness: complex) -> float:
    model, interval, momentum = loop
    angle = abs(float(np.angle(stiffness)))
    return theory.exact(model, interval, momentum, angle=angle).kappa / abs(stiffness)


def _over_law(loop: list, angle: float) -> float:
    """Exact threshold over the law, whose stiffness is the real part."""
    model, interval, momentum = loop
    exact = theory.exact(model, interval, momentum, angle=angle)
    return exact.kappa * np.cos(angle) / theory.leading_order(interval, momentum)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Spectra by differentiation of the drift, then thresholds from runs of the nonlinear mean update."""
    spectra = lab.keep("spectra", partial(_spectra, setting))
    parts = [spectra]
    for place in range(len(setting.loops)):
        parts.append(lab.keep(f"loop {place}", partial(_one_loop, setting, place, spectra)))
        lab.progress(place + 1, len(setting.loops))
    thresholds = xarray.concat(parts[1:], "loop")
    return spectra.drop_vars(["bandit", "stiffness"]).merge(thresholds).assign_coords(coordinates(setting))


def _bandits(problems: list[Problem]) -> list[TabularBandit]:
    return [k_arm(p.rewards.tolist(), p.reference.tolist(), p.logits.tolist(), "fixed") for p in problems]


def _spectra(setting: Setting) -> xarray.Dataset:
    spectra = {(a, k): _spectra_of(setting, a, k) for a in setting.advantages for k in setting.arms}
    arguments = {key: np.array([argument(one) for one in every]) for key, every in spectra.items()}
    grid = [[arguments[a, k] for k in setting.arms] for a in setting.advantages]
    share = np.array([[shares(one) for one in row] for row in grid])
    runs = setting.advantages[0], setting.case_arms
    first = arguments[runs]
    which = chosen(setting, first)
    largest = np.array([[np.nanmax(one) for one in row] for row in grid])
    return xarray.Dataset(
        {
            "complex_share": (("advantage", "arms"), share[..., 0], SHARE),
            "real_share": (("advantage", "arms"), share[..., 1], SHARE),
            "largest_argument": (("advantage", "arms"), largest, DEGREES),
            "argument": ("case", first[which], DEGREES),
            "bandit": ("case", which, {"units": "1"}),
            "stiffness": ("case", spectra[runs][which].real.max(axis=1), {"units": "1/logit"}),
        }
    )


def _spectra_of(setting: Setting, advantage: str, arms: int) -> np.ndarray:
    """Stiffnesses [bandits, K - 1]: eigenvalues of minus the drift's derivative, the all-ones direction left out."""
    problems = problems_of(setting, advantage, arms)
    bandits = _bandits(problems)
    learner = Learner(bandits[0], ADVANTAGES[advantage]())

    def derivative(bandit: Any, theta: Array, weight: Array) -> Array:
        drift = drift_of(replace(learner, bandit=bandit), "mean_field")
        return jax.jacfwd(lambda x: drift(x, x, weight))(theta)

    every = detectors.stack_bandits(bandits), np.stack([p.logits for p in problems])
    slopes = np.asarray(jax.jit(jax.vmap(derivative))(*every, np.array([p.kl_weight for p in problems])))
    basis = policy_directions(learner, problems[0].logits)
    return np.linalg.eigvals(-basis.T @ slopes @ basis)


def _one_loop(setting: Setting, place: int, loop: xarray.Dataset) -> xarray.Dataset:
    """The learning rate from which a displacement grows, for every case."""
    model, interval, momentum = setting.loops[place]
    every = problems_of(setting, setting.advantages[0], setting.case_arms)
    problems = [every[int(i)] for i in loop.bandit]
    bandits, ones = _bandits(problems), np.ones(len(problems))
    learner = Learner(bandits[0], ADVANTAGES[setting.advantages[0]](), staleness=STALENESS[model](), horizon=interval)
    weights = np.array([p.kl_weight for p in problems])
    cells = Hyper(ones, momentum * ones, np.full(len(ones), interval), weights)
    unit = (1 - momentum) / (interval * loop.stiffness.values)
    scan = np.geomspace(setting.scan.start, setting.scan.stop, setting.scan.num)
    boundary = detectors.learning_rate_boundary(
        learner,
        "mean_field",
        cells,
        np.stack([p.logits for p in problems]),
        detectors.generic_direction(policy_directions(learner, problems[0].logits)),
        unit[:, None] * scan,
        bandits=detectors.stack_bandits(bandits),
    )
    return xarray.Dataset({"threshold": ("case", boundary.value, RATE)})


# Numbers that the claims compare.


def half_a_bandit(results: Results) -> float:
    """Share of the bandits drawn: not one may be told otherwise."""
    return 0.5 / results.setting.bandits


def least_over_law(results: Results, side: Any, model: str) -> float:
    """Smallest threshold over law of all cases of a staleness model; side: what was predicted or measured."""
    return float((side.threshold / results.predicted.law).isel(loop=results.predicted.model.values == model).min())


# Picture.

MARKERS = {"refresh": "o", "lag": "s", "pipeline": "D"}
LINES = ("-", (0, (1, 1.2)))  # the first and the second loop of a model
NAMES = {"grpo": "GRPO: divided by the std", "dr_grpo": "mean only", "rloo": "leave-one-out"}
SIGNS = {"grpo": ("o", s.BLUE), "dr_grpo": ("s", s.GREEN), "rloo": ("x", s.VERMILION)}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        "random arms, fixed rewards",
        "GRPO with std unless named; heavy ball",
        kl_weight=setting.kl_weight,
    )


def draw(figure: Figure, results: Results) -> None:
    """How often a stiffness is complex; what that does to the threshold."""
    parts = _draw_shares, _draw_thresholds
    sheet.fill(figure, results, parts, height=5.4, sizes=(1, 1.5))


def _draw_shares(panel: Axes, results: Results) -> None:
    for row, name in enumerate(results.setting.advantages):
        marker, colour = SIGNS[name]
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 4.0 if marker != "x" else 6.0}
        panel.plot(
            results.predicted.arms, results.predicted.complex_share.isel(advantage=row), color=colour, linewidth=1.2
        )
        panel.plot(results.measured.arms, results.measured.complex_share.isel(advantage=row), **look)
        sheet.name_marker(panel, 0.06, 0.93 - 0.09 * row, NAMES[name], look, gap=0.05)
    panel.set(xlabel="arms", ylabel="share of bandits with a\ncomplex stiffness", ylim=(-0.02, 0.62), xscale="log")
    sheet.ticks_at(panel.xaxis, results.setting.arms)


def _draw_thresholds(panel: Axes, results: Results) -> None:
    panel.axhline(1, **s.LAW)
    sheet.name_level(panel, 1.06, "law; below: unsafe")
    ratio = results.measured.threshold / results.predicted.law
    seen: dict[str, int] = {}
    handles = []  # not on the axes: an empty line there would count as one at the corner of the page
    for row, name in enumerate(results.predicted.loop.values):
        model = str(results.predicted.model.values[row])
        second = seen.setdefault(model, 0)
        seen[model] += 1
        colour, face = s.MODEL_COLOURS[model], "white" if second == 0 else s.MODEL_COLOURS[model]
        marks = s.MEASURED | {"color": colour, "marker": MARKERS[model], "markerfacecolor": face, "markersize": 3.6}
        line: s.Look = {"color": colour, "linestyle": LINES[second % 2], "linewidth": 1.4}
        panel.plot(results.predicted.angle, results.predicted.curve.isel(loop=row), **line)
        panel.plot(results.measured.argument, ratio.isel(loop=row), **marks)
        label = str(name).replace("mu", r"$\mu$").replace("N", "$N$")
        handles.append(Line2D([], [], **line | marks | {"linestyle": line["linestyle"], "label": label}))
    panel.set(xlabel="argument of the stiffness (degrees)", ylabel="threshold / law", yscale="log")
    panel.set(xlim=(0, results.setting.curve.stop), ylim=(0.002, 12))
    sheet.ticks_at(panel.yaxis, (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5))
    panel.legend(handles=handles, loc="lower left", title="lines exact, markers measured", title_fontsize=7)


# Claims.

SPECTRUM, THEORY = "derived in bandit_lab/theory/stiffness.py", "derived in bandit_lab/theory/thresholds.py"


def _share(name: str, statement: str, read: Callable[[Any], Any], fails_if: str) -> Claim:
    about = {"unit": "share", "fails_if": fails_if}
    return Claim.same(f"complex_stiffness.{name}", statement, SPECTRUM, read, half_a_bandit, **about)


def _unsafe(name: str, model: str, statement: str) -> Claim:
    return Claim(
        f"complex_stiffness.{name}",
        f"{statement}: smallest threshold over law of all cases",
        f"arXiv 2606.30789 (law); {THEORY}",
        predicted=lambda f: least_over_law(f, f.predicted, model),
        measured=lambda f: least_over_law(f, f.measured, model),
        tolerance=1e-3,
        relative=True,
        fails_if="the law were divided by wrongly",
        follows="complex_stiffness.threshold",
    )


CLAIMS = (
    # Not one bandit may be told otherwise: half a bandit, of those drawn.
    _share(
        "fewest_arms",
        "GRPO, the fewest arms: share of the bandits with a complex stiffness",
        lambda d: d.complex_share.sel(advantage="grpo")[0],
        "the drift's derivative told one bandit otherwise than the closed form",
    ),
    _share(
        "most_arms",
        "GRPO, the most arms: share of the bandits with a complex stiffness",
        lambda d: d.complex_share.sel(advantage="grpo")[-1],
        "the same with many arms, where eigenvalues lie close together",
    ),
    _share(
        "gradient",
        "Without the std (dr_grpo, rloo): share of the bandits whose stiffnesses are all real, the smallest over arms",
        lambda d: d.real_share.sel(advantage=["dr_grpo", "rloo"]).min(),
        "the drift without the std were no gradient at one bandit",
    ),
    # Eigenvalues of matrices that agree to rounding; near a double one a digit in two is lost.
    Claim.same(
        "complex_stiffness.argument",
        "GRPO: the largest argument of a stiffness over all bandits",
        SPECTRUM,
        lambda d: np.max(d.largest_argument.sel(advantage="grpo")),
        tolerance=1e-6,
        relative=True,
        unit="degrees",
        fails_if="the closed form of the stiffness matrix were another",
    ),
    # As in `stiffness`: growth over 150 periods resolves thresholds to 3e-4.
    Claim.ratio(
        "complex_stiffness.threshold",
        "Measured over predicted threshold, the farthest from 1 over all cases and loops",
        THEORY,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="the marginal curve had its argument elsewhere, or the nonlinear run lost stability otherwise",
        post_hoc="the scan was lowered after a first run had not bracketed the thresholds of one case",
    ),
    _unsafe("unsafe_a", "refresh", "Model A, careful for real stiffness, is not for complex ones"),
    _unsafe("unsafe_b", "lag", "Model B, close for real stiffness, is not for complex ones"),
    _unsafe("unsafe_c", "pipeline", "Model C, unsafe by up to 1.5 for real stiffness, is so by more for complex ones"),
)
