"""Where does the sharpness of a network stop that GRPO trains: at the threshold of its staleness model?

Prediction (written before the runs). In small steps and without staleness the mean update is a gradient flow, of the
potential in bandit_lab/theory/gradient_flow.py; the stiffness K is the largest eigenvalue of minus its Hessian by the
network's parameters, and rises along the flow. A run of learning rate eta follows it until K is that of the exact
threshold, kappa(model, N, mu)/eta (bandit_lab/theory/thresholds.py), and then stays there: the edge of stability (arXiv
2103.00065 for supervised learning). Where the flow never gets so far, the run does not. A start above the threshold
leaves at once, each block by the multiplier of the linear loop, and settles at the edge. With a fresh part of the
stiffness the edge is where a multiplier of the block map leaves the unit circle; without a stale part (ratio, no std)
it does not depend on N; without KL the stiffness fades with the rewards, and no edge is left.
Setting: conf/experiment/edge_of_stability.yaml. Measured: stiffness along runs of the laboratory's update, from
Jacobian-vector products. Drawn: stiffness against time for three staleness models, K eta N at the plateau against N.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bandit_lab import measure as detectors
from bandit_lab import theory
from bandit_lab._types import Array
from bandit_lab.bandits import BANDITS, Bandit
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Gradient, GradientFn, Hyper, Learner, init
from bandit_lab.measure.leading import leading_stiffness, stiffness_along
from bandit_lab.simulate import DYNAMICS
from bandit_lab.simulate.rollout import Stride, rollout
from bandit_lab.study.plots import style as s
from bandit_lab.study.reproduce import sheet
from bandit_lab.study.reproduce.experiment import Claim, Lab, Results, Setting

TITLE = "The edge of stability of neural policies"

# What prediction and measurement are both told.

STIFFNESS = {"units": "reward per squared parameter"}
RATIO, TIME = {"units": "1"}, {"units": "steps of unit learning rate"}
LAST = 2 / 3
"""Share of a run after which its plateau is read."""
DIMS = ("network", "model", "momentum", "interval", "seed")


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


def pace(blocks: int, checks: int) -> int:
    """Blocks between two checks of a run, an odd number, so that both sides of an alternating run are seen."""
    return 2 * round((blocks / checks - 1) / 2) + 1


def times_of(law: float, blocks: int, checks: int) -> np.ndarray:
    """Times [checks] of the flow in the middle between checks of a run: a block of any N is 1/law long."""
    return (np.arange(checks) + 0.5) * pace(blocks, checks) / law


def variant_laws(setting: Setting, variant: dict[str, Any]) -> np.ndarray:
    """The stiffness [S] at which the law places the edge of another estimator's runs."""
    return variant["law_factor"] * law_of(setting, "mlp")


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    return {
        "network": ("network", list(setting.networks), {"units": ""}),
        "model": ("model", setting.models, {"units": ""}),
        "momentum": ("momentum", setting.momenta, RATIO),
        "interval": ("interval", setting.intervals, RATIO),
        "seed": ("seed", np.arange(setting.seeds), RATIO),
        "check": ("check", np.arange(setting.fine), RATIO),
        "variant": ("variant", [row["name"] for row in setting.variants], {"units": ""}),
    }


# Prediction: theory alone.

STEP = 0.25  # of the flow's integration, times law
STIFF = 12  # directions kept where fresh and stale matrices do not commute
GROWS = 1e-3  # of a multiplier beyond 1; less is the flow's own expansion in soft directions


def predict(setting: Setting) -> xarray.Dataset:
    """The flow's stiffness, thresholds over it, times of crossing, multipliers and edges of other estimators."""
    seeds = range(setting.seeds)
    parts = [xarray.concat([_of_seed(setting, name, k) for k in seeds], "seed") for name in setting.networks]
    found = xarray.concat(parts, "network").transpose("network", "model", "momentum", "interval", "seed", ...)
    variants = [[_variant_edge(setting, row, k) for k in seeds] for row in setting.variants]
    found["variant_edge"] = (("variant", "seed"), np.array(variants), STIFFNESS)
    return found.assign_coords(coordinates(setting))


def _climb(bandit: Any, weight: float) -> theory.Climb:
    success, policy = bandit.law.probabilities[..., 1], jax.tree_util.Partial(type(bandit).log_policy, bandit)
    return theory.Climb(policy, bandit.initial_parameters, success, bandit.reference_log_policy, jnp.asarray(weight))


def _edge(model: Any, interval: int, momentum: float, law: float) -> float:
    """The stiffness at which a run loses stability."""
    return theory.exact(model, interval, momentum).kappa / rate_of(law, interval, momentum)


def _of_seed(setting: Setting, network: str, seed: int) -> xarray.Dataset:
    climb = _climb(bandit_of(setting, network, seed), setting.kl_weight)
    law, about = float(law_of(setting, network)[seed]), setting.catapult
    own = [[float(law_of(setting, network, j, mu)[seed]) for mu in setting.momenta] for j in setting.models]
    most = max(law / one for one in np.ravel(own))  # longest run over the followed one
    every = (np.arange(int(most * setting.fine) + 2) + 0.5) * pace(setting.blocks, setting.fine) / law
    values = theory.sharpness(climb, "grpo", theory.follow(climb, "grpo", every, STEP / law))
    fine, flow = every[: setting.fine], values[: setting.fine]
    start = float(np.interp(about.start / law, every, values))
    runs = [times_of(one, setting.blocks, setting.checks) for one in np.ravel(own)]
    rest = np.array([np.interp(one, every, values) for one in runs]).reshape(*np.shape(own), setting.checks)
    grid = [
        [[_edge(model, n, mu, one) for n in setting.intervals] for mu, one in zip(setting.momenta, row, strict=True)]
        for model, row in zip(setting.models, own, strict=True)
    ]
    followed = [_edge(model, setting.shown, 0.0, law) for model in setting.models]
    rate = rate_of(about.factor * law, about.interval, 0.0)
    columns = {
        "flow": ("check", flow, STIFFNESS),
        "time": ("check", fine, TIME),
        "plateau": (("model", "momentum", "interval"), grid, STIFFNESS),
        "late": (("model", "momentum"), rest[..., int(LAST * setting.checks) :].min(axis=-1), STIFFNESS),
        "largest": (("model", "momentum"), rest.max(axis=-1), STIFFNESS),
        "law": (("model", "momentum"), own, STIFFNESS),
        "common_law": ((), law, STIFFNESS),
        "edge": ("model", followed, STIFFNESS),
        "leaves": ("model", [_crosses(fine, flow, one) for one in followed], TIME),
        "growth": ((), theory.spectral_radius(theory.LinearLoop(0.0, start), rate, about.interval), RATIO),
        "settled": ((), _edge("refresh", about.interval, 0.0, about.factor * law), STIFFNESS),
    }
    return xarray.Dataset(columns)


def _crosses(times: np.ndarray, curve: np.ndarray, level: float) -> float:
    """First time at which a curve [C] reaches a level; NaN where it never does or begins there."""
    i = int(np.argmax(curve >= level))
    return float(np.interp(level, curve[i - 1 : i + 1], times[i - 1 : i + 1])) if i else float("nan")


def _variant_edge(setting: Setting, variant: dict[str, Any], seed: int) -> float:
    """The flow's stiffness where a multiplier leaves the unit circle for good; that of its last third if none does."""
    own, law = float(variant_laws(setting, variant)[seed]), float(law_of(setting, "mlp")[seed])
    climb, advantage = _climb(bandit_of(setting, "mlp", seed), variant["kl_weight"]), variant["advantage"]
    times = np.linspace(0, variant["blocks"] / own, 41)[1:]
    path = theory.follow(climb, advantage, times, STEP / law)
    stiff, rate = theory.sharpness(climb, advantage, path), rate_of(own, setting.variant_interval, 0.0)

    def radius(theta: np.ndarray) -> float:
        parts = theory.stiffness_parts(climb, advantage, variant["estimator"], theta, STIFF)
        return float(np.max(np.abs(np.linalg.eigvals(theory.LinearLoop(*parts).map(rate, setting.variant_interval)))))

    inside = [place for place, theta in enumerate(path) if radius(theta) <= 1 + GROWS]
    if inside and inside[-1] == len(path) - 1:
        return float(np.median(stiff[int(LAST * len(stiff)) :]))
    last = inside[-1] if inside else 0
    times = np.linspace(times[last], times[last + 1], 41)  # K may rise steeply between two points
    path = theory.follow(climb, advantage, times, STEP / law, every=1)
    sizes = np.array([radius(theta) for theta in path])
    i = max(int(np.argmax(sizes > 1 + GROWS)), 1)
    return float(np.interp(1.0, sizes[i - 1 : i + 1], theory.sharpness(climb, advantage, path)[i - 1 : i + 1]))


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Stiffness along runs of every network, model, momentum and interval; then the other starts and estimators."""
    pieces = [(network, model) for network in setting.networks for model in setting.models]
    total, done = len(pieces) + len(list(setting.networks)) + 1, 0
    grid = []
    for network in setting.networks:
        row = []
        for model in setting.models:
            row.append(lab.keep(f"runs {network} {model}", partial(_runs, setting, network, model)))
            done += 1
            lab.progress(done, total)
        grid.append(xarray.concat(row, "model"))
    starts = []
    for network in setting.networks:
        starts.append(lab.keep(f"flow {network}", partial(_flow_and_catapult, setting, network)))
        done += 1
        lab.progress(done, total)
    variants = lab.keep("variants", partial(_measured_variants, setting))
    lab.progress(total, total)
    found = xarray.merge([xarray.concat(grid, "network"), xarray.concat(starts, "network"), variants])
    swings = (found.swing / found.flow_swing > setting.swings).transpose(..., "check")
    first = found.time.isel(check=swings.argmax("check")).where(swings.any("check"))
    return found.assign(leaves=first.assign_attrs(TIME)).assign_coords(coordinates(setting))


def _learner(bandit: Bandit, model: str, advantage: str = "grpo", estimator: str = "frozen") -> Learner:
    staleness = STALENESS[model]()
    return Learner(bandit, ADVANTAGES[advantage](), ESTIMATORS[estimator](), staleness, horizon=16)


@partial(jax.jit, static_argnames="times")
def _trained(
    learner: Learner, bandits: Any, hyper: Hyper, theta: Array, times: int, every: Array, stir: float | Array = 0.0
) -> tuple[Array, Array, Array]:
    """Of bandits and starts [S, D]: means [S, times, D] over `every` updates, stds there [S, times], the end [S, D].

    Runs swing about a path at the edge; the mean over many blocks is on it.
    """

    def add(total: tuple[Array, Array], seen: Stride) -> tuple[Array, Array]:
        place, theta = seen.before.step // every, seen.after.theta
        return total[0].at[place].add(theta / every), total[1].at[place].add(theta @ theta / every)

    def one(bandit: Any, key: Array, rate: Array, start: Array) -> tuple[Array, Array, Array]:
        of, numbers = replace(learner, bandit=bandit), hyper._replace(learning_rate=rate)
        total = jnp.zeros((times, len(start))), jnp.zeros(times)
        gradient, state = _stirred(DYNAMICS["mean_field"](of), stir), init(of, numbers, start)
        run = rollout(of, gradient, numbers, key, state, times * every, fold=add, total=total)
        mean, square = run.total
        return mean, jnp.sqrt(jnp.maximum(square - jnp.sum(mean**2, axis=1), 0)), run.state.theta

    keys = jax.random.split(jax.random.key(0), len(theta))
    return jax.vmap(one)(bandits, keys, hyper.learning_rate, theta)


def _stirred(gradient: GradientFn, size: float | Array) -> GradientFn:
    """The same gradient with a little noise, without which an instability has nothing to grow from."""

    def stirred(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        clean = gradient(key, kl_weight, theta, behaviour)
        return Gradient(clean.value + size * jax.random.normal(key, theta.shape), clean.silent)

    return stirred


def _stiffness(learner: Learner, bandits: Sequence[Bandit], weight: float, paths: np.ndarray) -> np.ndarray:
    """Largest stiffness [S, C] along paths [S, C, D] of several bandits."""
    each = zip(bandits, paths, strict=True)
    return np.array([stiffness_along(replace(learner, bandit=one), "mean_field", weight, path) for one, path in each])


def _starts(bandits: Sequence[Bandit]) -> Array:
    return jnp.stack([jnp.asarray(one.initial_parameters) for one in bandits])


def _hyper(rate: np.ndarray, momentum: float, interval: int, weight: float) -> Hyper:
    return Hyper(jnp.asarray(rate), jnp.asarray(float(momentum)), jnp.int32(interval), jnp.asarray(float(weight)))


def _runs(setting: Setting, network: str, model: str) -> xarray.Dataset:
    """Median stiffness of the last third of all runs, and the stiffness of some followed closely."""
    bandits = [bandit_of(setting, network, k) for k in range(setting.seeds)]
    learner, stacked = _learner(bandits[0], model), detectors.stack_bandits(bandits)
    weight, late = setting.kl_weight, int(LAST * setting.checks)

    def along(law: np.ndarray, interval: int, momentum: float, checks: int) -> tuple[np.ndarray, Array]:
        hyper = _hyper(rate_of(law, interval, momentum), momentum, interval, weight)
        every = jnp.int32(interval * pace(setting.blocks, checks))
        path, swing, _ = _trained(learner, stacked, hyper, _starts(bandits), checks, every, setting.stir)
        return _stiffness(learner, bandits, weight, np.asarray(path)), swing

    laws = {momentum: law_of(setting, network, model, momentum) for momentum in setting.momenta}
    values = np.array([[along(laws[mu], n, mu, setting.checks)[0] for n in setting.intervals] for mu in laws])
    followed, swing = along(law_of(setting, network), setting.shown, 0.0, setting.fine)
    columns = {
        "plateau": (DIMS[2:], np.median(values[..., late:], axis=-1), STIFFNESS),
        "largest": (DIMS[2:], np.max(values, axis=-1), STIFFNESS),
        "followed": (("seed", "check"), followed, STIFFNESS),
        "swing": (("seed", "check"), np.asarray(swing), {"units": "parameters"}),
    }
    return xarray.Dataset(columns)


def _flow_and_catapult(setting: Setting, network: str) -> xarray.Dataset:
    """Stiffness along a run of small steps; growth and end of a run from it with a learning rate too large."""
    bandits = [bandit_of(setting, network, k) for k in range(setting.seeds)]
    stacked, weight, about = detectors.stack_bandits(bandits), setting.kl_weight, setting.catapult
    fresh, law = _learner(bandits[0], "refresh"), law_of(setting, network)
    small = _hyper(setting.small_step / law, 0.0, 1, weight)
    strides = jnp.int32(round(pace(setting.blocks, setting.fine) / setting.small_step))
    path, swing, _ = _trained(fresh, stacked, small, _starts(bandits), setting.fine, strides)
    until = jnp.int32(round(about.start / setting.small_step))
    start = _trained(fresh, stacked, small, _starts(bandits), 1, until)[2]
    hyper = _hyper(rate_of(about.factor * law, about.interval, 0.0), 0.0, about.interval, weight)
    pairs = zip(bandits, np.asarray(start), strict=True)
    sharp = [leading_stiffness(replace(fresh, bandit=b), "mean_field", weight, x).vectors[:, 0].real for b, x in pairs]
    aside, few = start + about.displacement * np.stack(sharp), jnp.int32(about.interval * about.blocks)
    one, other = (np.asarray(_trained(fresh, stacked, hyper, x, 1, few)[2]) for x in (start, aside))
    apart = np.linalg.norm(other - one, axis=-1) / about.displacement
    every = jnp.int32(about.interval * pace(about.run, about.checks))
    after = np.asarray(_trained(fresh, stacked, hyper, start, about.checks, every, setting.stir)[0])
    ends = _stiffness(fresh, bandits, weight, after)
    times = [times_of(float(one), setting.blocks, setting.fine) for one in law]
    columns = {
        "time": (("seed", "check"), times, TIME),
        "flow": (("seed", "check"), _stiffness(fresh, bandits, weight, np.asarray(path)), STIFFNESS),
        "flow_swing": (("seed", "check"), np.asarray(swing), {"units": "parameters"}),
        "growth": ("seed", apart ** (1 / about.blocks), RATIO),
        "settled": ("seed", np.median(ends[:, int(LAST * about.checks) :], axis=1), STIFFNESS),
    }
    return xarray.Dataset(columns)


def _measured_variants(setting: Setting) -> xarray.Dataset:
    """Median stiffness [V, S] of the last third of the runs of other estimators."""
    bandits = [bandit_of(setting, "mlp", k) for k in range(setting.seeds)]
    stacked, interval, edges = detectors.stack_bandits(bandits), setting.variant_interval, []
    for row in setting.variants:
        learner = _learner(bandits[0], "refresh", row["advantage"], row["estimator"])
        hyper = _hyper(rate_of(variant_laws(setting, row), interval, 0.0), 0.0, interval, row["kl_weight"])
        checks = min(setting.checks, row["blocks"])
        every = jnp.int32(interval * pace(row["blocks"], checks))
        path = np.asarray(_trained(learner, stacked, hyper, _starts(bandits), checks, every, setting.stir)[0])
        values = _stiffness(learner, bandits, row["kl_weight"], path)
        edges.append(np.median(values[:, int(LAST * checks) :], axis=1))
    return xarray.Dataset({"variant_edge": (("variant", "seed"), np.array(edges), STIFFNESS)})


# Numbers that the claims compare.


def reached(found: Results) -> Any:
    """Runs whose flow stays above the edge for the last third."""
    return found.predicted.late >= found.predicted.plateau


def off(found: Results) -> Any:
    """Measured over predicted plateau of the runs whose flow reaches the edge, NaN elsewhere."""
    return (found.measured.plateau / found.predicted.plateau).where(reached(found))


def share_within(found: Results, ratio: Any) -> float:
    """Share of the numbers, of those that are predicted, that lie within the tolerance of 1."""
    flat = np.ravel(ratio)
    return float(np.mean(np.abs(flat[~np.isnan(flat)] - 1) <= found.setting.within))


def middle(found: Results, model: str) -> float:
    """Median of measured over predicted plateau of one staleness model."""
    return float(np.nanmedian(off(found).sel(model=model)))


def over_law(found: Results, side: Any, model: str) -> float:
    """Median plateau over the law's, without momentum, of the runs that reach the edge."""
    ratio = (side.plateau / found.predicted.law).where(reached(found)).sel(model=model, momentum=0.0)
    return float(np.nanmedian(ratio))


def stays_below(found: Results) -> float:
    """Share of the runs whose flow never reaches the edge that do not either; the same margin as at the edge."""
    never = found.predicted.largest < found.predicted.plateau
    below = found.measured.largest < (1 + found.setting.within) * found.predicted.plateau
    return float(below.where(never).mean())


def variant(data: xarray.Dataset, name: str) -> Any:
    """Plateaus [S] under another estimator."""
    return data.variant_edge.sel(variant=name)


# Picture.

COLOURS = {"refresh": s.BLUE, "lag": s.GREEN, "pipeline": s.VERMILION}
NAMES = {"refresh": "A: refresh", "lag": "B: lag", "pipeline": "C: pipeline"}
MARKERS = {"mlp": "o", "gru": "s", "transformer": "^"}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    about = setting.bandit
    return sheet.trained(
        f"networks ({', '.join(setting.networks)}) that write {about.length} tokens out of {about.vocabulary} for "
        f"{about.contexts} prompts, {about.task}",
        "GRPO with std; heavy ball",
        kl_weight=setting.kl_weight,
    )


def draw(figure: Figure, found: Results, wide: bool) -> None:
    """Stiffness against time; the plateaus against N."""
    figure.set_figheight(3.3 if wide else 6.2)
    axes = figure.subplots(1, 2, width_ratios=(1.25, 1)) if wide else figure.subplots(2, 1, height_ratios=(1.15, 1))
    _draw_time(axes[0], found)
    _draw_plateaus(axes[1], found)


def _draw_time(panel: Axes, found: Results) -> None:
    first = {"network": "mlp", "seed": 0}
    told, seen = found.predicted.sel(first), found.measured.sel(first)
    law = float(told.common_law)
    panel.plot(told.time, told.flow, color=s.GREY, linewidth=1.2)
    panel.axhline(law, **s.LAW)
    where: dict[str, Any] = {"fontsize": 7, "ha": "right", "transform": panel.get_yaxis_transform()}
    end = float(told.flow[-1])
    for model in found.setting.models:
        level, colour = float(told.edge.sel(model=model)), COLOURS[model]
        panel.axhline(level, color=colour, linewidth=1.4)
        look = s.MEASURED | {"color": colour, "markersize": 2.4, "markeredgewidth": 0.6}
        panel.plot(seen.time, seen.followed.sel(model=model), **look)
        panel.text(0.985, level + 0.03 * end, NAMES[model], color=colour, va="bottom", **where)
    panel.text(0.985, 1.02 * end, "gradient flow", color=s.GREY, va="bottom", **where)
    panel.text(0.985, law - 0.02 * end, "published law", va="top", **where)
    sheet.note(panel, 0.985, 0.95, "lines predicted, markers measured", ha="right")
    panel.set(xlabel="time (steps of unit learning rate)", ylabel=f"stiffness K ({STIFFNESS['units']})")
    panel.set(xlim=(0, float(told.time[-1])), ylim=(0, 1.15 * max(end, float(told.flow.max()))))
    panel.set_title(f"One network (mlp), N = {found.setting.shown}, $\\mu$ = 0")


def _draw_plateaus(panel: Axes, found: Results) -> None:
    panel.axhline(1, **s.LAW)
    intervals = np.asarray(found.setting.intervals, float)
    handles = []
    for row, model in enumerate(found.setting.models):
        line = (found.predicted.plateau / found.predicted.law).sel(model=model, momentum=0.0)
        panel.plot(intervals, line.isel(network=0, seed=0), color=COLOURS[model], linewidth=1.4)
        ratio = (found.measured.plateau / found.predicted.law).where(reached(found)).sel(model=model, momentum=0.0)
        for place, network in enumerate(found.setting.networks):
            for seed in range(found.setting.seeds):
                aside = 2 ** (0.09 * (3 * (row - 1) + place - 1))
                look = s.MEASURED | {"color": COLOURS[model], "marker": MARKERS[network], "markersize": 3.2}
                panel.plot(aside * intervals, ratio.sel(network=network, seed=seed), **look)
        handles.append(Line2D([], [], color=COLOURS[model], label=NAMES[model]))
    grey = s.MEASURED | {"color": s.GREY}
    handles += [Line2D([], [], **grey | {"marker": MARKERS[one]}, label=one) for one in found.setting.networks]
    panel.text(0.985, 0.98, "published law", fontsize=7, ha="right", va="top", transform=panel.get_yaxis_transform())
    panel.set(xscale="log", xlabel="refresh interval N (steps)", ylabel=r"$K \eta N$ at the plateau", ylim=(0.5, 2.9))
    sheet.ticks_at(panel.xaxis, found.setting.intervals)
    panel.legend(handles=handles, loc="upper left", ncols=2, fontsize=6.5)
    panel.set_title(r"All networks and seeds, $\mu$ = 0")


# Claims.

EDGE = "bandit_lab/theory/thresholds.py; arXiv 2103.00065 for supervised learning"
POTENTIAL = "the potential in this file"
DELAY = (
    "an instability begins with the noise and has to grow, slowly just beyond the edge, before it is seen: runs swing "
    "later than the flow crosses, and not at all where the flow is beyond the edge for a few blocks only"
)
FLATTER = (
    "a start far above the edge is thrown into a flatter place; from there the stiffness rises so slowly that "
    "some runs are still below the edge at their end"
)
HUMP = (
    "the flow without std climbs a hump of twice its later stiffness; the run is thrown off there into a flatter "
    "place, and rises from below"
)
UNSETTLED = (
    "most misses are runs with momentum at N up to 4 under models B and C, and one seed of the transformer. With "
    "momentum a mean over 21 blocks of few steps may be shorter than a swing; that seed's flow is not monotone, "
    "and its runs go to flatter places. Neither reason was tested by itself"
)
LEFT = "one seed lost its stiffness after the hump: its run ended where that is near 0; why there was not looked into"
DRAFT = "a draft of one seed was seen; a mistake in the prediction's derivatives was then removed, two runs made longer"
SWINGS = "a draft of one seed read K at single iterates, which swing to both sides of the path; it is that of means now"


def _middle(model: str, letter: str) -> Claim:
    return Claim(
        f"edge_of_stability.middle_{model}",
        f"Model {letter}: measured over predicted plateau, the median of all runs whose flow reaches the edge",
        EDGE,
        predicted=lambda f: 1.0,
        measured=lambda f: middle(f, model),
        tolerance=0.05,
        fails_if="networks stopped at another multiple of the threshold, such as that of the law",
        follows="edge_of_stability.plateau",
        post_hoc=SWINGS,
    )


def _law(model: str, letter: str) -> Claim:
    return Claim(
        f"edge_of_stability.over_law_{model}",
        f"Model {letter} without momentum: median plateau in units of the published law's",
        "arXiv 2606.30789 (law); bandit_lab/theory/thresholds.py",
        predicted=lambda f: over_law(f, f.predicted, model),
        measured=lambda f: over_law(f, f.measured, model),
        tolerance=0.05,
        relative=True,
        fails_if="the plateau did not tell this staleness model from the others",
        follows="edge_of_stability.plateau",
        post_hoc=SWINGS,
    )


def _variant(name: str, label: str, statement: str, fails_if: str, explanation: str = "") -> Claim:
    return Claim.ratio(
        f"edge_of_stability.{name}",
        f"{statement}: measured over predicted stiffness of the last third, the seed farthest from 1",
        "bandit_lab/theory/block_map.py along the flow",
        lambda d: variant(d, label),
        tolerance=0.1,
        fails_if=fails_if,
        post_hoc=DRAFT,
        explanation=explanation,
    )


CLAIMS = (
    Claim(
        "edge_of_stability.plateau",
        "Share of the runs whose flow reaches the edge whose median K over the last third is within 10 % of it",
        EDGE,
        predicted=lambda f: 1.0,
        measured=lambda f: share_within(f, off(f)),
        tolerance=0.1,
        unit="share",
        fails_if="networks left the exact mean update's threshold behind, or stopped short of it",
        post_hoc=SWINGS,
        explanation=UNSETTLED,
    ),
    _middle("refresh", "A"),
    _middle("lag", "B"),
    _middle("pipeline", "C"),
    _law("refresh", "A"),
    _law("lag", "B"),
    _law("pipeline", "C"),
    Claim(
        "edge_of_stability.below",
        "Share of the runs whose flow never reaches the edge that stay below it (by the same margin)",
        EDGE,
        predicted=lambda f: 1.0,
        measured=stays_below,
        tolerance=0.1,
        unit="share",
        fails_if="large steps sharpened a network that the flow does not sharpen",
        explanation="a draft has no such run",
    ),
    Claim.ratio(
        "edge_of_stability.flow",
        "Stiffness along a run of small steps over that of the flow, median over time, the run farthest from 1",
        POTENTIAL,
        lambda d: d.flow.median("check"),
        tolerance=0.02,
        fails_if="the drift were no gradient of this potential, or a route to the stiffness were wrong",
    ),
    Claim(
        "edge_of_stability.leaves",
        "Share of the runs that begin to swing within 10 % of the time at which the flow crosses the edge",
        EDGE,
        predicted=lambda f: 1.0,
        measured=lambda f: share_within(f, (f.measured.leaves / f.predicted.leaves).where(f.predicted.leaves > 0)),
        tolerance=0.1,
        unit="share",
        fails_if="runs left before their edge, or followed the flow beyond it",
        post_hoc="what counts as leaving was changed twice after drafts of one seed",
        explanation=DELAY,
    ),
    Claim.ratio(
        "edge_of_stability.growth",
        "A start above the edge: growth of a displacement per block, measured over predicted, the farthest from 1",
        "bandit_lab/theory/stability.py",
        lambda d: d.growth,
        tolerance=0.1,
        fails_if="a start above the edge did not leave at once by the linear multiplier",
    ),
    Claim(
        "edge_of_stability.settled",
        "Share of the starts above the edge that settle at the edge (median of the last third, within 10 %)",
        EDGE,
        predicted=lambda f: 1.0,
        measured=lambda f: share_within(f, f.measured.settled / f.predicted.settled),
        tolerance=0.1,
        unit="share",
        fails_if="a run thrown out of a sharp place came to rest elsewhere than at the edge",
        post_hoc="the run was made twice as long after a draft of one seed",
        explanation=FLATTER,
    ),
    _variant("dr_grpo", "dr_grpo", "No std", "the edge belonged to the division by the std", HUMP),
    _variant("uncorrected", "uncorrected", "Uncorrected", "the split into fresh and stale parts set another edge"),
    _variant("ratio", "ratio", "Importance-weighted", "the std's stale part were larger or smaller"),
    _variant(
        "ratio_no_std",
        "ratio without std",
        "Importance-weighted without std, no stale part: the edge is that of N = 1",
        "the edge of an update without a stale part depended on N",
        LEFT,
    ),
    _variant(
        "no_kl",
        "no KL",
        "No KL: the stiffness falls to 0 along the flow, no edge at the end",
        "a run without a fixed point stayed at an edge",
    ),
)
