"""Where does the sharpness of a network stop that GRPO trains: at the threshold of its staleness model?

Prediction (written before the runs). In small steps and without staleness the mean update is a gradient flow, of the
potential in shared/theory/gradient_flow.py; the stiffness K is the largest eigenvalue of minus its Hessian by the
network's parameters, and rises along the flow. A run of learning rate eta follows it until K is that of the exact
threshold, kappa(model, N, mu)/eta (bandit_lab/theory/thresholds.py), and then stays there: the edge of stability (arXiv
2103.00065 for supervised learning). Where the flow never gets so far, the run does not. A start above the threshold
leaves at once, each block by the multiplier of the linear loop, and settles at the edge.
How long a run has to be: a tenth beyond the edge a swing grows by e^0.047 or more per memory, N + mu/(1 - mu) updates,
whatever model, N and mu (bandit_lab/theory/stability.py). So every run lasts a least number of memories.
Setting: experiments/edge_of_stability.yaml. Measured: stiffness along runs of the laboratory's update, from
Jacobian-vector products. Drawn: stiffness against time for three staleness models, K eta N at the plateau against N.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import BANDITS, Bandit
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import crossing
from experiments.shared import sheet
from experiments.shared.measure.averaged_path import averaged_path, growth_per_block, stiffness_of_paths
from experiments.shared.readings import blocks_between, share_near_one
from experiments.shared.theory import gradient_flow
from experiments.shared.theory.edge_of_stability import edge

TITLE = "The edge of stability of neural policies"
FINDING = "A network's sharpness stops at the edge of its staleness model: {plateau:.0%} of runs within 10 %"

# What prediction and measurement are both told.

STIFFNESS = {"units": "reward per squared parameter"}
RATIO, TIME = {"units": "1"}, {"units": "steps of unit learning rate"}
LAST = 2 / 3
"""Share of a run after which its plateau is read."""


def bandit_of(setting: Setting, network: str, seed: int) -> Any:
    """The network with the weights of one seed."""
    width = setting.networks[network].width
    return BANDITS.build("neural", setting.bandit.as_dict() | {"architecture": network, "width": width, "seed": seed})


def rate_of(law: Any, interval: int, momentum: float) -> Any:
    """The learning rate at which the law places the edge at the stiffness `law`."""
    return (1 - momentum) / (interval * law)


def law_of(setting: Setting, network: str, model: str = "", momentum: float = 0.0) -> np.ndarray:
    """The stiffness [S] at which the law places the edge of a network's runs; without a model, of those compared."""
    law = np.array(setting.networks[network].law[: setting.seeds])
    return law * setting.factors[model][int(momentum > 0)] if model else law


def blocks_of(setting: Setting, interval: int, momentum: float) -> int:
    """Blocks of a run: at least `blocks`, and at least `memories` times N + mu/(1 - mu) updates."""
    memory = interval + momentum / (1 - momentum)
    return max(setting.blocks, round(setting.memories * memory / interval))


def times_of(law: float, blocks: int, checks: int) -> np.ndarray:
    """Times [checks] of the flow in the middle between checks of a run: a block of any N is 1/law long."""
    return (np.arange(checks) + 0.5) * blocks_between(blocks, checks) / law


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    return {
        "network": ("network", list(setting.networks), {"units": ""}),
        "model": ("model", setting.models, {"units": ""}),
        "momentum": ("momentum", setting.momenta, RATIO),
        "interval": ("interval", setting.intervals, RATIO),
        "seed": ("seed", np.arange(setting.seeds), RATIO),
        "check": ("check", np.arange(setting.fine), RATIO),
    }


# Prediction: theory alone.

STEP = 0.25  # of the flow's integration, times law
LATER = 60  # places of the flow beyond the runs that are followed closely


def predict(setting: Setting) -> xarray.Dataset:
    """The flow's stiffness, thresholds over it, times of crossing, multipliers."""
    seeds = range(setting.seeds)
    parts = [xarray.concat([_of_seed(setting, name, k) for k in seeds], "seed") for name in setting.networks]
    predicted = xarray.concat(parts, "network").transpose("network", "model", "momentum", "interval", "seed", ...)
    return predicted.assign_coords(coordinates(setting))


def _of_seed(setting: Setting, network: str, seed: int) -> xarray.Dataset:
    climb = gradient_flow.climb_of(bandit_of(setting, network, seed), setting.kl_weight)
    law, about = float(law_of(setting, network)[seed]), setting.catapult
    own = [[float(law_of(setting, network, j, mu)[seed]) for mu in setting.momenta] for j in setting.models]
    grid = np.empty((*np.shape(own), len(setting.intervals)))
    checks = np.empty((*grid.shape, setting.checks))  # of the stiffness: their times
    for i, j, k in np.ndindex(grid.shape):
        n, mu = setting.intervals[k], setting.momenta[j]
        grid[i, j, k] = edge(setting.models[i], n, mu, rate_of(own[i][j], n, mu))
        checks[i, j, k] = times_of(own[i][j], blocks_of(setting, n, mu), setting.checks)
    fine = times_of(law, setting.blocks, setting.fine)
    every = np.append(fine, np.geomspace(fine[-1], checks.max(), LATER)[1:])
    values = gradient_flow.sharpness(climb, "grpo", gradient_flow.follow(climb, "grpo", every, STEP / law))
    flow, start = values[: setting.fine], float(np.interp(about.start / law, every, values))
    rest = np.interp(checks, every, values)
    followed = [edge(model, setting.shown, 0.0, rate_of(law, setting.shown, 0.0)) for model in setting.models]
    rate = rate_of(about.factor * law, about.interval, 0.0)
    columns = {
        "flow": ("check", flow, STIFFNESS),
        "time": ("check", fine, TIME),
        "plateau": (("model", "momentum", "interval"), grid, STIFFNESS),
        "late": (("model", "momentum", "interval"), rest[..., int(LAST * setting.checks) :].min(-1), STIFFNESS),
        "largest": (("model", "momentum", "interval"), rest.max(axis=-1), STIFFNESS),
        "law": (("model", "momentum"), own, STIFFNESS),
        "common_law": ((), law, STIFFNESS),
        "edge": ("model", followed, STIFFNESS),
        "leaves": ("model", [crossing(fine, flow, one) for one in followed], TIME),
        "growth": ((), theory.spectral_radius(theory.LinearLoop(0.0, start), rate, about.interval), RATIO),
        "settled": ((), edge("refresh", about.interval, 0.0, rate), STIFFNESS),
    }
    return xarray.Dataset(columns)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Stiffness along runs of every network, model, momentum and interval; then the other starts."""
    pairs = [(network, model) for network in setting.networks for model in setting.models]
    parts = {f"runs {network} {model}": partial(_runs, setting, network, model) for network, model in pairs}
    parts |= {f"flow {network}": partial(_flow_and_catapult, setting, network) for network in setting.networks}
    runs = lab.keep_each(parts)
    rows = [[runs[f"runs {network} {model}"] for model in setting.models] for network in setting.networks]
    grid = xarray.concat([xarray.concat(row, "model") for row in rows], "network")
    starts = xarray.concat([runs[f"flow {network}"] for network in setting.networks], "network")
    measured = xarray.merge([grid, starts])
    swings = (measured.swing / measured.flow_swing > setting.swings).transpose(..., "check")
    first = measured.time.isel(check=swings.argmax("check")).where(swings.any("check"))
    return measured.assign(leaves=first.assign_attrs(TIME)).assign_coords(coordinates(setting))


def _learner(bandit: Bandit, model: str) -> Learner:
    return Learner(bandit, ADVANTAGES["grpo"](), ESTIMATORS["frozen"](), STALENESS[model](), horizon=16)


def _along(
    setting: Setting, learner: Learner, bandits: Sequence[Bandit], hyper: Hyper, blocks: int, checks: int, **start: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Of stirred runs: stiffness of the means between checks and how far they swing about these, each [S, checks]."""
    every = hyper.refresh_interval * blocks_between(blocks, checks)
    seen = averaged_path(learner, "mean_field", bandits, hyper, checks, every, noise=setting.stir, **start)
    fresh = _learner(bandits[0], "refresh")  # of one learner for all models: it is compiled once
    return stiffness_of_paths(fresh, "mean_field", bandits, hyper.kl_weight, seen.mean), seen.spread


def _runs(setting: Setting, network: str, model: str) -> xarray.Dataset:
    """Median stiffness of the last third of all runs, and the stiffness of some followed closely."""
    bandits = [bandit_of(setting, network, k) for k in range(setting.seeds)]
    learner, late = _learner(bandits[0], model), int(LAST * setting.checks)

    def along(law: np.ndarray, n: int, mu: float, checks: int) -> tuple[np.ndarray, np.ndarray]:
        hyper = Hyper(rate_of(law, n, mu), mu, n, setting.kl_weight)
        return _along(setting, learner, bandits, hyper, blocks_of(setting, n, mu), checks)

    laws = {mu: law_of(setting, network, model, mu) for mu in setting.momenta}
    values = np.array([[along(laws[mu], n, mu, setting.checks)[0] for n in setting.intervals] for mu in laws])
    followed, swing = along(law_of(setting, network), setting.shown, 0.0, setting.fine)
    columns = {
        "plateau": (("momentum", "interval", "seed"), np.median(values[..., late:], axis=-1), STIFFNESS),
        "largest": (("momentum", "interval", "seed"), np.max(values, axis=-1), STIFFNESS),
        "followed": (("seed", "check"), followed, STIFFNESS),
        "swing": (("seed", "check"), swing, {"units": "parameters"}),
    }
    return xarray.Dataset(columns)


def _flow_and_catapult(setting: Setting, network: str) -> xarray.Dataset:
    """Stiffness along a run of small steps; growth and end of a run from it with a learning rate too large."""
    bandits = [bandit_of(setting, network, k) for k in range(setting.seeds)]
    weight, about, law = setting.kl_weight, setting.catapult, law_of(setting, network)
    fresh, dynamics = _learner(bandits[0], "refresh"), "mean_field"
    small = Hyper(setting.small_step / law, 0.0, 1, weight)
    stride = round(blocks_between(setting.blocks, setting.fine) / setting.small_step)
    seen = averaged_path(fresh, dynamics, bandits, small, setting.fine, stride)
    start = averaged_path(fresh, dynamics, bandits, small, 1, round(about.start / setting.small_step)).end
    hyper = Hyper(rate_of(about.factor * law, about.interval, 0.0), 0.0, about.interval, weight)
    growth = growth_per_block(fresh, dynamics, bandits, hyper, start, about.blocks, about.displacement)
    ends, _ = _along(setting, fresh, bandits, hyper, about.run, about.checks, start=start)
    columns = {
        "time": (("seed", "check"), [times_of(float(one), setting.blocks, setting.fine) for one in law], TIME),
        "flow": (("seed", "check"), stiffness_of_paths(fresh, dynamics, bandits, weight, seen.mean), STIFFNESS),
        "flow_swing": (("seed", "check"), seen.spread, {"units": "parameters"}),
        "growth": ("seed", growth, RATIO),
        "settled": ("seed", np.median(ends[:, int(LAST * about.checks) :], axis=1), STIFFNESS),
    }
    return xarray.Dataset(columns)


# Numbers that the claims compare.


def reached(results: Results) -> Any:
    """Runs whose flow stays above the edge for the last third."""
    return results.predicted.late >= results.predicted.plateau


def median_over(results: Results, plateau: Any, unit: Any, **place: Any) -> float:
    """Median plateau in units of others, of the runs at a place whose flow reaches the edge."""
    return float(np.nanmedian((plateau / unit).where(reached(results)).sel(place)))


def stays_below(results: Results) -> float:
    """Share of the runs whose flow never reaches the edge that do not either; the same margin as at the edge."""
    below = results.measured.largest < (1 + results.setting.within) * results.predicted.plateau
    return float(below.where(results.predicted.largest < results.predicted.plateau).mean())


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        sheet.writers(setting.bandit, *setting.networks),
        "GRPO; heavy ball",
        kl_weight=setting.kl_weight,
    )


def draw(figure: Figure, results: Results) -> None:
    """Stiffness against time; the plateaus against N."""
    sheet.fill(figure, results, (_draw_time, _draw_plateaus), height=6.2, sizes=(1.15, 1))


def _draw_time(panel: Axes, results: Results) -> None:
    predicted, seen = (side.sel(network="mlp", seed=0) for side in (results.predicted, results.measured))
    law = float(predicted.common_law)
    panel.plot(predicted.time, predicted.flow, color=s.GREY, linewidth=1.2)
    panel.axhline(law, **s.LAW)
    end = float(predicted.flow[-1])
    for model in results.setting.models:
        level, colour = float(predicted.edge.sel(model=model)), s.MODEL_COLOURS[model]
        panel.axhline(level, color=colour, linewidth=1.4)
        look = s.MEASURED | {"color": colour, "markersize": 2.4, "markeredgewidth": 0.6}
        panel.plot(seen.time, seen.followed.sel(model=model), **look)
        sheet.name_level(panel, level + 0.03 * end, s.MODEL_NAMES[model], color=colour)
    sheet.name_level(panel, 1.02 * end, "gradient flow", color=s.GREY)
    sheet.name_level(panel, law - 0.02 * end, "published law", va="top")
    sheet.note(panel, 0.985, 0.95, "lines predicted, markers measured", ha="right")
    panel.set(xlabel="time (steps of unit learning rate)", ylabel=f"stiffness K ({STIFFNESS['units']})")
    panel.set(xlim=(0, float(predicted.time[-1])), ylim=(0, 1.15 * max(end, float(predicted.flow.max()))))
    panel.set_title(f"One MLP, N = {results.setting.shown}, $\\mu$ = 0")


def _draw_plateaus(panel: Axes, results: Results) -> None:
    panel.axhline(1, **s.LAW)
    intervals = np.asarray(results.setting.intervals, float)
    for row, model in enumerate(results.setting.models):
        line = (results.predicted.plateau / results.predicted.law).sel(model=model, momentum=0.0)
        panel.plot(intervals, line.isel(network=0, seed=0), color=s.MODEL_COLOURS[model], linewidth=1.4)
        ratio = (
            (results.measured.plateau / results.predicted.law).where(reached(results)).sel(model=model, momentum=0.0)
        )
        for place, network in enumerate(results.setting.networks):
            aside = 2 ** (0.09 * (3 * (row - 1) + place - 1))
            marker = s.NETWORK_MARKERS[network]
            look = s.MEASURED | {"color": s.MODEL_COLOURS[model], "marker": marker, "markersize": 3.2}
            panel.plot(aside * intervals, ratio.sel(network=network).transpose("interval", "seed"), **look)
    sheet.name_level(panel, 0.98, "published law", va="top")
    panel.set(xscale="log", xlabel="refresh interval N (steps)", ylabel=r"$K \eta N$ at the plateau", ylim=(0.5, 2.9))
    sheet.ticks_at(panel.xaxis, results.setting.intervals)
    lines = {s.MODEL_NAMES[model]: s.MODEL_COLOURS[model] for model in results.setting.models}
    markers = {sheet.NETWORKS[name]: s.NETWORK_MARKERS[name] for name in results.setting.networks}
    sheet.key(panel, lines, markers, loc="upper left", ncols=2, fontsize=6.5)
    panel.set_title(r"All networks and seeds, $\mu$ = 0")


# Claims.

EDGE = "bandit_lab/theory/thresholds.py; arXiv 2103.00065 for supervised learning"
SWINGS = (
    "a draft of one seed read K at single iterates, which swing to both sides of the path; it is that of means now. "
    "Runs with momentum were as short as 72 memories when first published (84.5 % were within 10 %); the least length "
    "in memories was stated before the longer runs"
)
FOLLOWS: dict[str, Any] = {"follows": "edge_of_stability.plateau", "post_hoc": SWINGS}


def _share(name: str, statement: str, measured: Callable[[Results], float], fails_if: str, **more: Any) -> Claim:
    """Nine runs in ten do what is predicted of all."""
    about = {"unit": "share", "fails_if": fails_if} | more
    return Claim.one(f"edge_of_stability.{name}", statement, EDGE, measured, tolerance=0.1, **about)


def _middle(model: str) -> Claim:
    letter = s.MODEL_LETTERS[model]
    return Claim.one(
        f"edge_of_stability.middle_{model}",
        f"Model {letter}: measured over predicted plateau, the median of all runs whose flow reaches the edge",
        EDGE,
        measured=lambda f: median_over(f, f.measured.plateau, f.predicted.plateau, model=model),
        tolerance=0.05,
        fails_if="networks stopped at another multiple of the threshold, such as that of the law",
        **FOLLOWS,
    )


def _law(model: str) -> Claim:
    return Claim(
        f"edge_of_stability.over_law_{model}",
        f"Model {s.MODEL_LETTERS[model]} without momentum: median plateau in units of the published law's",
        "arXiv 2606.30789 (law); bandit_lab/theory/thresholds.py",
        predicted=lambda f: median_over(f, f.predicted.plateau, f.predicted.law, model=model, momentum=0.0),
        measured=lambda f: median_over(f, f.measured.plateau, f.predicted.law, model=model, momentum=0.0),
        tolerance=0.05,
        relative=True,
        fails_if="the plateau did not tell this staleness model from the others",
        **FOLLOWS,
    )


CLAIMS = (
    _share(
        "plateau",
        "Share of the runs whose flow reaches the edge whose median K over the last third is within 10 % of it",
        lambda f: share_near_one(f.measured.plateau, f.predicted.plateau.where(reached(f)), f.setting.within),
        "networks left the exact mean update's threshold behind, or stopped short of it",
        post_hoc=SWINGS,
        explanation=(
            "most misses are those of one seed of the transformer: its flow is not monotone, and its runs go to "
            "flatter places"
        ),
    ),
    *map(_middle, s.MODEL_LETTERS),
    *map(_law, s.MODEL_LETTERS),
    _share(
        "below",
        "Share of the runs whose flow never reaches the edge that stay below it (by the same margin)",
        stays_below,
        "large steps sharpened a network that the flow does not sharpen",
        explanation="a draft has no such run",
    ),
    Claim.ratio(
        "edge_of_stability.flow",
        "Stiffness along a run of small steps over that of the flow, median over time, the run farthest from 1",
        "shared/theory/gradient_flow.py",
        lambda d: d.flow.median("check"),
        tolerance=0.02,
        fails_if="the drift were no gradient of this potential, or a route to the stiffness were wrong",
    ),
    _share(
        "leaves",
        "Share of the runs that begin to swing within 10 % of the time at which the flow crosses the edge",
        lambda f: share_near_one(f.measured.leaves, f.predicted.leaves, f.setting.within),
        "runs left before their edge, or followed the flow beyond it",
        post_hoc="what counts as leaving was changed twice after drafts of one seed",
        explanation=(
            "an instability begins with the noise and has to grow, slowly just beyond the edge, before it is seen: "
            "runs swing later than the flow crosses, and not at all where the flow is beyond the edge for a few blocks "
            "only"
        ),
    ),
    Claim.ratio(
        "edge_of_stability.growth",
        "A start above the edge: growth of a displacement per block, measured over predicted, the farthest from 1",
        "bandit_lab/theory/stability.py",
        lambda d: d.growth,
        tolerance=0.1,
        fails_if="a start above the edge did not leave at once by the linear multiplier",
    ),
    _share(
        "settled",
        "Share of the starts above the edge that settle at the edge (median of the last third, within 10 %)",
        lambda f: share_near_one(f.measured.settled, f.predicted.settled, f.setting.within),
        "a run thrown out of a sharp place came to rest elsewhere than at the edge",
        post_hoc="the run was made twice as long after a draft of one seed",
        explanation=(
            "a start far above the edge is thrown into a flatter place; from there the stiffness rises so slowly that "
            "some runs are still below the edge at their end"
        ),
    ),
)
