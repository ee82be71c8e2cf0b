"""The one loop over `update` against a loop in plain Python, whatever is observed of it."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, Learner, Optimizer, init, update
from bandit_lab.simulation import sampled
from bandit_lab.simulation.rollout import rollout

LEARNER = Learner(two_arm((0.9, 0.2)), optimizer=Optimizer("adam"), group_size=4)
HYPER = Hyper(jnp.array(0.3), jnp.array(0.5), jnp.int32(3), jnp.array(0.4))
KEY = jax.random.key(3)
START = init(LEARNER, HYPER, jnp.array([0.2, -0.1]))
STEPS = 12


def by_hand(gradient):
    """(states 0..STEPS, what each update showed)."""

    @jax.jit
    def one(state):
        return update(LEARNER, gradient, HYPER, KEY, state)

    states, infos = [START], []
    for _ in range(STEPS):
        state, info = one(states[-1])
        states.append(state)
        infos.append(info)
    return states, infos


@pytest.fixture(scope="module")
def plain():
    return by_hand(sampled(LEARNER))


def same(trace, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14), trace, expected)


@pytest.mark.parametrize("every", [1, 3, 4])
def test_strides_are_those_of_a_plain_loop(plain, every):
    """States around every stride, the last update's info, the end and a fold over all updates; every traced or not."""
    states, infos = plain

    def seen(stride):
        return stride.before.theta, stride.after.theta, stride.info.silent, stride.info.gradient

    def fold(total, stride):
        return total[0] + stride.info.silent, jnp.maximum(total[1], jnp.max(stride.after.theta - stride.before.theta))

    def run(every):
        nothing = (jnp.array(0.0), jnp.array(-jnp.inf))
        where = (LEARNER, sampled(LEARNER), HYPER, KEY, START, STEPS // spacing)
        return rollout(*where, every, observe=seen, fold=fold, total=nothing)

    spacing = every
    trace = jax.jit(lambda: run(every))()
    same(trace, jax.jit(run)(every))
    same(trace.state, states[-1])
    firsts, lasts = range(0, STEPS, every), range(every - 1, STEPS, every)
    same(trace.seen[0], jnp.stack([states[i].theta for i in firsts]))
    same(trace.seen[1], jnp.stack([states[i + 1].theta for i in lasts]))
    same(trace.seen[2], jnp.stack([infos[i].silent for i in lasts]))
    same(trace.seen[3], jnp.stack([infos[i].gradient for i in lasts]))
    steps = [jnp.max(new.theta - old.theta) for old, new in pairwise(states)]
    same(trace.total, (sum(info.silent for info in infos), max(steps)))
