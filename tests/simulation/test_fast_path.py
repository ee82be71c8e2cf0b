"""The fast path's sampled runs against the reference path, and against itself: layouts, what it serves and what not."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner, nightly_but, own

from bandit_lab.app.plugins import registries
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
    Optimizer,
    Ratio,
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
    """The README's bandit: two arms, one logit."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array
    sharpness: jax.Array

    def log_policy(self, theta):
        logit = self.sharpness * theta[0]
        return jax.nn.log_sigmoid(jnp.stack([logit, -logit]))[None]


def one_logit(rewards=(0.9, 0.2), sharpness=1.5):
    chances = jnp.array(rewards)
    law = RewardLaw(jnp.array([0.0, 1.0]), jnp.stack([1 - chances, chances], axis=-1)[None])
    return OneLogit(law, jnp.zeros(1), jnp.log(jnp.array([[0.4, 0.6]])), jnp.array(sharpness))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneNormalLogit(OneLogit):
    """The same with normal rewards."""

    normal_stds: jax.Array = None
    exact_law = False

    def sample_rewards(self, key, context, arms):
        noise = jax.random.normal(key, arms.shape, self.normal_stds.dtype)
        return self.law.means[context, arms] + self.normal_stds[context, arms] * noise


def one_normal_logit(rewards=(0.9, 0.2), std=0.4, sharpness=1.5):
    law = gaussian(rewards, (std, std)).law
    return OneNormalLogit(**{**vars(one_logit(sharpness=sharpness)), "law": law}, normal_stds=jnp.full((1, 2), std))


PROMPTS = contextual(3, 3, overlap=0.4, difficulty=0.5, high=0.9, low=0.2)
TABLES = contextual(
    2,
    3,
    rewards=[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    features=np.random.default_rng(0).standard_normal((2, 3, 4)).tolist(),
)
TOKENS = sequence(rewards=(0.9, 0.1, 0.2, 0.5, 0.1, 0.3, 0.7, 0.2))
STEPS, SEEDS, STANDARD_ERRORS = 20, 2**20, 5
NOISY = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3))
FIXED = k_arm((0.2, 0.5, 0.5, 0.8), kind="fixed")
TWO_FIXED = two_arm((0.9, 0.1), kind="fixed")


def variant(advantage="grpo", bandit=NOISY, staleness="refresh", interval=1, **options):
    options = {"group_size": 4, "horizon": 8, **options}
    return learner(advantage, bandit, staleness, **options), cells(0.1, 0.8, interval, 0.3)


VARIANTS = {
    "grpo": variant(),
    "dr_grpo": variant("dr_grpo"),
    "rloo": variant("rloo"),
    "dapo": variant("dapo"),
    "fixed rewards": variant(bandit=FIXED),
    "two fixed arms": variant(bandit=two_arm((0.9, 0.1), kind="fixed"), group_size=5),
    "two noisy arms": variant(bandit=two_arm((0.9, 0.3)), interval=3),
    "proxy": variant(bandit=proxy()),
    "uncorrected": variant(estimator=Uncorrected(), interval=4),
    "ratio": variant(estimator=Ratio(), interval=4),
    "clipped": variant(estimator=Clipped(0.05), interval=4),
    "clip_higher": variant(estimator=ClipHigher(0.03, 0.06), bandit=FIXED, interval=4),
    "cispo": variant(estimator=ESTIMATORS["cispo"](0.05, 0.05), bandit=FIXED, interval=4),
    "gspo": variant(estimator=ESTIMATORS["gspo"](0.03, 0.05), interval=4),
    "tpo": variant(estimator=ESTIMATORS["tpo"](0.7), interval=4),
    "tpo, fixed rewards": variant(estimator=ESTIMATORS["tpo"](0.7), bandit=FIXED),
    "batch_std": variant("batch_std"),
    "tempered": variant("tempered"),
    "none": variant("none"),
    "sign": variant("sign"),
    "median": variant("median", bandit=FIXED),
    "median, noisy": variant("median", group_size=5),
    "none, two fixed arms": variant("none", bandit=TWO_FIXED),
    "k3, two fixed arms": variant(bandit=TWO_FIXED, kl_estimator="k3", group_size=5),
    "clipped, two fixed arms": variant(bandit=TWO_FIXED, estimator=Clipped(0.05), interval=4),
    "tpo, two fixed arms": variant(bandit=TWO_FIXED, estimator=ESTIMATORS["tpo"](0.7), interval=4),
    "dapo, two fixed arms": variant("dapo", bandit=TWO_FIXED, estimator=Ratio(), interval=4),
    "dapo, two noisy arms": variant("dapo", bandit=two_arm((0.9, 0.3))),
    "lag": variant(staleness="lag", interval=3),
    "pipeline": variant(staleness="pipeline", interval=3),
    "drawn ages": variant(staleness=ages(draws=1), interval=3),
    "drawn ages, two arms": variant(bandit=two_arm((0.9, 0.3)), staleness=ages(draws=1), interval=3),
    "mixed ages": variant(staleness="ages", interval=2, horizon=2),
    "batch reuse": variant(batch_reuse=True, interval=4),
    "sampled KL": variant(kl_estimator="k3"),
    "entropy bonus": variant(entropy_weight=0.2),
    "entropy bonus, two arms": variant(bandit=two_arm((0.9, 0.3)), entropy_weight=0.2),
    "entropy bonus, sampled KL": variant(kl_estimator="k3", entropy_weight=0.2),
    "three prompts": variant(prompts=3, group_size=3),
    "adam": variant(optimizer=Optimizer("adam")),
    "adam, two arms": variant(bandit=two_arm(), optimizer=Optimizer("adam")),
    "adamw, two arms": variant(bandit=two_arm(), optimizer=Optimizer("adamw")),
    "adamw": variant(bandit=two_arm(), optimizer=Optimizer("adamw", (("weight_decay", 0.1),))),
}
ANY_POLICY = {
    "one logit": variant(bandit=one_logit()),
    "one logit, clipped, k3": variant(bandit=one_logit(), interval=3, estimator=Clipped(0.05), kl_estimator="k3"),
    "one logit, three prompts, entropy": variant(
        bandit=one_logit(), prompts=3, staleness="lag", interval=2, entropy_weight=0.2
    ),
    "one logit, tpo": variant(bandit=one_logit(), interval=3, estimator=ESTIMATORS["tpo"](0.7)),
    "contextual": variant(bandit=PROMPTS),
    "contextual, ratio, k3": variant(
        bandit=PROMPTS, prompts=2, interval=3, estimator=Ratio(), kl_estimator="k3", entropy_weight=0.1
    ),
    "contextual, k3": variant(bandit=PROMPTS, prompts=2, kl_estimator="k3"),
    "contextual, dapo": variant("dapo", PROMPTS),
    "contextual, median": variant("median", TABLES, interval=3, estimator=Uncorrected()),
    "contextual, tpo": variant(bandit=TABLES, interval=3, estimator=ESTIMATORS["tpo"](0.7)),
    "sequence": variant(bandit=TOKENS),
    "sequence, adam": variant(bandit=TOKENS, optimizer=Optimizer("adam"), kl_estimator="k3"),
    "sequence, dapo": variant("dapo", TOKENS, staleness=ages(draws=1), interval=3, group_size=5),
    "neural": variant(bandit=neural(width=4)),
    "gaussian": variant(bandit=gaussian()),
    "gaussian, three stds, k3": variant(
        bandit=gaussian((1.0, 0.4, -0.3), (0.3, 0.8, 0.5)), group_size=7, prompts=2, kl_estimator="k3"
    ),
    "gaussian, two arms, rloo": variant("rloo", gaussian((1.0, 0.4), (0.3, 0.8)), staleness="lag", interval=2),
    "one logit, normal": variant(bandit=one_normal_logit()),
}
"""Policies with parameters of their own, and normal rewards."""
VARIANTS |= ANY_POLICY


class UpperMedian(Median):
    """The upper one of the two in the middle."""

    def advantages(self, values, shares, size):
        reached = jnp.cumsum(shares, axis=0)
        return values - jnp.min(jnp.where(reached > 0.5 + 1e-6, values, jnp.inf), axis=0)


def planted(name):
    """The variant with a small mistake on the fast path."""
    trained, grid = VARIANTS[name]
    return {
        "grpo": (trained, grid._replace(kl_weight=grid.kl_weight * 1.01)),
        "median": (replace(trained, advantage=UpperMedian()), grid),
        "sign": (replace(trained, advantage=ADVANTAGES["sign"](0.0)), grid),
        "tpo": (replace(trained, estimator=ESTIMATORS["tpo"](0.71)), grid),
        "k3, two fixed arms": (replace(trained, kl_estimator="exact"), grid),
        "tpo, two fixed arms": (replace(trained, estimator=ESTIMATORS["tpo"](0.72)), grid),
        "clipped, two fixed arms": (replace(trained, estimator=Ratio()), grid),
        "entropy bonus, two arms": (replace(trained, entropy_weight=0.21), grid),
        "one logit": (replace(trained, bandit=one_logit(sharpness=1.53)), grid),
        "contextual": (
            replace(trained, bandit=contextual(3, 3, overlap=0.45, difficulty=0.5, high=0.9, low=0.2)),
            grid,
        ),
        "contextual, k3": (replace(trained, kl_estimator="exact"), grid),
        "gaussian": (replace(trained, bandit=gaussian(stds=(0.55, 0.55, 0.55))), grid),
        "gaussian, three stds, k3": (
            replace(trained, bandit=gaussian((1.0, 0.4, -0.3), (0.3, 0.5, 0.8))),
            grid,
        ),
        "gaussian, two arms, rloo": (replace(trained, bandit=gaussian((1.0, 0.4), (0.3, 0.9))), grid),
        "one logit, normal": (replace(trained, bandit=one_normal_logit(std=0.45)), grid),
    }.get(name)


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


_SAME_RULES = (
    "adam",
    "adam, two arms",
    "adamw",
    "adamw, two arms",
    "three prompts",
    "proxy",
    "batch reuse",
    "sampled KL",
    "entropy bonus",
    "entropy bonus, two arms",
    "entropy bonus, sampled KL",
)
_SAME_ARMS = ("two noisy arms", "drawn ages, two arms", "tpo, fixed rewards", "dapo, two noisy arms")
FEWER = dict.fromkeys(
    (*_SAME_RULES, *_SAME_ARMS, *(n for n in VARIANTS if "two fixed arms" in n), "median, noisy"), 2**18
)
FEWER |= dict.fromkeys(ANY_POLICY, 2**17)
"""Seeds where neither advantage, estimator nor staleness model is what is new."""


def rewards_at_the_end(trained, grid, seed, path, seeds=SEEDS):
    """[seeds] expected rewards after STEPS."""
    return trajectories(trained, "sampled", grid, steps=STEPS, seeds=seeds, seed=seed, path=path)[0, :, -1]


REPRESENTATIVES = {
    "bandit": "two noisy arms",
    "advantage": "median, noisy",
    "estimator": "clipped, two fixed arms",
    "staleness": "drawn ages, two arms",
    "kl_estimator": "k3, two fixed arms",
    "optimizer": "adam, two arms",
}
"""One variant for each part of a learner that can be exchanged, of those with fewer seeds; the others are nightly."""


REPRESENTATIVE_POLICIES = ("one logit", "contextual", "gaussian")


def test_representatives_differ_from_the_default_in_their_part():
    plain = VARIANTS["grpo"][0]
    for part, name in REPRESENTATIVES.items():
        assert repr(getattr(VARIANTS[name][0], part)) != repr(getattr(plain, part)), part
        assert name in FEWER
    exchanged = {kind for kind in registries() if hasattr(plain, kind)}
    assert set(REPRESENTATIVES) == exchanged - {"sampler", "correction"}  # another law draws: not served


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but([*REPRESENTATIVES.values(), *REPRESENTATIVE_POLICIES], VARIANTS))
def test_both_paths_have_the_same_distribution(name):
    """Mean, variance, third moment at step 20, 2^20 seeds (or `FEWER`), seed 1: within 5 errors (false alarm 2e-6).

    Planted defects are seen, see `planted`; 1 % more KL weight for the default setting.
    """
    trained, grid = VARIANTS[name]
    seeds = FEWER.get(name, SEEDS)
    expected = rewards_at_the_end(trained, grid, 1, "reference", seeds)
    assert distance(rewards_at_the_end(trained, grid, 1, "fast", seeds), expected) <= STANDARD_ERRORS
    if planted(name) is not None:
        assert distance(rewards_at_the_end(*planted(name), 1, "fast", seeds), expected) > STANDARD_ERRORS


NOT_COUNTED = {
    "normal rewards, each clipped": variant(bandit=gaussian(), estimator=Clipped(0.05)),
    "normal rewards in order": variant("median", gaussian()),
    "tokens": variant(bandit=TOKENS, estimator=Clipped(0.05)),
    "other groups": variant("batch_std", prompts=3),
    "another law draws": variant(sampler=Temperature(0.6)),
}


@pytest.mark.parametrize("name", NOT_COUNTED)
def test_what_counts_do_not_say_is_left_to_the_reference_path(name):
    """Normal rewards are served where mean and variance of a group decide, not where a rule sees each."""
    assert "counts" in fast.unsupported_reason(NOT_COUNTED[name][0], "sampled")
    assert all(fast.unsupported_reason(trained, "sampled") is None for trained, _ in VARIANTS.values())


def test_every_variant_that_is_served_is_compared():
    """A new advantage, estimator, staleness model or KL estimator that is served has to stand among the variants."""
    plain = VARIANTS["grpo"][0]
    registries = (ADVANTAGES, ESTIMATORS, STALENESS, KL_ESTIMATORS)
    for part, registry in zip(("advantage", "estimator", "staleness", "kl_estimator"), registries, strict=True):
        served = {
            n
            for n in own(registry)
            if fast.unsupported_reason(replace(plain, **{part: registry[n]()}), "sampled") is None
        }
        compared = {type(getattr(trained, part)) for trained, _ in VARIANTS.values()}
        assert {n for n in served if type(registry[n]()) not in compared} == set()
    compared = {type(trained.bandit) for trained, _ in VARIANTS.values()}
    assert {name for name in BANDITS if type(BANDITS[name]()) not in compared} == set()


@pytest.mark.parametrize("rng", ["hash", "threefry"])
def test_generators_agree(rng):
    """Both generators against the reference path, 2^16 seeds, groups of 16 (the dither is gathered from spare bits)."""
    trained, grid = variant(bandit=k_arm((0.9, 0.5, 0.4, 0.1)), group_size=16)
    options = {"steps": STEPS, "seeds": 2**16, "seed": 3}
    expected = trajectories(trained, "sampled", grid, path="reference", **options)[0, :, -1]
    assert distance(trajectories(trained, "sampled", grid, rng=rng, **options)[0, :, -1], expected) <= STANDARD_ERRORS


@dataclass(frozen=True)
class Rank:
    """A user's rule: the share of the group with a smaller reward less that with a larger one."""

    smallest_group = 2
    linear = False
    centred = True
    drops_silent = False

    def advantages(self, values, shares, size):
        return jnp.sum(jnp.sign(values[:, None] - values) * shares, axis=1)


OF_A_USER = {"noisy": NOISY, "fixed": FIXED, "two": TWO_FIXED}


@pytest.mark.parametrize("arms", nightly_but(["fixed"], OF_A_USER))
def test_a_rule_of_a_user_is_served(arms):
    """2^16 seeds within 5 errors. Planted: GRPO's rule."""
    trained, grid = variant(bandit=OF_A_USER[arms])
    trained = replace(trained, advantage=Rank())
    assert fast.unsupported_reason(trained, "sampled") is None
    assert fast.unsupported_reason(trained, "mean_field") is None
    expected = rewards_at_the_end(trained, grid, 1, "reference", 2**16)
    assert distance(rewards_at_the_end(trained, grid, 1, "fast", 2**16), expected) <= STANDARD_ERRORS
    other = replace(trained, advantage=GRPO())
    assert distance(rewards_at_the_end(other, grid, 1, "fast", 2**16), expected) > STANDARD_ERRORS


def test_layouts_give_the_same_runs():
    """Few seeds share a chunk, many fill chunks one after the other, single runs are kept whole: the same lanes."""
    trained, grid = variant(bandit=k_arm((0.9, 0.5, 0.1)))
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


@pytest.mark.parametrize("name", nightly_but(["two fixed arms"], ["grpo", "two fixed arms", "adam"]))
def test_without_the_one_kernel_the_runs_are_the_same_up_to_rounding(name):
    """The switch that turns the undocumented attribute and options off: the same random numbers, the same program."""
    trained, grid = VARIANTS[name]
    options = {"steps": 20, "seeds": 300, "seed": 6}
    with_it = trajectories(trained, "sampled", grid, **options)
    with one_kernel_enabled(False):
        without = trajectories(trained, "sampled", grid, **options)
    other = trajectories(trained, "sampled", grid, **{**options, "seed": 7})
    same = np.abs(with_it - without).max(axis=-1)[0] < 1e-4
    assert same.mean() > 0.98  # a rounding error may move one draw across a threshold
    assert (np.abs(with_it - other).max(axis=-1)[0] < 1e-4).mean() < 0.1


def test_epsilon_and_ddof_reach_the_fast_path():
    options = {"steps": 10, "seeds": 4096, "seed": 1}
    curves = []
    for advantage in (GRPO(), GRPO(ddof=1), GRPO(eps=0.5)):
        trained = variant()[0]
        trained = type(trained)(trained.bandit, advantage=advantage, group_size=4)
        pair = [run(trained, "sampled", cells(0.2), path=path, **options) for path in ("fast", "reference")]
        z = (pair[0].reward_mean - pair[1].reward_mean)[0, 1:]
        z /= np.sqrt((pair[0].reward_variance + pair[1].reward_variance)[0, 1:] / 4096)
        assert np.max(np.abs(z)) <= STANDARD_ERRORS
        curves.append(pair[0].reward_mean[0])
    assert curves[0][-1] > curves[1][-1] > curves[2][-1]
