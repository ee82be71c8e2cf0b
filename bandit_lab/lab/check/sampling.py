"""Does what is drawn have the mean that is computed?"""

from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.lab.check.result import check, not_zero
from bandit_lab.lab.check.subject import LAWS, Subject
from bandit_lab.simulation import drift_of, sampled

DRAWS = 20_000
LARGEST_Z = 5.0  # 6e-7 per number


def judge(z: np.ndarray, draws: int, seed: int) -> str:
    """A line with the largest |z|. Raises AssertionError beyond `LARGEST_Z`."""
    if not z.size:
        raise AssertionError("nothing to compare: no numbers")
    worst = float(np.max(np.abs(z)))
    line = f"|z| <= {worst:.2f} on {z.size} numbers, allowed {LARGEST_Z:g}, n = {draws}, seed {seed}"
    if not worst <= LARGEST_Z:
        raise AssertionError(line)
    return line


@check("rewards drawn follow the law", "bandit")
def _rewards_follow_the_law(subject: Subject) -> str:
    """Mean and mean square of every arm's rewards against `law`; where they are said to be normal, four moments."""
    bandit = subject.learner.bandit
    contexts, arms, _ = bandit.law.probabilities.shape
    index = jnp.repeat(jnp.arange(arms), DRAWS)
    draw = jax.jit(lambda key, context: bandit.sample_rewards(key, context, index).reshape(arms, DRAWS))
    keys, z = jax.random.split(jax.random.key(subject.seed), contexts), []
    for context in range(contexts):
        rewards = np.asarray(draw(keys[context], jnp.int32(context)), float)
        for power, expected in _moments(bandit, context):
            seen = rewards**power
            error = np.maximum(seen.std(1) / np.sqrt(DRAWS), 1e-9 + 1e-6 * np.abs(expected))
            z.append((seen.mean(1) - expected) / error)
    return judge(np.array(z), DRAWS, subject.seed)


def _moments(bandit: Bandit, context: int) -> Iterator[tuple[int, np.ndarray]]:
    """(power, mean of that power of every arm's reward [K])."""
    law = bandit.law
    for power in (1, 2):
        yield power, np.asarray(law.probabilities[context] @ law.values**power)
    if (stds := bandit.normal_stds) is not None:
        mean, square = np.asarray(law.means[context]), np.asarray(stds[context]) ** 2
        yield from enumerate((mean, mean**2 + square, mean**3 + 3 * mean * square), 1)
        yield 4, mean**4 + 6 * mean**2 * square + 3 * square**2


@check("exact mean of a group against sampling", "bandit", "advantage", "estimator", "kl_estimator", *LAWS)
def _sampled_mean(subject: Subject) -> str:
    """Mean of the sampled gradient against the exact one of this group size, at three pairs of policies."""
    if subject.not_summed_reason:
        raise SkipTest(subject.not_summed_reason)
    return judge(_sampled_z(subject, "finite_group", DRAWS, 0.0), DRAWS, subject.seed)


def _sampled_z(subject: Subject, dynamics: str, draws: int, slack: float) -> np.ndarray:
    """[places, D] z-scores; `slack`, in units of the gradient's size, widens the error."""
    draw, exact = sampled(subject.learner), drift_of(subject.learner, dynamics)

    def moments(key: Array, theta: Array, behaviour: Array) -> Any:
        gradients = jax.vmap(lambda k: draw(k, subject.weight, theta, behaviour).value)(jax.random.split(key, draws))
        return gradients.mean(0), gradients.std(0), exact(theta, behaviour, subject.weight)

    keys = jax.random.split(jax.random.key(subject.seed), len(subject.places[0]))
    mean, std, expected = jax.jit(lambda *columns: jax.lax.map(lambda one: moments(*one), columns))(
        keys, *subject.places
    )
    not_zero("mean gradient and its noise", expected, std)
    scale = np.max(np.abs(expected))
    error = np.asarray(std) / np.sqrt(draws) + slack * (scale + 0.1) + 1e-12 * (1 + scale)
    return np.asarray(mean - expected) / error
