"""Mean response of noisy runs to a displacement: what stability means where fluctuations act back on the dynamics.

Every seed runs from the fixed point until it has forgotten the start; then two copies continue with the same random
numbers, one displaced along a direction, one the other way. Half the difference, averaged over seeds, is the mean
response. Where the dynamics near the fixed point are linear it is that of the block map; an adaptive optimiser, whose
second moment sees its own fluctuations, has another one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.measure.block import scalars
from bandit_lab.measure.frozen_moment import freeze_second_moment
from bandit_lab.simulation import sampled
from bandit_lab.simulation.rollout import rollout
from experiments.shared.programs import bounded_jit

SEEDS = 512  # in one program


class Response(NamedTuple):
    """Response of sampled runs, with standard errors over seeds.

    value, error: [P + 1] response at the start of each period, 1 at the start. covariance: [P + 1, P + 1] of `value`.
    spread: standard deviation of the parameters along the direction before the displacement. second_moment,
    second_moment_error: [L] mean of every second-moment leaf (over its entries) at that time, L = 0 if there are none.
    """

    value: np.ndarray
    covariance: np.ndarray
    spread: float
    second_moment: np.ndarray
    second_moment_error: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Standard error [P + 1]."""
        return np.sqrt(np.diag(self.covariance))


@bounded_jit("burn_in", "periods", "leaves")
def _runs(
    learner: Learner, hyper: Hyper, theta: Array, step: Array, burn_in: int, periods: int, leaves: tuple, keys: Array
) -> Any:
    gradient = sampled(learner)
    length = jnp.asarray(learner.staleness.period(hyper.refresh_interval))
    projector = step / (step @ step)

    def lane(key: Array) -> Any:
        start = rollout(learner, gradient, hyper, key, init(learner, hyper, theta), burn_in * length).state

        def follow(sign: float) -> Array:
            first = start._replace(theta=start.theta + sign * step)
            after = lambda stride: projector @ stride.after.theta  # noqa: E731
            later = rollout(learner, gradient, hyper, key, first, periods, length, observe=after).seen
            return jnp.concatenate([(projector @ first.theta)[None], later])

        state_leaves = jax.tree.leaves(start.optimizer)
        moments = jnp.array([jnp.mean(state_leaves[i]) for i in leaves])
        return 0.5 * (follow(1.0) - follow(-1.0)), step @ (start.theta - theta) / jnp.sqrt(step @ step), moments

    return jax.vmap(lane)(keys)


def mean_response(
    learner: Learner,
    hyper: Hyper,
    theta: np.ndarray,
    displacement: np.ndarray,
    *,
    burn_in: int,
    periods: int,
    seeds: int,
    seed: int = 0,
) -> Response:
    """Response of sampled runs at settings `hyper` (scalars) around theta [D] to a displacement [D] of the parameters.

    burn_in, periods: in periods of the staleness rule, of N steps or of one. seeds: rounded up to whole programs of
    SEEDS. For rules with blocks the displaced parameters are seen by the snapshot taken right after it.
    """
    count = -(-seeds // SEEDS)
    keys = jax.random.split(jax.random.key(seed), (count, SEEDS))
    size, momentum = len(theta), float(hyper.momentum)
    roles = freeze_second_moment(learner.optimizer, float(hyper.learning_rate), momentum, size)[0].roles
    leaves = tuple(i for i, role in enumerate(roles) if role == "second_moment")
    args = (scalars(learner, hyper), jnp.asarray(theta), jnp.asarray(displacement), burn_in, periods, leaves)
    parts = [[np.asarray(a) for a in _runs(learner, *args, some)] for some in keys]
    values, places, moments = (np.concatenate(column) for column in zip(*parts, strict=True))
    total = len(values)
    return Response(
        values.mean(axis=0),
        np.cov(values.T) / total,
        float(places.std()),
        moments.mean(axis=0),
        moments.std(axis=0) / np.sqrt(total),
    )
