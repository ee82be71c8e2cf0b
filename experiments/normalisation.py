"""What does dividing by the group's std buy: how fast is the end reached, and what has the std to do with curvature?

Prediction (written before the run). Without KL two arms approach the vertex, time t = learning rate x steps and both
logits trained (shared/theory/two_arm.py): mean-only 1 - p -> 1/(2 t); divided by the std 4/(2 t)^2 at G = infinity;
a finite group follows that until G (1 - p) ~ 1, where most groups are silent, then 1/(2 sqrt(G - 1) t); with silent
groups dropped the loss falls exponentially, rate 2 sqrt(G - 1)/G. Along a direction u the curvature of the expected
reward is Cov(r, c^2), c = u.phi - E u.phi, hence at most B^2 sd(r) for |u.phi| <= B (after arXiv 2601.23135; the
constant is sharp: shared/theory/curvature.py), with equality for one logit at p (1 - p) = 1/8.

Setting: experiments/normalisation.yaml. Measured: the exact mean update, step by step; second derivatives of the
expected reward. Drawn: loss against time; curvature against its bound.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import minimize

from bandit_lab import theory
from bandit_lab.app.plots import style as s
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.lab.reproduce.experiment import Claim, Lab, Results, Setting
from bandit_lab.lab.reproduce.readings import farthest_from_one
from bandit_lab.simulation import trajectories
from experiments.shared import sheet
from experiments.shared.measure.curvature import measure_curvature
from experiments.shared.measure.late_time import late_exponent, late_rate
from experiments.shared.theory.curvature import directional_curvature, spread_bound, uniform_bound
from experiments.shared.theory.two_arm import group_curve, late_decay_rate, late_law

TITLE = "Dividing by the std: late rates and curvature"
FINDING = "Dividing by the std speeds late learning up from 1/t to 1/t², until silent groups bring 1/t back"

# What prediction and measurement are both told.

EDGE = 0.5 * (1 + np.sqrt(0.5))  # p (1 - p) = 1/8


def name(curve: dict) -> str:
    """`grpo G = 8`."""
    return f"{curve['advantage']} G = {curve['group_size'] or 'infinity'}"


def steps(setting: Setting) -> np.ndarray:
    """Log-spaced steps [P]."""
    last = round(setting.time / setting.learning_rate)
    return np.unique(np.round(np.geomspace(0.3 / setting.learning_rate, last, setting.points)).astype(int))


def policies(setting: Setting) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(logits, rewards, direction) of random policies, and of the two with the largest curvature, last."""
    rng = np.random.default_rng(setting.seed)
    sizes = rng.choice(setting.arms, setting.policies)
    drawn = [(2 * rng.normal(size=k), rng.uniform(-1, 1, k), rng.uniform(-1, 1, k)) for k in sizes]
    return drawn + [
        (np.array([np.log(p / (1 - p)), 0.0]), np.array([1.0, 0.0]), np.eye(2)[0]) for p in (EDGE, 1 - EDGE)
    ]


def dataset(setting: Setting, loss: list, end: dict, curvature: dict) -> xarray.Dataset:
    """What both sides have: losses [C, P] (nan below the smallest), numbers per curve, curvatures [R]."""
    seen = np.array(loss, float)
    coords = {"curve": [name(c) for c in setting.curves], "time": steps(setting) * setting.learning_rate}
    values = {"loss": (("curve", "time"), np.where(seen > setting.smallest_loss, seen, np.nan), {"units": "1 - p"})}
    values |= {k: ("curve", np.array(v, float), {"units": "1"}) for k, v in end.items()}
    values |= {k: ("policy", np.array(v, float), {"units": "reward per logit^2"}) for k, v in curvature.items()}
    return xarray.Dataset(values, coords)


# Prediction: theory alone.


def predict(setting: Setting) -> xarray.Dataset:
    """The flow, its late law, curvature as a covariance with its bounds."""
    time = steps(setting) * setting.learning_rate
    laws = [theory.GroupLaw(c["advantage"], c["group_size"]) for c in setting.curves]
    exact = [1 - group_curve(time, 0.0, law) for law in laws]
    late = np.array([late_law(time, law) for law in laws])
    exponent = [-2.0 if c["advantage"] == "grpo" and c["group_size"] is None else -1.0 for c in setting.curves]
    rates = [late_decay_rate(c["group_size"]) if c["advantage"] == "dapo" else np.nan for c in setting.curves]
    exponent = [np.nan if c["advantage"] == "dapo" else e for c, e in zip(setting.curves, exponent, strict=True)]
    rows: dict[str, list[float]] = {"curvature": [], "bound": [], "uniform_bound": []}
    for logits, rewards, u in policies(setting):
        policy = np.exp(logits - np.logaddexp.reduce(logits))
        half = 0.5 * np.ptp(u)
        rows["curvature"].append(directional_curvature(policy, rewards, u))
        rows["bound"].append(spread_bound(policy, rewards, u))
        rows["uniform_bound"].append(uniform_bound(policy, rewards, half))
    predicted = dataset(setting, exact, {"exponent": exponent, "rate": rates}, rows)
    predicted = predicted.assign(largest_ratio=((), 1.0, {"units": "1"}), spread_at_largest=((), 0.125, {"units": "1"}))
    return predicted.assign(
        late_law=(("curve", "time"), late, {"units": "1 - p", "long_name": "leading late-time law"})
    )


# Measurement: simulation alone.


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The mean update step by step; second derivatives by differentiation."""
    places, losses, exponents, rates = steps(setting), [], [], []
    for number, curve in enumerate(setting.curves):
        full = lab.keep(name(curve).replace(" ", ""), partial(_loss, setting, curve)).loss.values
        losses.append(full[places])
        exponential = curve["advantage"] == "dapo"
        exponents.append(np.nan if exponential else float(late_exponent(full)))
        early = full[: int(np.argmax(full < setting.smallest_loss))] if exponential else None
        rates.append(np.nan if early is None else float(late_rate(early)) / setting.learning_rate)
        lab.progress(number + 1, len(setting.curves))
    seen = [
        float(measure_curvature(k_arm(rewards.tolist(), kind="fixed"), logits, u).second_derivative[0])
        for logits, rewards, u in policies(setting)
    ]
    measured = dataset(setting, losses, {"exponent": exponents, "rate": rates}, {"curvature": seen})
    return measured.merge(lab.keep("ascent", lambda: _ascent(setting)))


def _loss(setting: Setting, curve: dict) -> xarray.Dataset:
    finite = {} if curve["group_size"] is None else {"group_size": curve["group_size"]}
    learner = Learner(two_arm((0.0, -1.0), kind="fixed"), advantage=ADVANTAGES[curve["advantage"]](), **finite)
    cells = Hyper(np.array([setting.learning_rate]), np.zeros(1), np.ones(1, int), np.zeros(1))
    last = round(setting.time / setting.learning_rate)
    dynamics = "finite_group" if finite else "mean_field"
    reward = trajectories(learner, dynamics, cells, steps=last, dtype=np.float64)[0, 0]
    return xarray.Dataset({"loss": ("step", -reward)})


def _ascent(setting: Setting) -> xarray.Dataset:
    """The largest |u^T H u|/(B^2 sd of the reward) found by climbing from random starts, and p (1 - p) there.

    A start is random logits, rewards and angles [3, K]; the direction is u = sin(angle), so that |u| <= B = 1. p is the
    probability of the arms with u > 0.
    """
    about = setting.ascent
    climb, rng = _ratio_and_gradient(), np.random.default_rng(setting.seed)
    climbs = []
    for _ in range(about.starts):
        start = rng.normal(size=3 * about.arms)
        end = minimize(
            climb, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9}
        )
        logits, _, angles = end.x.reshape(3, -1)
        up = float(np.exp(logits - np.logaddexp.reduce(logits)) @ (np.sin(angles) > 0))
        climbs.append((-end.fun, up * (1 - up)))
    ratio, spread = max(climbs)
    values = {"largest_ratio": ratio, "spread_at_largest": spread}
    return xarray.Dataset({name: ((), value, {"units": "1"}) for name, value in values.items()})


def _ratio_and_gradient() -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Minus the ratio and its gradient at a flat point [3 K]; the curvature by differentiating the expected reward."""

    def minus_ratio(point: jax.Array) -> jax.Array:
        logits, rewards, angles = point.reshape(3, -1)

        def reward(t: jax.Array) -> jax.Array:
            return jax.nn.softmax(logits + t * jnp.sin(angles)) @ rewards

        curvature = jax.jacfwd(jax.jacfwd(reward))(jnp.zeros(()))
        policy = jax.nn.softmax(logits)
        return -jnp.abs(curvature) / jnp.sqrt(policy @ (rewards - policy @ rewards) ** 2)

    both = jax.jit(jax.value_and_grad(minus_ratio))

    def climb(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = both(jnp.asarray(point))
        return float(value), np.asarray(gradient, float)

    return climb


# Picture.

COLOURS = (s.VERMILION, s.BLUE, s.GREEN, s.PURPLE, s.ORANGE)


def trained(setting: Setting) -> str:
    """What stands above the picture."""
    return sheet.trained(
        "two arms, fixed rewards; curvature: random policies",
        "advantages as named; SGD, on-policy",
        kl_weight=0,
        drift="exact mean update at G",
    )


def draw(figure: Figure, results: Results) -> None:
    """Loss against time; curvature against its bound."""
    sheet.fill(figure, results, (_losses, _curvatures), height=4.8, sizes=(1.2, 1))


def _losses(panel: Axes, results: Results) -> None:
    labels = ("mean only", r"std, $G = \infty$", "std, $G$ = 8", "std, $G$ = 64", "silent groups\ndropped, $G$ = 8")
    time = results.predicted.time.values
    for curve, colour, text in zip(results.predicted.curve.values, COLOURS, labels, strict=True):
        predicted, measured = (d.loss.sel(curve=curve).values for d in (results.predicted, results.measured))
        panel.plot(time, predicted, **s.EXACT | {"color": colour, "linewidth": 1.2})
        late = results.predicted.late_law.sel(curve=curve).values
        panel.plot(time, np.where(late < 0.05, late, np.nan), **s.LAW | {"linewidth": 0.8})
        panel.plot(time, measured, **s.MEASURED | {"color": colour, "markersize": 2.8})
        end = np.flatnonzero(np.isfinite(predicted))[-1]
        panel.text(1.25 * time[end], predicted[end], text, color=colour, va="center", fontsize=6.5)
    panel.set_xlim(time[0] / 1.3, 9 * time[-1])
    panel.set(
        xscale="log", yscale="log", xlabel=rf"learning rate $\times$ steps ({s.RATE_UNIT})", ylabel=r"loss $1 - p$"
    )
    panel.set_ylim(results.setting.smallest_loss, 1)
    sheet.small_note(panel, 0.03, 0.04, "line: exact flow\ndashed: late law\ncircle: measured")


def _curvatures(panel: Axes, results: Results) -> None:
    bound, seen = results.predicted.uniform_bound.values, np.abs(results.measured.curvature.values)
    least = 1e-4 * bound.max()
    shown = seen > least
    panel.plot(bound[shown], seen[shown], ".", color=s.SKY, markersize=2.5, zorder=1)
    panel.plot(bound[-2:], seen[-2:], **s.MEASURED | {"marker": "D", "color": s.VERMILION})
    ends = np.array([bound[shown].min() * 0.8, bound.max() * 1.2])
    panel.plot(ends, ends, **s.EXACT)
    panel.set(xscale="log", yscale="log", xlabel=r"bound $B^2\,\sigma_r$ (reward / logit$^2$)")
    panel.set_ylabel(r"curvature $|u^T H u|$ (reward / logit$^2$)")
    panel.set_ylim(least, ends[1] * 1.3)
    sheet.small_note(panel, 0.05, 0.95, "line: bound reached", color=s.BLUE, va="top")
    key = "points: random policies\ndiamond: $p\\,(1-p) = 1/8$\n(both measured)"
    sheet.small_note(panel, 0.05, 0.88, key, va="top")


# Claims.

DERIVED = "derived in shared/theory/two_arm.py"
CURVATURE = "after arXiv 2601.23135; derived in shared/theory/curvature.py"


def _exponent(curve: str, statement: str) -> Claim:
    return Claim.same(
        f"normalisation.exponent_{curve.split()[0]}_{curve.split()[-1]}",
        statement,
        DERIVED,
        lambda d: d.exponent.sel(curve=curve),
        tolerance=lambda f: f.setting.tolerance.exponent,
        fails_if="the exact loss had not reached its late law within the run",
        follows="normalisation.curves",
        constant="the late law of shared/theory/two_arm.py",
    )


CLAIMS = (
    _exponent("dr_grpo G = infinity", "Mean only: the loss falls like 1/t, d ln loss / d ln t over the last decade"),
    _exponent("grpo G = infinity", "Divided by the std, G = infinity: the loss falls like 1/t^2"),
    _exponent("grpo G = 8", "Divided by the std, G = 8: 1/t again once most groups are silent"),
    Claim.one(
        "normalisation.amplitude",
        "Late loss at G = 8 over 1/(2 sqrt(G - 1) t)",
        DERIVED,
        measured=lambda f: float((f.measured.loss / f.predicted.late_law).sel(curve="grpo G = 8")[-1]),
        tolerance=lambda f: f.setting.tolerance.amplitude,
        fails_if="the constant of the late law were another",
        follows="normalisation.curves",
    ),
    # the first quarter of the fitted range is not yet straight
    Claim.same(
        "normalisation.dropped",
        "Silent groups dropped, G = 8: exponential, rate 2 sqrt(G - 1)/G per learning rate x step",
        DERIVED,
        lambda d: d.rate.sel(curve="dapo G = 8"),
        tolerance=0.01,
        relative=True,
        unit="per learning rate x step",
        fails_if="the exact loss had another late rate",
        follows="normalisation.curves",
    ),
    Claim.one(
        "normalisation.curves",
        "All five curves: measured / exact loss, the farthest from 1",
        DERIVED,
        measured=lambda f: farthest_from_one(f.measured.loss, f.predicted.loss.where(f.measured.loss.notnull())),
        tolerance=lambda f: f.setting.tolerance.curve,
        fails_if="the mean update of a finite group, of silent groups or of dropped ones were another",
    ),
    # rounding where the two terms of the covariance nearly cancel
    Claim.ratio(
        "normalisation.curvature",
        "Curvature along a random direction is Cov(r, c^2): largest difference from 1 of measured / predicted",
        CURVATURE,
        lambda d: d.curvature,
        tolerance=1e-6,
        fails_if="differentiation and covariance disagreed at one of the random policies",
    ),
    # an ascent that ends 1e-3 off its maximum is 1e-6 below it
    Claim.same(
        "normalisation.bound",
        "Largest |curvature| / (B^2 sd of the reward) that an ascent finds from random policies, rewards, directions",
        CURVATURE,
        lambda d: d.largest_ratio,
        tolerance=1e-5,
        fails_if="one policy passed the bound, or none came near it",
        constant="the sharp bound of shared/theory/curvature.py",
    ),
    Claim.same(
        "normalisation.bound_place",
        "There the good arms have probability p with p (1 - p) =",
        CURVATURE,
        lambda d: d.spread_at_largest,
        tolerance=2e-3,
        fails_if="the largest ratio were reached at other policies too",
        constant="the case of equality in shared/theory/curvature.py",
    ),
)
