"""Which gradient estimators have a refresh interval beyond which training is unstable at all?

Prediction (written before the run). The stiffness splits in a part at the current policy (fresh) and a part at the
rollout policy (stale), in closed form (bandit_lab/theory/stiffness.py). `frozen`: all is stale, so that the threshold
falls as 1/N, as arXiv 2606.30789 has it. `ratio`: only the group std is stale; `clipped` is the same near a fixed
point.
With rho = stale/fresh (two arms) the multiplier of a block goes to -rho as N grows (shared/theory/long_block.py;
the recurrence of arXiv 2503.06639): for |rho| < 1 blocks may be as long as one likes, above there is a threshold. With
momentum there can be islands below: a block ends half a cycle off and is unstable, while longer ones are stable.
Setting: experiments/estimators.yaml. Measured: learning rates and refresh intervals at which a displacement grows,
and multipliers as eigenvalues of the Jacobian of a block of the real update. Drawn: thresholds, an island, the limit.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import measure as detectors, theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import TabularBandit, two_arm
from bandit_lab.grpo import ESTIMATORS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared import sheet
from experiments.shared.measure.boundaries import floquet_intervals, refresh_interval_boundary

TITLE = "Which estimators have a refresh-interval threshold"
FINDING = (
    "Frozen samples are stable up to N = {frozen_stable_intervals:.0f}, uncorrected ones to "
    "{uncorrected_stable_intervals:.0f}, importance ratios at every N"
)

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient", "long_name": "threshold"}
STEPS = {"units": "steps"}
COUNT = {"units": "1", "long_name": "stable refresh intervals"}
MULTIPLIER = {"units": "1", "long_name": "multiplier per block"}


def mixed_bandit(policy: float, rho: float) -> tuple[float, float, float]:
    """(KL weight, logit gap of the reference, fresh stiffness) of two arms with rewards 1 and 0 and this fixed point.

    rho = (1 - 2p)/(2 beta sd), gap = logit p - 1/(beta sd), fresh stiffness 2 beta sd^2 with sd^2 = p (1 - p).
    """
    sd = np.sqrt(policy * (1 - policy))
    beta = abs(1 - 2 * policy) / (2 * rho * sd)
    return beta, np.log(policy / (1 - policy)) - 1 / (beta * sd), 2 * beta * sd**2


def side(setting: Setting, rho: float) -> float:
    """Probability of the good arm at the fixed point: below 1/2 for rho > 0."""
    return setting.long.policy if rho > 0 else 1 - setting.long.policy


def dataset_values(threshold: Any, stable: Any, radius: Any, edges: Any, limit: Any) -> dict[str, Any]:
    return {
        "threshold": (("estimator", "refresh_interval"), np.array(threshold, float), RATE),
        "stable_intervals": ("estimator", stable, COUNT),
        "radius": (("rho", "length"), radius, MULTIPLIER),
        "island": ("edge", edges, STEPS),
        "limit": ("long_rho", limit, MULTIPLIER),
    }


def counted(setting: Setting) -> np.ndarray:
    return np.arange(1, setting.counted + 1)


def lengths(setting: Setting) -> np.ndarray:
    return np.arange(1, setting.islands.longest + 1)


def coordinates(setting: Setting) -> dict:
    return {
        "estimator": setting.estimators,
        "refresh_interval": setting.refresh_interval,
        "rho": setting.islands.rho,
        "length": lengths(setting),
        "edge": ["first", "last"],
        "long_rho": setting.long_rho,
    }


# Prediction: theory alone.


def _loop(
    signal: theory.BinarySignal,
    reference: np.ndarray,
    beta: float,
    estimator: str,
    mu: float,
    start: np.ndarray | None = None,
) -> theory.LinearLoop:
    point = theory.settled_point(signal, reference, beta, reference if start is None else start)
    return theory.LinearLoop(*theory.stiffness_split(signal, point.policy, beta, estimator).reduced(), mu, "refresh")


def _mixed_loop(policy: float, rho: float, mu: float) -> tuple[theory.LinearLoop, float]:
    """(loop of the `ratio` estimator, fresh stiffness) from the bandit's own fixed point."""
    beta, gap, fresh = mixed_bandit(policy, rho)
    reference = np.array([1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(gap))])
    signal = theory.BinarySignal(theory.GroupLaw(), (1.0, 0.0))
    return _loop(signal, reference, beta, "ratio", mu), fresh


def predict(setting: Setting) -> xarray.Dataset:
    """Thresholds and stable intervals of four estimators; multipliers of mixed loops."""
    signal, even = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards)), np.full(2, 0.5)
    threshold, stable = [], []
    for name in setting.estimators:
        near = "ratio" if name == "clipped" else name
        loop = _loop(signal, even, setting.kl_weight, near, setting.momentum)
        threshold.append(
            [
                theory.first_unstable_learning_rate(loop, n, setting.points_per_decade).value
                for n in setting.refresh_interval
            ]
        )
        unstable = [theory.spectral_radius(loop, setting.learning_rate, n) >= 1 for n in counted(setting)]
        stable.append(float(len(unstable) - sum(unstable)))
    radius, edges = [], []
    for rho in setting.islands.rho:
        loop, fresh = _mixed_loop(setting.islands.policy, rho, setting.momentum)
        rate = setting.islands.fresh_kappa / fresh
        radius.append([theory.spectral_radius(loop, rate, n) for n in lengths(setting)])
        if rho == setting.islands.island_rho:
            edges = [float(n) for n in theory.islands(loop, rate, setting.islands.longest)[0]]
    limit = []
    for rho in setting.long_rho:
        loop, _ = _mixed_loop(side(setting, rho), abs(rho), setting.long.momentum)
        limit.append(-(loop.stale / loop.fresh).item())
    values = dataset_values(threshold, stable, radius, edges, limit)
    return xarray.Dataset(values, coordinates(setting))


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The same by runs and by Jacobians of the real update."""
    parts = [lab.keep(name, partial(_one_estimator, name, setting)) for name in setting.estimators]
    mixed = lab.keep("mixed", lambda: _mixtures(setting))
    together = xarray.concat(parts, "estimator")
    values = dataset_values(
        together.threshold.values, together.stable.values, mixed.radius.values, mixed.island.values, mixed.limit.values
    )
    values["growing"] = (("length",), mixed.growing.values, {"units": "1", "long_name": "whether displaced runs grow"})
    return xarray.Dataset(values, coordinates(setting))


def _one_estimator(name: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), estimator=ESTIMATORS[name]())
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    along = detectors.generic_direction(point.basis)

    def cells(intervals: Any) -> tuple[Hyper, np.ndarray]:
        ones = np.ones(len(intervals))
        rest = setting.momentum * ones, np.asarray(intervals), setting.kl_weight * ones
        return Hyper(setting.learning_rate * ones, *rest), np.tile(point.rest, (len(ones), 1))

    scan = setting.fresh_scan if name in ("ratio", "clipped") else setting.scan
    rates = np.geomspace(scan.start, scan.stop, scan.num)
    boundary = detectors.learning_rate_boundary(learner, "mean_field", *cells(setting.refresh_interval), along, rates)
    growth = detectors.growth_rate(learner, "mean_field", *cells(counted(setting)), along)
    return xarray.Dataset({"threshold": ("refresh_interval", boundary.value), "stable": float(np.sum(growth < 0))})


def _bandit(policy: float, rho: float) -> tuple[TabularBandit, float, float]:
    beta, gap, fresh = mixed_bandit(policy, rho)
    reference = [gap / 2, -gap / 2]
    return two_arm((1.0, 0.0), reference, reference), beta, fresh


def _mixtures(setting: Setting) -> xarray.Dataset:
    """Multipliers of the `ratio` estimator on bandits with a given rho, and which displaced runs grow."""
    radius, growing, island = [], np.zeros(0), np.zeros(2)
    for rho in setting.islands.rho:
        bandit, beta, fresh = _bandit(setting.islands.policy, rho)
        learner = Learner(bandit, estimator=ESTIMATORS["ratio"]())
        hyper = Hyper(setting.islands.fresh_kappa / fresh, setting.momentum, 1, beta)
        radius.append(np.abs(floquet_intervals(learner, "mean_field", hyper, lengths(setting))[0]))
        if rho == setting.islands.island_rho:
            growing = _growing(learner, hyper, setting)
            island = lengths(setting)[growing][[0, -1]].astype(float)
    limit = []
    for rho in setting.long_rho:
        bandit, beta, fresh = _bandit(side(setting, rho), abs(rho))
        learner = Learner(bandit, estimator=ESTIMATORS["ratio"]())
        rate = setting.long.fresh_kappa / fresh
        hyper = Hyper(rate, setting.long.momentum, setting.long.refresh_interval, beta)
        multipliers = detectors.floquet(learner, "mean_field", hyper)
        limit.append(float(multipliers.multipliers[0].real) if len(multipliers.multipliers) else np.nan)
    values = {"radius": (("rho", "length"), radius), "limit": ("long_rho", limit)}
    return xarray.Dataset(values | {"growing": ("length", growing.astype(float)), "island": ("edge", island)})


def _growing(learner: Learner, hyper: Hyper, setting: Setting) -> np.ndarray:
    """Which refresh intervals make a displacement grow."""
    point = detectors.find_fixed_point(learner, "mean_field", float(hyper.kl_weight))
    one = Hyper(*(np.array([value]) for value in hyper))
    along = detectors.generic_direction(point.basis)
    return refresh_interval_boundary(learner, "mean_field", one, point.rest[None], along, lengths(setting))[1][0] > 0


# Picture.

SHADES = (s.GREEN, s.VERMILION, s.PURPLE)
LOOKS = {
    "frozen": (s.BLUE, "o"),
    "uncorrected": (s.GREEN, "s"),
    "ratio": (s.VERMILION, "D"),
    "clipped": (s.PURPLE, "x"),
}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.two_arms(setting.rewards),
        f"GRPO with std; heavy ball, momentum {setting.momentum:g}; model A (refresh)",
        kl_weight=setting.kl_weight,
    )


def draw(figure: Figure, results: Results) -> None:
    """Thresholds of the estimators, the island, the limit of long blocks."""
    sheet.fill(figure, results, (_draw_thresholds, _draw_island, _draw_limit), height=6.4)


def _draw_thresholds(panel: Axes, results: Results) -> None:
    for name in results.setting.estimators:
        predicted, measured = (
            results.predicted.threshold.sel(estimator=name),
            results.measured.threshold.sel(estimator=name),
        )
        colour, marker = LOOKS[name]
        panel.plot(predicted.refresh_interval, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        fill = {"markerfacecolor": "none", "markersize": 3.4 if name != "ratio" else 4.6}
        panel.plot(measured.refresh_interval, measured, **s.MEASURED | {"color": colour, "marker": marker} | fill)
    panel.set(
        xscale="log",
        yscale="log",
        xlabel=r"refresh interval $N$ (steps)",
        ylabel=f"threshold learning rate\n({s.RATE_UNIT})",
    )
    sheet.ticks_at(panel.xaxis, (1, 4, 16, 64))
    sheet.note(panel, 0.05, 0.06, "frozen", color=s.BLUE)
    sheet.note(panel, 0.05, 0.15, "uncorrected", color=s.GREEN)
    sheet.note(panel, 0.68, 0.98, "ratio", color=s.VERMILION, ha="right", va="top")
    sheet.note(panel, 0.97, 0.98, "clipped", color=s.PURPLE, ha="right", va="top")
    sheet.note(panel, 0.97, 0.75, "in all panels\nlines: predicted\nmarkers: measured", ha="right", va="top")
    low, high = float(results.predicted.threshold.min()), float(results.predicted.threshold.max())
    panel.set_ylim(low / 2, high * 3)


def _draw_island(panel: Axes, results: Results) -> None:
    first, last = results.predicted.island.values
    panel.axvspan(first - 0.5, last + 0.5, color=s.FILL[3], linewidth=0)
    for rho, colour in zip(results.setting.islands.rho, SHADES, strict=True):
        predicted, measured = results.predicted.radius.sel(rho=rho), results.measured.radius.sel(rho=rho)
        panel.plot(predicted.length, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        look = s.MEASURED | {"color": colour, "markersize": 2.6, "markeredgewidth": 0.7}
        panel.plot(measured.length[::4], measured[::4], **look)
        panel.text(
            79, float(predicted[-1]) - 0.05, rf"$\rho$ = {rho:g}", color=colour, fontsize=7, ha="right", va="top"
        )
    panel.axhline(1, color=s.GREY, linewidth=0.8)
    grows = results.measured.growing.values > 0
    panel.plot(results.measured.length[grows], np.full(grows.sum(), 1.36), linestyle="none", marker="|", color=s.BLACK)
    panel.text(last + 2, 1.36, "runs grow", fontsize=7, va="center")
    panel.text(last + 2, 1.27, "fill: predicted", fontsize=7, va="center")
    panel.set(xlabel=r"refresh interval $N$ (steps)", ylabel="|multiplier| of a block", ylim=(0.2, 1.45))
    panel.set_xlim(0, results.setting.islands.longest)


def _draw_limit(panel: Axes, results: Results) -> None:
    rho = results.predicted.long_rho
    panel.plot(rho, results.predicted.limit, **s.EXACT)
    panel.plot(rho, results.measured.limit, **s.MEASURED)
    for level in (-1, 1):
        panel.axhline(level, color=s.GREY, linewidth=0.8, zorder=0)
    panel.set(xlabel=r"$\rho$ = stale/fresh stiffness", ylabel="multiplier of a long block")
    sheet.note(panel, 0.05, 0.06, "below -1: period two\nor a vertex")


# Claims.

THEORY = "derived in bandit_lab/theory/stiffness.py and block_map.py"


NARROW = (
    "Beyond the first crossing there are windows of instability in the learning rate that are narrower than a step of "
    "the scan; the one measured first is not the first that there is."
)


def _threshold_claims(names: tuple[str, ...], note: str, post_hoc: str = "", follows: str = "") -> tuple[Claim, Claim]:
    # Brackets are 2^-13 of a scan step (a factor 1.27) wide; growth over 150 periods resolves thresholds to 3e-4.
    title, many = " and ".join(f"`{name}`" for name in names), len(names) > 1
    return (
        Claim.ratio(
            f"estimators.{names[0]}_threshold",
            f"{title}: measured over predicted learning rate of the threshold, the farthest from 1 over N",
            THEORY,
            lambda d: d.threshold.sel(estimator=list(names)),
            tolerance=1e-3,
            fails_if="clips act at the fixed point, or the split were another" if many else "the split were another",
            follows=follows,
            post_hoc=post_hoc,
            explanation=NARROW,
        ),
        Claim.same(
            f"estimators.{names[0]}_stable_intervals",
            f"{title}: how many refresh intervals from 1 up are stable at learning rate 0.1 and momentum 0.9{note}",
            THEORY,
            lambda d: d.stable_intervals.sel(estimator=list(names)).min(skipna=False),
            tolerance=0.5,
            unit="intervals",
            fails_if="stability in N at one learning rate were not what the block map says, or there were an island",
        ),
    )


def _edge(which: str) -> Claim:
    return Claim.same(
        f"estimators.island_{which}",
        f"The {which} unstable refresh interval of the island: stale/fresh 0.8, fresh kappa 0.01, momentum 0.9",
        THEORY,
        lambda d: d.island.sel(edge=which),
        tolerance=0.5,
        unit="steps",
        fails_if="one interval more or less were unstable",
    )


CLAIMS = (
    *_threshold_claims(("frozen",), "; it has a threshold", follows="phase_diagram.a_exact"),
    *_threshold_claims(("uncorrected",), "; it has a threshold here"),
    *_threshold_claims(
        ("ratio", "clipped"),
        " (the smaller number); all that were tried",
        post_hoc="both scans were refined after one of them had passed over a narrow window of instability",
    ),
    _edge("first"),
    _edge("last"),
    # Floquet multipliers are exact to rounding errors; the fixed point to 1e-11.
    Claim.ratio(
        "estimators.multipliers",
        "Measured over predicted modulus of a block's multiplier, the farthest from 1 over N and three values of rho",
        THEORY,
        lambda d: d.radius,
        tolerance=1e-5,
        fails_if="the Jacobian of a block of the real update were not the block map of the split",
    ),
    # A block of 300 steps forgets its start to 0.9^300 = 2e-14.
    Claim.ratio(
        "estimators.long_blocks",
        "Multiplier of a long block over -rho, the farthest from 1 over rho from -0.9 to 1.5",
        "arXiv 2503.06639 (recurrence); derived in shared/theory/long_block.py",
        lambda d: d.limit,
        tolerance=1e-5,
        fails_if="the fresh part did not carry a long block to its own fixed point",
    ),
)
