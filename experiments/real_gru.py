"""Does the stiffness of a pre-trained language model rise under GRPO to its edge, and what do real groups do to it?

Prediction (written before the runs; what had been seen stands in the setting). A model that is trained already is
lazy: its weights hardly have to move. So the start tells the rest. The logits of its phonemes are taken as linear in
the weights (shared/theory/lazy.py, arXiv 1806.07572), along those directions that change the probability of an
answer at the start. They are as many as the policy has. The gradient flow of that network gives K(t): K does not rise,
it falls with the success that is gained. A run from the flow's end, where K is above the exact threshold
kappa(model, N, mu)/eta, comes to rest there (bandit_lab/theory/thresholds.py), one of Adam from the start with the
preconditioned K. With weights that hardly move no flatter place is within reach: the noise of groups leaves K where it
is, and K is that of the flow again once noise is switched off.
Setting: conf/experiment/real_gru.yaml. Measured: K without a matrix, from Jacobian-vector products and Lanczos' method,
at means of the weights along the laboratory's own update. Drawn: K against time; K over the edge against N.
"""

import hashlib
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bandit_lab._readings import farthest_from_one
from bandit_lab.app.plots import style as s
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner, Optimizer
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from experiments.shared import g2p, sheet
from experiments.shared.measure.averaged_path import AveragedPath, averaged_path
from experiments.shared.measure.leading import stiffness_along
from experiments.shared.readings import share_near_one
from experiments.shared.real_gru_panels import draw_plateaus
from experiments.shared.theory import gradient_flow
from experiments.shared.theory.edge_of_stability import edge

TITLE = "A pre-trained language model at its edge"
FINDING = (
    "K falls to {rises:.0%} while a pre-trained model learns, and the noise of small groups leaves {rested:.0%} of that"
)

# What prediction and measurement are both told.

RATIO, TIME = {"units": "1"}, {"units": "steps of unit learning rate"}
STIFFNESS, REWARD = {"units": "reward per squared parameter"}, {"units": "reward"}
INVERSE = {"units": "1/learning rate"}
ADVANTAGE = "dr_grpo"
LATE = 2
"""Checks at the end of a run whose mean is its plateau."""


def unsupported_reason(setting: Setting) -> str | None:
    """Which package is missing."""
    return g2p.missing()


def inputs(setting: Setting) -> str:
    """A hash of the model."""
    return hashlib.sha256(b"".join(one.tobytes() for one in g2p.weights().values())).hexdigest()


@cache
def _bandit(words: tuple[str, ...], answers: int) -> g2p.PronunciationBandit:
    return g2p.g2p(words=words, answers=answers)


def bandit_of(setting: Setting) -> g2p.PronunciationBandit:
    """The model and its words."""
    return _bandit(tuple(setting.words), setting.answers)


def rate_of(setting: Setting, optimizer: str, model: str, interval: int) -> float:
    """The learning rate."""
    return float(setting.rates[optimizer][model][str(interval)])


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    middle = np.arange(setting.checks) + 0.5
    return {
        "optimizer": ("optimizer", setting.optimizers, {"units": ""}),
        "model": ("model", setting.models, {"units": ""}),
        "interval": ("interval", setting.intervals, RATIO),
        "group_size": ("group_size", setting.sizes, RATIO),
        "time": ("time", middle * setting.small.every * setting.small.rate, TIME),
        "noisy_time": ("noisy_time", middle * setting.noise.every * setting.noise.rate, TIME),
    }


# Prediction: theory alone.

STEP = 2e-3  # of the flow's integration
PLACES = 40  # of the flow between two checks


def _linear(bandit: g2p.PronunciationBandit, start: jax.Array, slopes: jax.Array, along: jax.Array) -> jax.Array:
    return bandit.of_phonemes(jax.nn.log_softmax(start + jnp.tensordot(along, slopes, 1)))


def lazy(setting: Setting) -> gradient_flow.Climb:
    """The climb of the model with the logits of its phonemes linear in the weights.

    Its parameters are lengths along orthonormal directions of the weights: those that change an answer's probability at
    the start.
    """
    bandit = bandit_of(setting)
    whole = gradient_flow.climb_of(bandit, setting.kl_weight)
    scores = np.asarray(jax.jit(jax.jacrev(whole.log_policy))(whole.start)).reshape(-1, len(whole.start))
    sizes, directions = np.linalg.eigh(scores @ scores.T)
    kept = sizes > 1e-9 * sizes[-1]
    basis = jnp.asarray((directions[:, kept] / np.sqrt(sizes[kept])).T @ scores)  # [R, D]
    start, push = jax.linearize(bandit.log_phonemes, whole.start)
    policy = jax.tree_util.Partial(_linear, bandit, start, jax.lax.map(push, basis))
    return whole._replace(log_policy=policy, start=jnp.zeros(len(basis)))


def predict(setting: Setting) -> xarray.Dataset:
    """K along the lazy flow at the checks of two runs, its success at the end, and every run's edge."""
    climb, coords = lazy(setting), coordinates(setting)
    columns: dict[str, Any] = {}
    for name, axis in (("flow", "time"), ("noisy", "noisy_time")):
        middle = coords[axis][1]
        spread = (np.arange(PLACES) + 0.5) / PLACES - 0.5  # what is measured are means over the time between two checks
        times = middle[:, None] + spread * (middle[1] - middle[0])
        path = (
            gradient_flow.follow(climb, ADVANTAGE, times.ravel(), STEP, every=1)
            .reshape(len(middle), PLACES, -1)
            .mean(axis=1)
        )
        columns[name] = (axis, gradient_flow.sharpness(climb, ADVANTAGE, path), STIFFNESS)
        policy = np.exp([climb.log_policy(place) for place in path])
        columns[f"{name}_success"] = (axis, np.mean(np.sum(policy * np.asarray(climb.success), -1), -1), REWARD)
    edges = np.empty((len(setting.optimizers), len(setting.models), len(setting.intervals)))
    for i, j, k in np.ndindex(edges.shape):
        optimizer, model, n = setting.optimizers[i], setting.models[j], setting.intervals[k]
        convention: Any = "ema" if optimizer == "adam" else "heavy_ball"
        edges[i, j, k] = edge(model, n, setting.momentum, rate_of(setting, optimizer, model, n), convention)
    columns["edge"] = (("optimizer", "model", "interval"), edges, INVERSE)
    columns["start"] = ((), gradient_flow.sharpness(climb, ADVANTAGE, np.asarray(climb.start)[None])[0], STIFFNESS)
    columns["rises"] = ((), columns["flow"][1][-1] / columns["start"][1], RATIO)
    return xarray.Dataset(columns, coords)


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """K along a run of small steps, of every optimiser, model and interval, and of sampled groups."""
    runs = [(o, m, n) for o in setting.optimizers for m in setting.models for n in setting.intervals]
    parts = {"flow": partial(_flow, setting)}
    parts |= {f"G {size}": partial(_noisy, setting, size) for size in setting.sizes}
    parts |= {f"{o} {m} {n}": partial(_run, setting, o, m, n) for o, m, n in runs}
    kept = lab.keep_each(parts)
    noisy = xarray.concat([kept[f"G {size}"] for size in setting.sizes], "group_size")
    rows = [
        xarray.concat(
            [xarray.concat([kept[f"{o} {m} {n}"] for n in setting.intervals], "interval") for m in setting.models],
            "model",
        )
        for o in setting.optimizers
    ]
    found = xarray.merge([kept["flow"], noisy, xarray.concat(rows, "optimizer")])
    return found.assign_coords(coordinates(setting))


def _seen(
    setting: Setting, learner: Learner, path: np.ndarray, divided: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """K and mean success at places of a path."""
    bandit: Any = learner.bandit
    plain = Learner(bandit, ADVANTAGES[ADVANTAGE]())
    stiffness = stiffness_along(plain, "mean_field", setting.kl_weight, path, 1e-2, divided)
    policy = np.exp([bandit.log_policy(jnp.asarray(place)) for place in path])
    return stiffness, np.mean(np.sum(policy * np.asarray(bandit.law.means), axis=-1), axis=-1)


def _small_steps(setting: Setting, updates: int, start: np.ndarray | None = None) -> AveragedPath:
    """A run of small steps of the exact mean; means over as many updates as between two checks."""
    learner = Learner(bandit_of(setting), ADVANTAGES[ADVANTAGE]())
    hyper, every = Hyper(np.array([setting.small.rate]), 0.0, 1, setting.kl_weight), setting.small.every
    return averaged_path(learner, "mean_field", [bandit_of(setting)], hyper, updates // every, every, start=start)


_settled: dict[str, np.ndarray] = {}


def settled(setting: Setting) -> np.ndarray:
    """Where the run of small steps ends [1, D]; once per process."""
    if setting.quality not in _settled:
        _settled[setting.quality] = _small_steps(setting, setting.checks * setting.small.every).end
    return _settled[setting.quality]


def _flow(setting: Setting) -> xarray.Dataset:
    learner, run = Learner(bandit_of(setting)), _small_steps(setting, setting.checks * setting.small.every)
    stiffness, success = _seen(setting, learner, run.mean[0])
    start = np.asarray(bandit_of(setting).initial_parameters)
    distance = np.linalg.norm(run.mean[0] - start, axis=1) / np.linalg.norm(start)
    columns = {
        "start": ((), _seen(setting, learner, start[None])[0][0], STIFFNESS),
        "flow": ("time", stiffness, STIFFNESS),
        "flow_success": ("time", success, REWARD),
        "distance": ("time", distance, RATIO),
    }
    return xarray.Dataset(columns)


def _noisy(setting: Setting, size: int) -> xarray.Dataset:
    about = setting.noise
    learner = Learner(bandit_of(setting), ADVANTAGES[ADVANTAGE](), group_size=size, prompts=about.prompts)
    hyper = Hyper(np.array([about.rate]), 0.0, about.interval, setting.kl_weight)
    run = averaged_path(learner, "sampled", [bandit_of(setting)], hyper, setting.checks, about.every)
    stiffness, success = _seen(setting, learner, run.mean[0])
    rested, _ = _seen(setting, learner, _small_steps(setting, about.rest, run.end).mean[0, -1:])
    columns = {
        "noisy": ("noisy_time", stiffness, STIFFNESS),
        "noisy_success": ("noisy_time", success, REWARD),
        "rested": ((), rested[0], STIFFNESS),
    }
    return xarray.Dataset(columns)


def _run(setting: Setting, optimizer: str, model: str, interval: int) -> xarray.Dataset:
    adam = optimizer == "adam"
    options = (("b2", setting.b2),) if adam else ()
    rules = ADVANTAGES[ADVANTAGE](), ESTIMATORS["frozen"](), STALENESS[model](), Optimizer(optimizer, options)
    learner = Learner(bandit_of(setting), *rules, horizon=max(setting.intervals))
    rate = rate_of(setting, optimizer, model, interval)
    hyper = Hyper(np.array([rate]), setting.momentum, interval, setting.kl_weight)
    every, start = setting.updates[str(interval)] // setting.checks, None if adam else settled(setting)
    run = averaged_path(learner, "mean_field", [bandit_of(setting)], hyper, setting.checks, every, start=start)
    divided = None if run.preconditioner is None else run.preconditioner[0, -LATE:]
    stiffness, success = _seen(setting, learner, run.mean[0, -LATE:], divided)
    columns = {
        "edge": ((), stiffness.mean(), INVERSE),
        "success": ((), success.mean(), REWARD),
        "spread": ((), run.spread[0, -1], {"units": "parameters"}),
    }
    return xarray.Dataset(columns)


# Numbers that the claims compare.


def late_noise(found: Results) -> float:
    """K with real groups over that of the flow at the end, the group size farthest from 1."""
    return farthest_from_one(
        found.measured.noisy[:, -1].values, np.full(len(found.setting.sizes), found.predicted.noisy[-1])
    )


def rested(found: Results) -> float:
    """The same after the noise."""
    last = found.predicted.noisy[-1]
    return farthest_from_one(found.measured.rested.values, np.full(len(found.setting.sizes), last))


def near(optimizer: str) -> Any:
    """Share of an optimiser's runs that end within the margin of the edge."""

    def share(found: Results) -> float:
        measured, edge = (side.edge.sel(optimizer=optimizer) for side in (found.measured, found.predicted))
        return share_near_one(measured, edge, found.setting.within)

    return share


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        f"the GRU of g2p-en (834,890 weights) pronouncing {', '.join(setting.words)}",
        "advantages without the std",
        kl_weight=setting.kl_weight,
        drift="exact mean where no group is named",
    )


def draw(figure: Figure, found: Results) -> None:
    """K against time; K over the edge against N."""
    sheet.fill(figure, found, (_draw_time, draw_plateaus), height=5.8)


def _draw_time(panel: Axes, found: Results) -> None:
    told, seen = found.predicted, found.measured
    panel.plot(told.time, told.flow, color=s.BLACK, linewidth=1.4)
    panel.plot(seen.time, seen.flow, **s.MEASURED | {"color": s.BLACK, "markersize": 4}, label="exact mean")
    colours = (s.VERMILION, s.ORANGE, s.BLUE)
    for size, colour, marker in zip(found.setting.sizes, colours, "sv^", strict=False):
        look = s.MEASURED | {"color": colour, "marker": marker, "markersize": 4}
        panel.plot(seen.noisy_time, seen.noisy.sel(group_size=size), **look, label=f"groups of {size}")
        after = 1.15 * float(seen.noisy_time[-1])
        panel.plot(after, seen.rested.sel(group_size=size), **look | {"markerfacecolor": colour})
    panel.plot(0, seen.start, **s.MEASURED | {"color": s.BLACK, "markersize": 4})
    panel.plot(0, told.start, "_", color=s.BLACK, markersize=9)
    sheet.note(panel, 0.98, 0.81, "line: lazy network, from the start\nfilled: after the noise", ha="right", va="top")
    panel.set(xlabel="time (steps of unit learning rate)", ylabel=f"stiffness K ({STIFFNESS['units']})")
    panel.set_ylim(0, 1.6 * float(max(seen.start, seen.noisy.max())))
    panel.legend(loc="upper right", fontsize=6.5, ncols=2)
    panel.set_title("K falls with learning, and more with noise")


# Claims.

LAZY = "shared/theory/lazy.py; arXiv 1806.07572"
EDGE = "bandit_lab/theory/thresholds.py; arXiv 2103.00065 and 2207.14484 for supervised learning"
SEEN_FLOW = "K along the flow had been seen; the prediction went from answers to phonemes and to means between checks"
SEEN_FIRST = "a first version of these runs had been seen, see the setting"


def _held(optimizer: str, name: str, **more: Any) -> Claim:
    return Claim.one(
        f"real_gru.edge_{optimizer}",
        f"{name}: share of the runs, models A to C and all N, whose K ends within 10 % of the exact threshold's",
        EDGE,
        near(optimizer),
        tolerance=0.1,
        unit="share",
        short=f"{name}: K ends at the edge (share)",
        fails_if="a pre-trained network were held elsewhere than at the edge of its staleness model",
        post_hoc=SEEN_FIRST,
        **more,
    )


CLAIMS = (
    Claim.ratio(
        "real_gru.flow",
        "K along a run of small steps over that of the lazy network, which knows the start alone; farthest from 1",
        LAZY,
        lambda d: d.flow,
        tolerance=0.1,
        short="K is that of the lazy network to 10 %, at its worst",
        fails_if="the tangent kernel of a pre-trained network changed while it learns three words",
        explanation="the first of six, a mean over the fast beginning; the others are within 3 %",
        post_hoc=SEEN_FLOW,
    ),
    Claim(
        "real_gru.rises",
        "K at the end of the flow over K at the start: it does not rise",
        LAZY,
        predicted=lambda f: float(f.predicted.rises),
        measured=lambda f: float(f.measured.flow[-1] / f.measured.start),
        tolerance=0.1,
        relative=True,
        fails_if="training sharpened the network, or the start's second derivatives were not those of the policy",
        post_hoc=SEEN_FLOW,
    ),
    Claim.same(
        "real_gru.success",
        "Mean success at the end of the flow",
        LAZY,
        lambda d: float(d.flow_success[-1]),
        tolerance=0.02,
        unit="reward",
        fails_if="the network could not learn the words independently of each other, as its start says",
        post_hoc=SEEN_FLOW,
    ),
    _held(
        "sgd",
        "SGD with momentum",
        explanation="the runs are too short: with momentum 0.9, 27 % beyond the edge, a swing grows by e^2 to e^3 in "
        "all of a run, by the linear loop, and at the flow's end there is hardly one to begin with. Eight of nine "
        "still rest where they began. The ninth (A, N = 1) left, and rests with one word near certainty (.993) and "
        "K = 48",
    ),
    _held(
        "adam",
        "Adam",
        explanation="the runs last two to five memories of the second moment; eight of nine are still below the edge, "
        "one is beyond it",
    ),
    Claim.one(
        "real_gru.noise",
        "Real groups, three to an update, an edge above all K: K at the end over that of the lazy flow, the group size "
        "farthest from 1",
        LAZY,
        late_noise,
        tolerance=0.1,
        short="noise leaves K where it is",
        fails_if="the noise of groups carried a pre-trained network to flatter places, as it does small networks",
        explanation="the policy moves to and fro, and K with it, by factors of up to 25 between two checks; and the "
        "network goes to flatter places, see real_gru.rested",
        post_hoc=SEEN_FIRST,
    ),
    Claim.one(
        "real_gru.rested",
        "The same after some updates of the exact mean: K over that of the lazy flow, the group size farthest from 1",
        LAZY,
        rested,
        tolerance=0.1,
        short="K comes back after the noise",
        fails_if="noise had moved the network, and not its policy alone",
        explanation="noise carried the network to flatter places, in 240 updates: after the rest every word has the "
        "success of the flow to 0.01 (G = 32, looked at afterwards), and K is 0.56 to 0.67 of it",
        post_hoc="K of noisy runs had been seen to vary before this was asked",
    ),
)
