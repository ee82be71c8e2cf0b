"""The gradient of the reference path itself, for all lanes at once.

The functions that define the update are carried out with the lanes as the last axis (see `lanes_last`). This serves
costly policies in the limit of infinite groups, and whatever counts of cells do not say enough for: an estimator that
weighs the tokens of a sequence, an advantage that looks at the whole batch, or rewards of a continuous law, unless they
are normal and the rule sees mean and variance alone. Actions and rewards are then drawn one by one, rewards by the
bandit's own `sample_rewards`, with keys made of this room's random words (see `lane_keys`). All is exact.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from bandit_lab._barrier import materialize
from bandit_lab._types import Array
from bandit_lab.simulation.dynamics import DYNAMICS
from bandit_lab.simulation.fast.lane_keys import WordKeys
from bandit_lab.simulation.fast.program import Job
from bandit_lab.simulation.lanes_last import over_lanes, spread


def ascent(job: Job, theta: Array, behaviour: Array, step: Array) -> tuple[Array, Array]:
    """(ascent direction [D, L], share of silent groups [L]) at parameters theta, drawn from the policy at behaviour."""
    learner, dynamics, lanes = job.learner, job.program.dynamics, theta.shape[-1]

    def one(bandit: Any, kl_weight: Array, theta: Array, behaviour: Any, key: Array) -> tuple[Array, Array]:
        found = DYNAMICS[dynamics](replace(learner, bandit=bandit))(key, kl_weight, theta, behaviour)
        return found.value, found.silent

    kl_weight, sampled = job.lanes.kl_weight, job.lanes.keys is not None
    keys: Any = jax.random.key(0)
    if sampled:
        keys = WordKeys(job.lanes.keys[0], job.lanes.keys[1], job.program.generator).folded(step)
    laned = (False, jnp.ndim(kl_weight) > 0, True, True, sampled)
    value, silent = over_lanes(one, laned, job.tables.bandit, kl_weight, theta, behaviour, keys)
    return materialize(spread(value, lanes)), spread(silent, lanes)
