"""The fast path's sampled runs against the reference path, and against itself: layouts, what it serves and what not."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner, nightly_but, own

from bandit_lab.bandits import BANDITS, Bandit, RewardLaw, k_arm, proxy, two_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.gaussian import gaussian
from bandit_lab.bandits.neural import neural
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import (
    ADVANTAGES,
    ESTIMATORS,
    KL_ESTIMATORS,
    STALENESS,
    ClipHigher,
    Clipped,
    Learner,
    Optimizer,
    Ratio,
    Schedule,
    Temperature,
    Uncorrected,
)
from bandit_lab.grpo.advantage import GRPO
from bandit_lab.grpo.advantage.median import Median
from bandit_lab.grpo.staleness.ages import ages
from bandit_lab.simulation import fast, run, trajectories
from bandit_lab.simulation.fast.layout import GROUP, PART
from bandit_lab.simulation.one_kernel import one_kernel_enabled


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneLogit(Bandit):
    """Two arms, one logit; the literal of NumPy is float64 and no weak type."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array
    sharpness: jax.Array

    def log_policy(self, theta):
        logit = self.sharpness * theta[0]
        return jax.nn.log_sigmoid(jnp.stack([logit, -logit]) * np.ones(2))[None]


def one_logit(rewards=(0.9, 0.2), sharpness=1.5):
    chances = jnp.array(rewards)
    law = RewardLaw(jnp.array([0.0, 1.0]), jnp.stack([1 - chances, chances], axis=-1)[None])
    return OneLogit(law, jnp.zeros(1), jnp.log(jnp.array([[0.4, 0.6]])), jnp.array(sharpness))


@dataclass(frozen=True)
class Rank:
    """A user's rule: the share of the group with a smaller reward less that with a larger one."""

    smallest_group = 2
    linear = False
    centred = True
    drops_silent = False

    def advantages(self, values, shares, size):
        return jnp.sum(jnp.sign(values[:, None] - values) * shares, axis=1)


class UpperMedian(Median):
    """Planted: the upper one of the two in the middle."""

    def advantages(self, values, shares, size):
        reached = jnp.cumsum(shares, axis=0)
        return values - jnp.min(jnp.where(reached > 0.5 + 1e-6, values, jnp.inf), axis=0)


STEPS, SEEDS, STANDARD_ERRORS = 20, 2**18, 5
NOISY = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3))
FIXED = k_arm((0.2, 0.5, 0.5, 0.8), kind="fixed")
TWO, TWO_FIXED = two_arm((0.9, 0.3)), two_arm((0.9, 0.1), kind="fixed")
STEEP = k_arm((0.0, 0.5, 1.0), (6.0, -6.2, -5.5), (6.0, -6.2, -5.5), kind="fixed")
PROMPTS = contextual(3, 3, overlap=0.4, difficulty=0.5, high=0.9, low=0.2)
TABLES = contextual(
    2,
    3,
    rewards=[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    features=np.random.default_rng(0).standard_normal((2, 3, 4)).tolist(),
)
TOKENS = sequence(rewards=(0.9, 0.1, 0.2, 0.5, 0.1, 0.3, 0.7, 0.2))
TPO = ESTIMATORS["tpo"]
CHANGING = Schedule(np.linspace(1, 0, STEPS), np.linspace(0.2, 1.0, STEPS))
ADAM = Optimizer("adam")


class Case(NamedTuple):
    """A learner, its refresh interval or lag, and what is planted: changes of the learner on the fast path alone."""

    trained: Learner
    interval: int = 1
    planted: dict | None = None

    @property
    def grid(self):
        return cells(0.1, 0.8, self.interval, 0.3)


def variant(advantage="grpo", bandit=NOISY, staleness="refresh", interval=1, planted=None, **options):
    rule = advantage if isinstance(advantage, str) else "grpo"
    trained = learner(rule, bandit, staleness, **{"group_size": 4, "horizon": 8, **options})
    return Case(trained if rule == advantage else replace(trained, advantage=advantage), interval, planted)


VARIANTS = {
    "two noisy arms": variant(bandit=TWO, interval=3),
    "dapo, two noisy arms": variant("dapo", TWO, planted={"advantage": GRPO()}),
    "drawn ages, two arms": variant(bandit=TWO, staleness=ages(draws=1), interval=3),
    "entropy bonus, two arms": variant(bandit=TWO, entropy_weight=0.2, planted={"entropy_weight": 0.21}),
    "adam, two arms": variant(bandit=two_arm(), optimizer=ADAM),
    "adamw, two arms, schedule": variant(bandit=TWO, optimizer=Optimizer("adamw"), schedule=CHANGING),
    "two fixed arms": variant(bandit=TWO_FIXED, group_size=5),
    "k3, two fixed arms": variant(
        bandit=TWO_FIXED, kl_estimator="k3", group_size=5, planted={"kl_estimator": KL_ESTIMATORS["exact"]()}
    ),
    "clipped, two fixed arms": variant(
        bandit=TWO_FIXED, estimator=Clipped(0.05), interval=4, planted={"estimator": Ratio()}
    ),
    "tpo, two fixed arms": variant(bandit=TWO_FIXED, estimator=TPO(0.7), interval=4, planted={"estimator": TPO(0.72)}),
    "dapo, ratio, two fixed arms": variant("dapo", TWO_FIXED, estimator=Ratio(), interval=4),
    "none, two fixed arms": variant("none", TWO_FIXED),
    "eps, ddof": variant(GRPO(eps=0.3, ddof=1), planted={"advantage": GRPO(eps=0.3)}),
    "dr_grpo, schedule": variant(
        "dr_grpo", schedule=CHANGING, planted={"schedule": Schedule(CHANGING.learning_rate, CHANGING.kl_weight * 1.3)}
    ),
    "rloo, ratio, three prompts": variant("rloo", estimator=Ratio(), interval=4, prompts=3, group_size=3),
    "dapo, many arms": variant("dapo", planted={"advantage": GRPO()}),
    "dapo, near a vertex": variant("dapo", STEEP, planted={"advantage": GRPO()}),
    "batch_std, uncorrected": variant("batch_std", estimator=Uncorrected(), interval=4),
    "tempered, gspo": variant("tempered", estimator=ESTIMATORS["gspo"](0.03, 0.05), interval=4),
    "none, k3, entropy": variant("none", kl_estimator="k3", entropy_weight=0.2),
    "sign, lag": variant("sign", staleness="lag", interval=3, planted={"advantage": ADVANTAGES["sign"](0.0)}),
    "median, fixed rewards": variant("median", FIXED, planted={"advantage": UpperMedian()}),
    "median, noisy": variant("median", group_size=5),
    "clip_higher, fixed rewards": variant(estimator=ClipHigher(0.03, 0.06), bandit=FIXED, interval=4),
    "cispo, fixed rewards": variant(estimator=ESTIMATORS["cispo"](0.05, 0.05), bandit=FIXED, interval=4),
    "tpo, many arms": variant(estimator=TPO(0.7), interval=4, planted={"estimator": TPO(0.72)}),
    "proxy, pipeline": variant(bandit=proxy(), staleness="pipeline", interval=3),
    "batch reuse": variant(batch_reuse=True, interval=4),
    "mixed ages": variant(staleness="ages", interval=2, horizon=2),
    "drawn ages": variant(staleness=ages(draws=1), interval=3),
    "adam": variant(optimizer=ADAM),
    "a user's rule": variant(Rank(), FIXED, planted={"advantage": GRPO()}),
}
ANY_POLICY = {
    "one logit": variant(bandit=one_logit(), planted={"bandit": one_logit(sharpness=1.53)}),
    "one logit, clipped, k3": variant(bandit=one_logit(), interval=3, estimator=Clipped(0.05), kl_estimator="k3"),
    "one logit, three prompts, entropy": variant(
        bandit=one_logit(), prompts=3, staleness="lag", interval=2, entropy_weight=0.2
    ),
    "contextual": variant(
        bandit=PROMPTS,
        prompts=2,
        planted={"bandit": contextual(3, 3, overlap=0.45, difficulty=0.5, high=0.9, low=0.2)},
    ),
    "contextual, ratio, k3": variant(
        bandit=PROMPTS, prompts=2, interval=3, estimator=Ratio(), kl_estimator="k3", entropy_weight=0.1
    ),
    "contextual, dapo, schedule": variant("dapo", PROMPTS, schedule=CHANGING),
    "contextual, median": variant("median", TABLES, interval=3, estimator=Uncorrected()),
    "contextual, tpo": variant(bandit=TABLES, interval=3, estimator=TPO(0.7)),
    "sequence, adam": variant(bandit=TOKENS, optimizer=ADAM, kl_estimator="k3"),
    "sequence, dapo": variant("dapo", TOKENS, staleness=ages(draws=1), interval=3, group_size=5),
    "neural": variant(bandit=neural(width=4)),
    "gaussian": variant(bandit=gaussian(), planted={"bandit": gaussian(stds=(0.55, 0.55, 0.55))}),
    "gaussian, three stds, k3": variant(
        bandit=gaussian((1.0, 0.4, -0.3), (0.3, 0.8, 0.5)),
        group_size=7,
        prompts=2,
        kl_estimator="k3",
        planted={"bandit": gaussian((1.0, 0.4, -0.3), (0.3, 0.5, 0.8))},
    ),
    "gaussian, two arms, rloo": variant(
        "rloo",
        gaussian((1.0, 0.4), (0.3, 0.8)),
        staleness="lag",
        interval=2,
        planted={"bandit": gaussian((1.0, 0.4), (0.3, 0.9))},
    ),
}
"""Policies with parameters of their own, and normal rewards."""
VARIANTS |= ANY_POLICY
REPRESENTATIVES = [
    "clipped, two fixed arms",
    "drawn ages, two arms",
    "dapo, many arms",
    "dr_grpo, schedule",
    "tpo, many arms",
    "one logit",
    "contextual",
    "gaussian",
]
"""One of each kind of program and of what can be exchanged; the others are nightly."""


def moments(rewards):
    """(mean, variance, third central moment) of a sample and their standard errors."""
    centred = rewards - rewards.mean()
    powers = [centred, centred**2, centred**3 - 3 * centred * np.mean(centred**2)]  # influence functions
    values = [rewards.mean(), np.mean(centred**2), np.mean(centred**3)]
    return np.array(values), np.array([p.std() / np.sqrt(len(rewards)) for p in powers])


def distance(one, other):
    """Largest difference of three moments, in standard errors; 1e-7 of rounding is granted."""
    (a, error_a), (b, error_b) = moments(one), moments(other)
    return np.max(np.abs(a - b) / np.sqrt(error_a**2 + error_b**2 + (1e-7 * np.abs(a)) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but(REPRESENTATIVES, VARIANTS))
def test_both_paths_have_the_same_distribution(name):
    """Mean, variance, third moment at step 20, 2^18 seeds (2^17 of other policies), seed 1: within 5 errors (false
    alarm 2e-6). What is planted on the fast path is farther off."""
    case, options = VARIANTS[name], {"steps": STEPS, "seeds": SEEDS // (1 + (name in ANY_POLICY)), "seed": 1}

    def ends(trained, path):
        return trajectories(trained, "sampled", case.grid, path=path, **options)[0, :, -1].astype(float)

    expected = ends(case.trained, "reference")
    assert distance(ends(case.trained, "fast"), expected) <= STANDARD_ERRORS
    if case.planted:
        assert distance(ends(replace(case.trained, **case.planted), "fast"), expected) > STANDARD_ERRORS


NOT_COUNTED = {
    "normal rewards, each clipped": variant(bandit=gaussian(), estimator=Clipped(0.05)),
    "normal rewards in order": variant("median", gaussian()),
    "tokens": variant(bandit=TOKENS, estimator=Clipped(0.05)),
    "other groups": variant("batch_std", prompts=3),
    "another law draws": variant(sampler=Temperature(0.6)),
}


def test_what_counts_do_not_say_is_left_to_the_reference_path():
    """Normal rewards are served where mean and variance of a group decide, not where a rule sees each."""
    for name, case in NOT_COUNTED.items():
        assert "counts" in fast.unsupported_reason(case.trained, "sampled"), name
    assert all(fast.unsupported_reason(case.trained, "sampled") is None for case in VARIANTS.values())


def test_every_variant_that_is_served_is_compared():
    """A new advantage, estimator, staleness model, KL estimator or bandit that is served has to stand in the table."""
    registries = {
        "advantage": ADVANTAGES,
        "estimator": ESTIMATORS,
        "staleness": STALENESS,
        "kl_estimator": KL_ESTIMATORS,
    }
    for part, registry in (registries | {"bandit": BANDITS}).items():
        built = {name: registry[name]() for name in own(registry)}
        served = {
            type(one)
            for one in built.values()
            if fast.unsupported_reason(replace(variant().trained, **{part: one}), "sampled") is None
        }
        assert served <= {type(getattr(case.trained, part)) for case in VARIANTS.values()}, part


def test_generators_agree():
    """The cipher against the reference path, 2^16 seeds, groups of 16 (the dither is gathered from spare bits)."""
    case = variant(bandit=k_arm((0.9, 0.5, 0.4, 0.1)), group_size=16)
    options = {"steps": STEPS, "seeds": 2**16, "seed": 3}
    one, other = (
        trajectories(case.trained, "sampled", case.grid, **how, **options)[0, :, -1]
        for how in ({"rng": "threefry"}, {"path": "reference"})
    )
    assert distance(one, other) <= STANDARD_ERRORS


def test_layouts_give_the_same_runs():
    """Few seeds share a chunk, many fill chunks one after the other, single runs are kept whole: the same lanes."""
    trained, grid = variant(bandit=k_arm((0.9, 0.5, 0.1))).trained, variant().grid
    options = {"steps": 30, "seed": 2, "path": "fast"}
    many = run(trained, "sampled", grid, seeds=PART + 300, **options)
    few = run(trained, "sampled", grid, seeds=GROUP - 3, **options)
    np.testing.assert_array_equal(few.summary.tail_mean[0], many.summary.tail_mean[0, : GROUP - 3])
    whole = trajectories(trained, "sampled", grid, seeds=PART + 300, **options)[0]
    np.testing.assert_allclose(many.reward_mean[0], whole.mean(0), rtol=1e-6)
    np.testing.assert_allclose(many.reward_variance[0][1:], whole.var(0)[1:], rtol=1e-4)
    np.testing.assert_allclose(few.reward_variance[0][1:], whole[: GROUP - 3].var(0)[1:], rtol=1e-4)
    bare = run(trained, "sampled", grid, seeds=PART + 300, summary=False, **options)
    np.testing.assert_allclose(bare.reward_mean, many.reward_mean, rtol=1e-6)
    mean, variance = fast.ensemble(trained, "sampled", grid, steps=30, seeds=PART + 300)(2)
    np.testing.assert_allclose(mean, many.reward_mean[0], rtol=1e-6)
    np.testing.assert_allclose(variance[1:], many.reward_variance[0][1:], rtol=1e-4)


def test_without_the_one_kernel_the_runs_are_the_same_up_to_rounding():
    """The switch that turns the undocumented attribute and options off: the same random numbers, the same program."""
    case, options = VARIANTS["two fixed arms"], {"steps": 20, "seeds": 300, "seed": 6}
    with_it = trajectories(case.trained, "sampled", case.grid, **options)
    with one_kernel_enabled(False):
        without = trajectories(case.trained, "sampled", case.grid, **options)
    other = trajectories(case.trained, "sampled", case.grid, **{**options, "seed": 7})
    same = np.abs(with_it - without).max(axis=-1)[0] < 1e-4
    assert same.mean() > 0.98  # a rounding error may move one draw across a threshold
    assert (np.abs(with_it - other).max(axis=-1)[0] < 1e-4).mean() < 0.1
