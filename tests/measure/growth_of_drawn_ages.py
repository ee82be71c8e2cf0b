"""Growth of a displacement when the age of the acting policy is drawn at every step: typical, and in mean square.

One run multiplies its displacement x by random maps, so that there are two rates of growth per step,

    typical      lim (1/t) E ln |x_t|        the Lyapunov exponent: what almost every run does
    mean square  lim (1/t) ln E |x_t|^2      what the variance does; by Jensen at least twice the typical rate

and two thresholds. Both are read from the full nonlinear mean update, displaced by 1e-6 from its fixed point and pulled
back to that distance every few steps. The mean square of a product is carried by rare histories that a plain average of
runs never meets; therefore a population is kept in which a run is copied in proportion to its squared growth, which is
exact for large populations (the error is of order 1/population).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.measure.directions import policy_directions
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.cells import typed_cells
from bandit_lab.simulation.rollout import rollout
from experiments.shared.programs import bounded_jit

_DISPLACEMENT = 1e-6
_STRIDE = 4  # steps between two readings


class Growth(NamedTuple):
    """Growth per step of ln |x| (typical) or of ln E |x|^2 (mean square) [C], and its standard error [C]."""

    rate: np.ndarray
    error: np.ndarray


def _scaled(tree: Any, fixed: Any, factor: Array, projector: Array) -> Any:
    """The leaves of `tree` that are parameters [..., D], moved to fixed + factor * projector (tree - fixed).

    The projector [D, D] keeps rounding errors out of directions that do not change the policy and never decay.
    """
    return jax.tree.map(
        lambda x, f: f + factor * (x - f) @ projector if jnp.issubdtype(x.dtype, jnp.floating) and x.ndim else x,
        tree,
        fixed,
    )


def _distance(tree: Any, fixed: Any) -> Array:
    """Euclidean norm of the floating leaves of `tree` minus those of `fixed`."""
    gaps = [
        jnp.sum((x - f) ** 2)
        for x, f in zip(jax.tree.leaves(tree), jax.tree.leaves(fixed), strict=True)
        if jnp.issubdtype(x.dtype, jnp.floating)
    ]
    return jnp.sqrt(sum(gaps))


@bounded_jit("dynamics", "rate", "readings", "runs")
def _readings(
    learner: Learner,
    dynamics: str,
    rate: str,
    readings: int,
    runs: int,
    cells: Hyper,
    theta_star: Array,
    direction: Array,
    projector: Array,
    key: Array,
) -> Array:
    """Over each stride [C, readings]: mean over runs of ln of the growth, or ln of the growth of the mean square."""
    gradient = DYNAMICS[dynamics](learner)

    def cell(hyper: Hyper, fixed_theta: Array, direction: Array, projector: Array, key: Array) -> Array:
        fixed = init(learner, hyper, fixed_theta)
        start = init(learner, hyper, fixed_theta + _DISPLACEMENT * direction)
        keys = jax.random.split(key, runs + 1)

        def advance(state: Any, run_key: Array) -> tuple[Any, Array]:
            state = rollout(learner, gradient, hyper, run_key, state, _STRIDE).state
            size = _distance(state, fixed) / _DISPLACEMENT
            return _scaled(state, fixed, 1 / size, projector), jnp.log(size)

        def read(states: Any, reading: Array) -> tuple[Any, Array]:
            states, log_growth = jax.vmap(advance)(states, keys[:-1])
            if rate == "typical":
                return states, jnp.mean(log_growth)
            weight = jnp.exp(2 * (log_growth - jnp.max(log_growth)))
            mean_square = jnp.log(jnp.mean(weight)) + 2 * jnp.max(log_growth)
            ticks = (jnp.arange(runs) + jax.random.uniform(jax.random.fold_in(keys[-1], reading))) / runs
            chosen = jnp.searchsorted(jnp.cumsum(weight) / jnp.sum(weight), ticks)
            chosen = jnp.minimum(chosen, runs - 1)
            return jax.tree.map(lambda x: x[chosen], states), mean_square

        states = jax.tree.map(lambda x: jnp.broadcast_to(x, (runs, *x.shape)), start)
        return jax.lax.scan(read, states, jnp.arange(readings))[1]

    keys = jax.random.split(key, len(theta_star))
    return jax.lax.map(lambda lane: cell(*lane), (cells, theta_star, direction, projector, keys))


def growth_of_drawn_ages(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    *,
    rate: str = "typical",
    steps: int = 4096,
    runs: int = 256,
) -> Growth:
    """Growth per step [C] of a displacement under drawn ages, with its standard error over eight parts of the run.

    Args:
      cells: Hyper of arrays [C]. theta_star: [C, D] fixed points. direction: [D] or [C, D].
      rate: "typical" or "mean_square" (that of the square). steps: in all; the first ninth is thrown away.
      runs: independent runs, or the size of the population.
    """
    theta_star = np.asarray(theta_star, np.float64)
    direction = np.broadcast_to(direction, theta_star.shape)
    part = steps // (9 * _STRIDE)
    hyper, space = typed_cells(learner, cells, np.float64), _projectors(learner, theta_star)
    options = (dynamics, rate, 9 * part, runs)
    found = _readings(learner, *options, hyper, theta_star, direction, space, jax.random.key(0))
    values = np.asarray(found)[:, part:] / _STRIDE
    parts = values.reshape(len(values), 8, part).mean(axis=2)
    return Growth(parts.mean(axis=1), parts.std(axis=1, ddof=1) / np.sqrt(8))


def _projectors(learner: Learner, theta_star: np.ndarray) -> np.ndarray:
    """Projectors [C, D, D] on the directions that change the policy at theta_star [C, D]."""
    different, which = np.unique(theta_star, axis=0, return_inverse=True)
    bases = [policy_directions(learner, theta) for theta in different]
    return np.stack([basis @ basis.T for basis in bases])[which.reshape(-1)]
