"""How old may answers be: which number of an age distribution decides, and is a mixture safer than ages in turn?

Prediction (written before the run). Derived in bandit_lab/theory/ages.py; in other words here. A swing e^(iwt) that
stands still is pushed by kappa times the centre of mass C of the points e^(-iwa) of all ages a, weighted by their
shares. Momentum asks for one direction and one length of that push. (1) In quadrature: kappa E sin(wa) = (1-mu) sin w.
An age of a steps turns a point at most a times as far as one step does, so that kappa (mean age) >= 1 - mu: the law
with the mean age is safe for every mixture. (2) Where the shares are symmetric, C points where the constant mean age
does and is shorter, by rho = E cos(w (a - mean)): the threshold is that of the constant age over rho. (3) Ages up to S
lie on an arc, C in its sector and in the unit circle. The direction asked for is outside the sector below the frequency
of the constant age S; above it, the length asked for is more than there. So no mixture is less stable than the constant
age S. Ages 0 to n-1 mixed without momentum: kappa = 2 n sin^2(pi/(2n)). In turn (model A, N = n) it is 2/n: the mixture
is up to pi^2/4 = 2.47 times as stable. With momentum 0.9 it becomes the less stable one.
Drawn, B ages an update: the centre of mass scatters with the variance (1 - |C|^2)/B, a noise that the mean square of
the swing feeds. Where that loop has gain 1 the mean square grows, below the averaged threshold.
Setting: experiments/ages.yaml, random laws of six kinds. Measured: learning rates at which displaced runs of the
nonlinear mean update grow; for drawn ages the growth of the mean square in a population of such runs. Drawn: both
bounds, mixed over in turn, and thresholds of drawn ages.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq

from bandit_lab import measure as detectors, theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, Learner, Refresh, init
from bandit_lab.grpo.staleness.ages import ages
from bandit_lab.grpo.staleness.base import Mixture, Ring
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.measure.boundary import first_crossing
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.rollout import rollout
from experiments.shared import sheet
from experiments.shared.ages_panels import against_turn, by_draws

TITLE = "Any distribution of ages"
FINDING = (
    "Mean and largest age bound the threshold of a mixture; mixing raises it up to {most_mixed_over_turn:.2f} times"
)

# What prediction and measurement are both told.

RATE = {"units": "logits per unit gradient"}
PURE = {"units": "1"}
KINDS = ("any", "two ages", "uniform", "geometric", "poisson", "symmetric")


def random_laws(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Shares [L, S + 1] of the ages 0..S, of `KINDS` one after another, and momenta [L]."""
    random = np.random.default_rng(setting.seed)
    shares = np.zeros((setting.laws, setting.oldest + 1))
    for number in range(setting.laws):
        oldest = int(random.integers(1, setting.oldest + 1))
        age, mean = np.arange(oldest + 1), float(random.uniform(0.2, 0.7) * oldest)
        kind = KINDS[number % len(KINDS)]
        law: np.ndarray
        if kind == "any":
            law = random.dirichlet(np.full(oldest + 1, 0.5))
        elif kind == "two ages":
            law = random.dirichlet([1, 1]) @ np.eye(oldest + 1)[random.choice(oldest + 1, 2, replace=False)]
        elif kind == "uniform":
            law = np.ones(oldest + 1)
        elif kind == "geometric":
            law = (mean / (1 + mean)) ** age
        elif kind == "poisson":
            law = mean**age / np.cumprod(np.maximum(age, 1))
        else:
            half = random.dirichlet(np.ones(oldest + 1))
            law = half + half[::-1]
        shares[number, : oldest + 1] = law / law.sum()
    return shares, random.choice(setting.momenta, setting.laws)


def kind_of(setting: Setting) -> np.ndarray:
    return np.array([KINDS[number % len(KINDS)] for number in range(setting.laws)])


def axes(setting: Setting) -> dict[str, Any]:
    return {"law": np.arange(setting.laws), "ages": setting.turn_ages, "turn_momentum": setting.turn_momenta,
            "drawn": list(setting.drawn_laws), "draws": setting.draws}  # fmt: skip


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """Thresholds, both bounds, the closed form of symmetric laws, mixed over in turn, drawn ages."""
    signal, even = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards)), np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))
    laws, momenta = random_laws(setting)
    each = list(zip(laws, momenta, strict=True))
    oldest = [int(np.flatnonzero(law)[-1]) for law in laws]
    symmetric = [symmetric_threshold(law, mu) if kind == "symmetric" else np.nan
                 for (law, mu), kind in zip(each, kind_of(setting), strict=True)]  # fmt: skip
    drawn = [[theory.drawn_ages_threshold(law, setting.drawn_momentum, draws) for draws in setting.draws]
             for law in setting.drawn_laws.as_dict().values()]  # fmt: skip
    averaged = [theory.averaged_ages_threshold(law, setting.drawn_momentum).kappa
                for law in setting.drawn_laws.as_dict().values()]  # fmt: skip
    turn = [[theory.in_turn(n, mu) for mu in setting.turn_momenta] for n in setting.turn_ages]
    values = {
        "threshold": ("law", [theory.averaged_ages_threshold(*one).kappa / stiffness for one in each], RATE),
        "by_mean_age": ("law", [theory.safe_by_mean_age(*one) / stiffness for one in each], RATE),
        "by_largest_age": (
            "law",
            [theory.safe_by_largest_age(a, mu) / stiffness for a, mu in zip(oldest, momenta, strict=True)],
            RATE,
        ),
        "symmetric": ("law", np.array(symmetric) / stiffness, RATE),
        "mixed_over_turn": (("ages", "turn_momentum"), turn, PURE),
        "drawn_threshold": (("drawn", "draws"), np.array(drawn) / stiffness, RATE),
        "drawn_average": ("drawn", np.array(averaged) / stiffness, RATE),
    }
    return xarray.Dataset(values, axes(setting))


def symmetric_threshold(law: np.ndarray, mu: float) -> float:
    """kappa of the constant mean age m, half-integers too, over rho = E cos(w (a - m)).

    It crosses where (m + 1/2) w + atan2(mu sin w, 1 - mu cos w) = pi/2, with kappa = 2 sin(w/2) |1 - mu e^(iw)|.
    Without momentum w = pi/(2m + 1), so that all w |a - m| < pi/2 and rho > 0. The angles 3w, 5w, ..., at which C may
    point as well, need a larger kappa: |sin ny|/sin y is at most its value at w/2 for all y = pi/2 - w (a - m) >= w/2.
    """
    age = np.arange(len(law))
    mean = float(law @ age)

    def phase(w: float) -> float:
        return float((mean + 0.5) * w + np.arctan2(mu * np.sin(w), 1 - mu * np.cos(w)) - np.pi / 2)

    w = brentq(phase, 1e-12, np.pi)
    rho = float(law @ np.cos(w * (age - mean)))
    return float(2 * np.sin(w / 2) * abs(1 - mu * np.exp(1j * w)) / rho)


# Measurement: simulation alone.


@dataclass(frozen=True)
class Listed(Ring):
    """Averaged ages, a law for each cell, so that all share one program: the refresh interval is S + the law's row."""

    table: tuple[tuple[float, ...], ...]
    model = "ages"
    whole_interval = False
    averages = True

    @property
    def oldest(self) -> int:
        return len(self.table[0]) - 1

    def horizon_for(self, interval: float) -> int:
        return self.oldest

    def behaviour(self, state: Any, theta: Any, step: Any, interval: Any, key: Any = None) -> tuple[Mixture, Any]:
        length, age = state.shape[0], jnp.arange(self.oldest + 1)
        state = jax.lax.dynamic_update_index_in_dim(state, theta, step % length, 0)
        row = jnp.int32(interval) - self.oldest
        return Mixture(state[(step - age) % length], jnp.asarray(self.table, theta.dtype)[row]), state

    def period(self, interval: float) -> int:
        return 1


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Learning rates at which displacements grow."""
    laws, momenta = random_laws(setting)
    rows = np.array_split(np.arange(setting.laws), max(1, setting.laws // 20))
    parts: dict[str, Any] = {
        f"laws {place}": partial(averaged, setting, laws[row], momenta[row]) for place, row in enumerate(rows)
    }
    parts |= {f"turn {mu}": partial(mixed_over_turn, setting, mu) for mu in setting.turn_momenta}
    parts |= {f"drawn {name}": partial(drawn, setting, name) for name in setting.drawn_laws}
    parts_done = lab.keep_each(parts)

    def joined(kind: str) -> np.ndarray:
        return np.concatenate(
            [np.atleast_1d(one.value.values) for name, one in parts_done.items() if name.startswith(kind)]
        )

    values = {
        "threshold": ("law", joined("laws"), RATE),
        "mixed_over_turn": (("turn_momentum", "ages"), joined("turn").reshape(len(setting.turn_momenta), -1), PURE),
        "drawn_threshold": (("drawn", "draws"), joined("drawn").reshape(len(list(setting.drawn_laws)), -1), RATE),
    }
    return xarray.Dataset(values, axes(setting)).assign(symmetric=("law", kind_of(setting) == "symmetric", PURE))


def rates(about: Setting) -> np.ndarray:
    return np.geomspace(about.start, about.stop, about.num)


def boundary(setting: Setting, staleness: Any, horizon: int, momenta: Any, intervals: Any) -> np.ndarray:
    """Smallest growing learning rates of the cells (momentum, refresh interval)."""
    learner = Learner(two_arm(setting.rewards), staleness=staleness, horizon=horizon)
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    count = len(intervals)
    cells = Hyper(np.ones(count), np.asarray(momenta), np.asarray(intervals), np.full(count, setting.kl_weight))
    theta, direction = np.tile(point.rest, (count, 1)), detectors.generic_direction(point.basis)
    grid = rates(setting.learning_rate)
    periods = setting.periods
    return detectors.learning_rate_boundary(learner, "mean_field", cells, theta, direction, grid, periods).value


def averaged(setting: Setting, laws: np.ndarray, momenta: np.ndarray) -> xarray.Dataset:
    rule = Listed(tuple(map(tuple, laws.tolist())))
    thresholds = boundary(setting, rule, rule.oldest, momenta, rule.oldest + np.arange(len(laws)))
    return xarray.Dataset({"value": ("law", thresholds)})


def mixed_over_turn(setting: Setting, momentum: float) -> xarray.Dataset:
    """Threshold of the mixture over that of model A."""
    count, most = setting.turn_ages, max(setting.turn_ages)
    rule = Listed(tuple(tuple(1 / n if age < n else 0.0 for age in range(most)) for n in count))
    momenta = np.full(len(count), momentum)
    mixed = boundary(setting, rule, rule.oldest, momenta, rule.oldest + np.arange(len(count)))
    return xarray.Dataset({"value": ("ages", mixed / boundary(setting, Refresh(), 0, momenta, count))})


def drawn(setting: Setting, name: str) -> xarray.Dataset:
    """Learning rates at which the mean square grows, by the number of draws."""
    return xarray.Dataset({"value": ("draws", [drawn_boundary(setting, name, draws) for draws in setting.draws])})


def drawn_boundary(setting: Setting, name: str, draws: int) -> float:
    rule = ages(weights=setting.drawn_laws[name], draws=draws)
    learner = Learner(two_arm(setting.rewards), staleness=rule, horizon=rule.horizon_for(1))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    stiffness = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point).largest
    growth = jax.jit(partial(mean_square_growth, learner, setting.steps // STRIDE, setting.runs))
    direction = detectors.generic_direction(point.basis)
    projector = point.basis @ point.basis.T

    def test(cells: Hyper, theta: np.ndarray) -> np.ndarray:
        each = zip(*(np.asarray(column) for column in cells), strict=True)
        origin = (np.asarray(point.rest), direction, projector)
        return np.array([float(growth(Hyper(*map(jnp.asarray, one)), *origin)) for one in each])

    cells = Hyper(*(np.array([value]) for value in (1.0, setting.drawn_momentum, 1, setting.kl_weight)))
    grid = rates(setting.drawn_grid) / float(np.real(stiffness))
    return float(first_crossing(test, cells, np.asarray(point.rest)[None], grid, bisections=6).value[0])


STRIDE = 4
SMALL = 1e-6


def mean_square_growth(
    learner: Learner, readings: int, runs: int, hyper: Hyper, fixed: Any, direction: Any, projector: Any
) -> Any:
    """Growth per step of the mean square of a displacement, over the last 8/9 of a population of runs.

    Rare histories carry a mean square. So after every stride each run is scaled back to its first distance and copied
    in proportion to the square that it had grown by; the mean of those squares is the growth.
    """
    gradient, key = DYNAMICS["mean_field"](learner), jax.random.key(0)
    rest, keys = init(learner, hyper, fixed), jax.random.split(key, runs + 1)

    def away(state: Any) -> Any:
        return jax.tree.map(
            lambda x, f: (x - f) @ projector if jnp.issubdtype(x.dtype, jnp.floating) and x.ndim else 0 * x,
            state, rest,
        )  # fmt: skip

    def advance(state: Any, own: Any) -> tuple[Any, Any]:
        state = rollout(learner, gradient, hyper, own, state, STRIDE).state
        gap = away(state)
        square = sum(jnp.sum(part**2) for part in jax.tree.leaves(gap)) / SMALL**2
        back = jax.tree.map(lambda x, f, d: f + d / jnp.sqrt(square) if d.ndim else x, state, rest, gap)
        return back, square

    def read(states: Any, reading: Any) -> tuple[Any, Any]:
        states, square = jax.vmap(advance)(states, keys[:-1])
        places = (jnp.arange(runs) + jax.random.uniform(jax.random.fold_in(keys[-1], reading))) / runs
        chosen = jnp.minimum(jnp.searchsorted(jnp.cumsum(square) / jnp.sum(square), places), runs - 1)
        return jax.tree.map(lambda x: x[chosen], states), jnp.log(jnp.mean(square))

    start = init(learner, hyper, fixed + SMALL * direction)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (runs, *x.shape)), start)
    seen = jax.lax.scan(read, states, jnp.arange(readings))[1]
    return jnp.mean(seen[readings // 9 :]) / STRIDE


# Numbers that the claims compare.


def at_least(f: Results, bound: str) -> float:
    """Share of the laws whose measured threshold is not below a predicted bound."""
    return float((f.measured.threshold >= f.predicted[bound] * (1 - f.setting.slack)).mean())


def symmetric_ratio(f: Results) -> float:
    """The farthest from 1."""
    ratio = (f.measured.threshold / f.predicted.symmetric).where(f.measured.symmetric, drop=True).values
    return float(ratio[np.argmax(np.abs(np.log(ratio)))])


# Picture.

LOOKS = {"any": (s.GREY, "o"), "symmetric": (s.BLUE, "s"), "uniform": (s.VERMILION, "^")}


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(sheet.two_arms(setting.rewards), "GRPO with std", "heavy ball", kl_weight=setting.kl_weight)


def draw(figure: Figure, results: Results) -> None:
    """Every law over both bounds; a mixture over ages in turn; ages drawn."""
    sheet.fill(figure, results, (bounds, against_turn, by_draws), height=6.6, lettered=True)


def bounds(panel: Axes, results: Results) -> None:
    over = [results.measured.threshold / results.predicted[name] for name in ("by_mean_age", "by_largest_age")]
    kinds = kind_of(results.setting)
    named = np.where(np.isin(kinds, list(LOOKS)), kinds, "any")
    for kind, (color, marker) in LOOKS.items():
        some, label = named == kind, "others" if kind == "any" else kind
        look: dict[str, Any] = {"color": color, "markersize": 3.2, "markerfacecolor": "none"}
        panel.plot(over[0][some], over[1][some], marker, label=label, **look)
    panel.axvline(1, **s.LAW)
    panel.axhline(1, **s.LAW)
    panel.set(xscale="log", yscale="log", xlabel="threshold / bound by mean age",
              ylabel="threshold / bound by largest age", title="no law below a bound")  # fmt: skip
    sheet.plain_log(panel.xaxis)
    sheet.plain_log(panel.yaxis)
    panel.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.07), handletextpad=0.1, borderpad=0.1)


# Claims.

AGES = "bandit_lab/theory/ages.py"

CLAIMS = (
    Claim.ratio(
        "ages.threshold",
        "Averaged ages, random laws of six kinds: measured over predicted threshold, the farthest from 1",
        AGES,
        lambda d: d.threshold,
        tolerance=1e-3,
        fails_if="a law lost stability elsewhere than its characteristic equation says",
        explanation="beyond its threshold a law may be stable again: a coarse scan misses such a window",
    ),
    Claim.one(
        "ages.mean_age_is_safe",
        "Share of the laws that are stable up to K eta (mean age) = 1 - mu, or the flip on policy",
        AGES,
        lambda f: at_least(f, "by_mean_age"),
        tolerance=1e-9,
        fails_if="one mixture were less stable than its mean age says",
    ),
    Claim.one(
        "ages.largest_age_guarantees",
        "Share of the laws that are stable up to the threshold of their largest age, constant",
        AGES,
        lambda f: at_least(f, "by_largest_age"),
        tolerance=1e-9,
        fails_if="one mixture were less stable than its largest age alone",
    ),
    Claim.one(
        "ages.symmetric",
        "Symmetric laws: measured threshold over that of the constant mean age / coherence, the farthest from 1",
        AGES,
        symmetric_ratio,
        tolerance=1e-3,
        fails_if="a symmetric law crossed at another frequency than its constant mean age",
    ),
    Claim.ratio(
        "ages.mixed_over_turn",
        "Uniform ages mixed over the same ages in turn, both momenta: measured over predicted, the farthest from 1",
        AGES,
        lambda d: d.mixed_over_turn.transpose("ages", "turn_momentum"),
        tolerance=1e-3,
        fails_if="passing through the ages were as stable as mixing them",
    ),
    Claim.same(
        "ages.most_mixed_over_turn",
        "The same without momentum, at the largest number of ages (pi^2/4 = 2.467 in the limit)",
        AGES,
        lambda d: d.mixed_over_turn.sel(turn_momentum=0).isel(ages=-1),
        tolerance=1e-3,
        relative=True,
        fails_if="mixing did not help by the factor claimed",
        follows="ages.mixed_over_turn",
    ),
    Claim.ratio(
        "ages.drawn",
        "B ages drawn for every update: measured over predicted threshold of the mean square, the farthest from 1",
        AGES,
        lambda d: d.drawn_threshold,
        tolerance=0.05,
        fails_if="independent ages counted otherwise than the spectrum says",
        explanation="the population of a draft is small",
    ),
)
