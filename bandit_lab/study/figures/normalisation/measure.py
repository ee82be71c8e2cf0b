"""Measurement of experiments/normalisation.py."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from scipy.optimize import minimize

from bandit_lab import measure as detectors
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.simulate import trajectories
from bandit_lab.study.figures.normalisation.problem import dataset, name, policies, steps
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The mean update step by step; second derivatives by differentiation."""
    places, losses, exponents, rates = steps(setting), [], [], []
    for number, curve in enumerate(setting.curves):
        full = lab.keep(name(curve).replace(" ", ""), partial(_loss, setting, curve)).loss.values
        losses.append(full[places])
        exponential = curve["advantage"] == "dapo"
        exponents.append(np.nan if exponential else float(detectors.late_exponent(full)))
        early = full[: int(np.argmax(full < setting.smallest_loss))] if exponential else None
        rates.append(np.nan if early is None else float(detectors.late_rate(early)) / setting.learning_rate)
        lab.progress(number + 1, len(setting.curves))
    seen = [
        float(detectors.measure_curvature(k_arm(rewards.tolist(), kind="fixed"), logits, u).second_derivative[0])
        for logits, rewards, u in policies(setting)
    ]
    found = dataset(setting, losses, {"exponent": exponents, "rate": rates}, {"curvature": seen})
    return found.merge(lab.keep("ascent", lambda: _ascent(setting)))


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
    found = []
    for _ in range(about.starts):
        start = rng.normal(size=3 * about.arms)
        end = minimize(
            climb, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9}
        )
        logits, _, angles = end.x.reshape(3, -1)
        up = float(np.exp(logits - np.logaddexp.reduce(logits)) @ (np.sin(angles) > 0))
        found.append((-end.fun, up * (1 - up)))
    ratio, spread = max(found)
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
