"""Which estimators have a largest safe refresh interval at all, and is every interval below it safe?

Prediction (written before the run). What is stale, and by how much, depends on the estimator: the stiffness splits into
lambda_fresh at the current policy and lambda_stale at the one that sampled (bandit_lab/theory/stiffness.py). Without
momentum the block map is A^N - rho (1 - A^N), rho = lambda_stale/lambda_fresh, A = 1 - eta lambda_fresh: `frozen`
(all stale) is unstable from eta K N > 2, and |rho| > 1 (`uncorrected` where the better arm is the likelier one) has a
largest N too; with |rho| < 1 (`ratio`, and `clipped` near the fixed point) every N is stable and the multiplier tends
to -rho. The law K eta N = 1 - mu (arXiv 2606.30789) has one bound for all of them. With momentum and an underdamped
fresh part there are islands of instability in N even for rho < 1.

Setting: conf/experiment/estimators.yaml. Measured: eigenvalues of the Jacobian of one block of the real update, and
whether a displaced run grows. Drawn: largest multiplier of a block against the refresh interval.
"""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab import theory
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ESTIMATORS, Hyper, Learner
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce.experiment import Claim, Found, Lab, Setting

TITLE = "Estimators and the refresh interval"
THEORY = "derived in bandit_lab/theory/block_map.py and stiffness.py"
LAW = "arXiv 2606.30789 (law), for model A and heavy ball"
COLOURS = {"frozen": s.VERMILION, "uncorrected": s.ORANGE, "ratio": s.BLUE, "clipped": s.PURPLE, "island": s.GREEN}


def island_bandit(setting: Setting) -> tuple[float, float]:
    """(KL weight, logit gap of the reference) at which `ratio` has this rho at this success probability p: the split
    is rho = (1 - 2p)/(2 beta sqrt(p (1-p))), and the fixed point lies 1/(beta sqrt(p (1-p))) above the reference."""
    p = setting.island.success
    root = np.sqrt(p * (1 - p))
    weight = (1 - 2 * p) / (2 * setting.island.rho * root)
    return weight, float(np.log(p / (1 - p)) - 1 / (weight * root))


def dataset(setting: Setting, radius: np.ndarray, grows: np.ndarray, more: dict) -> xarray.Dataset:
    """What both sides have: modulus of the largest multiplier per block [E + 1, N], and what follows from it."""
    n = np.array(setting.refresh_interval, float)
    first = np.where(grows.any(axis=1), n[np.argmax(grows, axis=1)], np.nan)
    last = np.where(grows.any(axis=1), n[::-1][np.argmax(grows[:, ::-1], axis=1)], np.nan)
    values = {
        "multiplier": (("case", "refresh_interval"), radius, {"units": "per block"}),
        "stable_share": ("case", 1 - grows.mean(axis=1), {"units": "share of the refresh intervals"}),
        "first_unstable": ("case", first, {"units": "steps"}),
        "last_unstable": ("case", last, {"units": "steps"}),
        **{k: ((), v, {"units": u}) for k, (v, u) in more.items()},
    }
    return xarray.Dataset(values, {"case": [*setting.estimators, "island"], "refresh_interval": n})


def predict(setting: Setting) -> xarray.Dataset:
    """Block maps from the split of the stiffness; the law's bound on N."""
    signal, even = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards)), np.full(2, 0.5)
    policy = theory.attracting_fixed_point(signal, even, setting.kl_weight, even).policy
    loops = []
    for name in setting.estimators:
        split = theory.stiffness_split(signal, policy, setting.kl_weight, "ratio" if name == "clipped" else name)
        loops.append(
            (theory.LinearLoop(*split.reduced(), 0.0, "refresh"), setting.step / theory.largest_stiffness(split))
        )
    fresh = setting.island.fresh_step
    mixed = theory.LinearLoop(fresh, fresh * setting.island.rho, setting.island.momentum, "refresh")
    loops.append((mixed, 1.0))
    radius = np.array(
        [[theory.spectral_radius(loop, rate, n) for n in setting.refresh_interval] for loop, rate in loops]
    )
    ratio = loops[setting.estimators.index("ratio")]
    more = {
        "law": (1 / setting.step, "steps"),
        "island_law": ((1 - setting.island.momentum) / (fresh * (1 + setting.island.rho)), "steps"),
        "long_block": (theory.spectral_radius(*ratio, setting.longest), "per block"),
    }
    return dataset(setting, radius, radius >= 1, more)


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The Jacobian of the real update over one block, and displaced runs."""
    intervals = np.array(setting.refresh_interval)
    weight, gap = island_bandit(setting)
    plain = two_arm(setting.rewards)
    certain = two_arm((1.0, 0.0), reference_logits=(gap, 0.0), initial_logits=(gap, 0.0))
    cases = [(plain, name, setting.kl_weight, 0.0) for name in setting.estimators]
    cases.append((certain, "ratio", weight, setting.island.momentum))
    radius, grows, long_block = [], [], np.nan
    for number, (bandit, name, kl, momentum) in enumerate(cases):
        learner = Learner(bandit, estimator=ESTIMATORS[name](*[setting.clip] * (name == "clipped")))
        point = detectors.find_fixed_point(learner, "mean_field", kl)
        fresh, stale = (part[0, 0] for part in detectors.fresh_and_stale(learner, "mean_field", kl, point))
        island = number == len(setting.estimators)
        rate = setting.island.fresh_step / fresh if island else setting.step / (fresh + stale)
        top = partial(detectors.floquet_intervals, learner, "mean_field", Hyper(rate, momentum, 1, kl))
        radius.append(np.abs(top(intervals)[0]))
        if name == "ratio" and not island:
            long_block = float(np.abs(top(np.array([setting.longest]))[0][0]))
        cells = Hyper(*(np.array([x]) for x in (rate, momentum, 1, kl)))
        direction = detectors.generic_direction(point.basis)
        rates = detectors.refresh_interval_boundary(
            learner, "mean_field", cells, point.theta[None], direction, intervals
        )
        grows.append(rates[1][0] > 0)
        lab.progress(number + 1, len(cases))
    return dataset(setting, np.array(radius), np.array(grows), {"long_block": (long_block, "per block")})


def draw(figure, found: Found, wide: bool) -> None:
    """Largest multiplier of a block against the refresh interval: without momentum; an island with it."""
    figure.set_figheight(2.8 if wide else 4.6)
    left, right = figure.subplots(1, 2) if wide else figure.subplots(2, 1)
    for case in found.setting.estimators:
        _line(left, found, case)
    _line(right, found, "island")
    for panel, law, title, shift, height, ha, va in (
        (left, found.predicted.law, r"no momentum, $K\eta$ = 0.097", -0.8, 0.97, "right", "top"),
        (right, found.predicted.island_law, r"ratio, $\mu$ = 0.9, stale/fresh = 0.8", 0.8, 0.03, "left", "bottom"),
    ):
        panel.axhline(1.0, color=s.GREY, linewidth=0.8)
        panel.axvline(float(law), **s.LAW)
        at = {"transform": panel.get_xaxis_transform(), "fontsize": 6.5}
        panel.text(float(law) + shift, height, "law's\nlargest $N$", ha=ha, va=va, **at)
        panel.set(xlabel=r"refresh interval $N$ (steps)", ylabel="largest multiplier of a block")
        panel.set_title(title)
        panel.text(
            0.99,
            1.0,
            "unstable above ",
            ha="right",
            va="bottom",
            fontsize=6.5,
            color=s.GREY,
            transform=panel.get_yaxis_transform(),
        )
    left.set_ylim(0, TOP)
    left.text(
        0.97, 0.72, "line: exact\nmarker: measured", ha="right", va="center", transform=left.transAxes, fontsize=6.5
    )
    first, last = (float(found.measured[k].sel(case="island")) for k in ("first_unstable", "last_unstable"))
    right.axvspan(first - 0.5, last + 0.5, color=s.FILL[3], linewidth=0, zorder=0)
    right.text(
        (first + last) / 2, 0.3, "island:\nruns grow", ha="center", transform=right.get_xaxis_transform(), fontsize=6.5
    )


TOP = 2.2  # of the multipliers drawn without momentum
PLACES = {
    "frozen": (28.5, 1.3, "frozen"),
    "uncorrected": (17.3, 2.03, "uncorrected"),
    "ratio": (38, 0.42, "ratio (circles), clipped (x)"),
}


def _line(panel, found: Found, case: str) -> None:
    n, colour = found.predicted.refresh_interval.values, COLOURS[case]
    predicted = found.predicted.multiplier.sel(case=case)
    panel.plot(n, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
    marker = {"marker": "x", "markersize": 4.5, "markevery": 4} if case == "clipped" else {"markersize": 3.0}
    measured = found.measured.multiplier.sel(case=case)
    panel.plot(n, measured.where(measured < TOP), **s.MEASURED | {"color": colour} | marker)
    if case in PLACES:
        x, y, text = PLACES[case]
        panel.text(x, y, text, color=colour, fontsize=6.5)


def _steps(name: str, variable: str, case: str, statement: str, **more) -> Claim:
    return Claim(
        f"estimators.{name}",
        statement,
        THEORY,
        predicted=lambda f: float(f.predicted[variable].sel(case=case)),
        measured=lambda f: float(f.measured[variable].sel(case=case)),
        **more,
    )


def _worst(f: Found) -> float:
    ratio = (f.measured.multiplier / f.predicted.multiplier).values
    ratio = ratio[np.isfinite(ratio) & (f.predicted.multiplier.values > 0.01)]
    return float(ratio[np.argmax(np.abs(ratio - 1))])


WHOLE = {"tolerance": 0.5, "unit": "steps"}  # whole numbers
SHARE = {"tolerance": 0.005, "unit": "share"}  # less than one interval of 60
CLAIMS = (
    _steps("frozen", "first_unstable", "frozen", "frozen: the first unstable refresh interval, 2/(K eta) + 1", **WHOLE),
    _steps("uncorrected", "first_unstable", "uncorrected", "uncorrected: the first unstable refresh interval", **WHOLE),
    _steps("ratio", "stable_share", "ratio", "ratio: every refresh interval is stable here", **SHARE),
    _steps(
        "clipped", "stable_share", "clipped", "clipped: every refresh interval is stable near the fixed point", **SHARE
    ),
    _steps(
        "island_first", "first_unstable", "island", "ratio with momentum: first refresh interval of the island", **WHOLE
    ),
    _steps("island_last", "last_unstable", "island", "ratio with momentum: last one; beyond, stable again", **WHOLE),
    Claim(
        "estimators.long_block",
        "ratio: the multiplier of a very long block is |rho| = lambda_stale/lambda_fresh",
        THEORY,
        predicted=lambda f: float(f.predicted.long_block),
        measured=lambda f: float(f.measured.long_block),
        tolerance=1e-6,  # rounding
        relative=True,
    ),
    Claim(
        "estimators.multipliers",
        "Measured / predicted multiplier, all estimators and intervals, the farthest from 1",
        THEORY,
        predicted=lambda f: 1.0,
        measured=_worst,
        tolerance=1e-6,  # rounding; double precision, blocks of up to 60 steps
    ),
    Claim(
        "estimators.law_frozen",
        "frozen: the first unstable refresh interval is the law's (1 - mu)/(K eta)",
        LAW,
        predicted=lambda f: float(f.predicted.law),
        measured=lambda f: float(f.measured.first_unstable.sel(case="frozen")),
        tolerance=1.0,
        unit="steps",
        explanation="For model A without momentum the law is careful by a factor of 2 (see phase_diagram).",
    ),
    Claim(
        "estimators.law_island",
        "ratio with momentum: the first unstable refresh interval is the law's (1 - mu)/(K eta)",
        LAW,
        predicted=lambda f: float(f.predicted.island_law),
        measured=lambda f: float(f.measured.first_unstable.sel(case="island")),
        tolerance=1.0,
        unit="steps",
        explanation="Most of the stiffness is fresh: lag erodes the damping of the stale part alone.",
    ),
)
