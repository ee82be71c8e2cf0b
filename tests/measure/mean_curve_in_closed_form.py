"""The mean curve of a learner whose optimiser averages squares: its second moment fed with the exact E[g^2].

To leading order in the learning rate the parameters follow the mean gradient, while the second moment follows E[g^2] at
the parameters of the moment: mean squared plus group noise, which falls as 1/G. So an adaptive optimiser's *mean* curve
depends on the group size through the exact law of the gradient. Counters run, bias corrections included.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.block import scalars
from bandit_lab.measure.frozen_moment import FrozenMomentOptimizer, FrozenMomentState, freeze_second_moment
from bandit_lab.simulation.group_moment import group_moments
from bandit_lab.simulation.programs import bounded_jit


@bounded_jit("steps", "frozen")
def _curve(learner: Learner, frozen: FrozenMomentOptimizer, steps: int, hyper: Hyper, theta: Array) -> Array:
    inner = frozen.inner.build(hyper.learning_rate, hyper.momentum)
    frozen_optimizer = frozen.build(hyper.learning_rate, hyper.momentum)
    moments = group_moments(learner)
    size = theta.shape[0]

    def step(carry: Any, index: Array) -> tuple[Any, Array]:
        theta, state, memory = carry
        behaviour: Any
        behaviour, memory = learner.staleness.behaviour(memory, theta, index, hyper.refresh_interval)
        law = moments(hyper.kl_weight, theta, behaviour)
        values, vectors = jnp.linalg.eigh(law.covariance)
        root = (vectors * jnp.sqrt(jnp.maximum(values, 0) * size)).T
        points = -jnp.concatenate([law.mean + root, law.mean - root])

        def inside(gradient: Array) -> FrozenMomentState:
            _, new = inner.update(gradient, frozen.join(state), theta)
            return frozen.split(jax.tree.leaves(new))

        after = jax.vmap(inside)(points)
        fed = state._replace(second_moment=tuple(jnp.mean(x, axis=0) for x in after.second_moment))
        change, new = frozen_optimizer.update(-law.mean, fed, theta)
        fixed = inside(-law.mean).fixed
        reward = expected_reward(learner.bandit, theta)
        return (theta + change, FrozenMomentState(new.moving, fed.second_moment, fixed), memory), reward

    start = (theta, frozen_optimizer.init(theta), learner.staleness.init(theta, learner.horizon))
    (theta, _, _), rewards = jax.lax.scan(step, start, jnp.arange(steps))
    return jnp.append(rewards, expected_reward(learner.bandit, theta))


def closed_mean_curve(learner: Learner, hyper: Hyper, steps: int, initial: np.ndarray | None = None) -> np.ndarray:
    """Expected reward [steps + 1] of the mean parameters at finite group size, at settings `hyper` (scalars).

    initial: [D], default the bandit's. Exact gradient moments (binary or few reward values). Needs float64.

    Raises:
      ValueError: staleness that averages over ages, or what `group_moments` raises.
    """
    whole = learner.staleness.whole_interval
    _checks.require(whole, "staleness", "one policy that acts at a time", learner.staleness.model)
    theta = jnp.asarray(learner.bandit.initial_parameters if initial is None else initial)
    frozen, _ = freeze_second_moment(learner.optimizer, float(hyper.learning_rate), float(hyper.momentum), len(theta))
    return np.asarray(_curve(learner, frozen, steps, scalars(learner, hyper), theta))
