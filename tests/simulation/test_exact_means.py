"""The exact mean dynamics in their limits and closed forms, against each other and against what is drawn.

That they are sums over every batch: grpo/test_every_option.py.
"""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner, thinned

from bandit_lab.bandits import RewardLaw, k_arm, two_arm
from bandit_lab.bandits.tabular import TabularBandit
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, init, update
from bandit_lab.grpo.update import Hyper
from bandit_lab.simulation import drift_of, finite_group, mean_field, sampled
from bandit_lab.simulation.draw import draw_non_silent_group

BERNOULLI = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3))
GRADED = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3), kind="fixed")
KINDS = {"bernoulli": BERNOULLI, "graded": GRADED}
THETA, BEHAVIOUR = jnp.array([0.7, -0.2, 0.1]), jnp.array([-0.3, 0.5, 0.2])
KEY = jax.random.key(0)
SUMMED = [name for name in ESTIMATORS if ESTIMATORS[name].of_group is None]


@pytest.mark.parametrize(
    ("advantage", "estimator"), [*((name, "clipped") for name in ADVANTAGES), *(("grpo", name) for name in SUMMED)]
)
def test_large_groups_approach_the_mean_field_with_order_one(advantage, estimator):
    """The distance falls as 1/G; without a baseline there is none. That of a median is the chance that a group has its
    median on the other side, exp(-2 G (J - 1/2)^2): fast at J = 0.74, which is looked at for it."""
    sizes, errors = np.array([32, 64, 128]), []
    theta, behaviour = THETA, jnp.array([2.5, 0.0, 0.0]) if advantage == "median" else BEHAVIOUR
    for size in sizes:
        trained = learner(advantage, BERNOULLI, estimator=ESTIMATORS[estimator](), group_size=int(size))
        gap = drift_of(trained, "finite_group")(theta, behaviour, 0.5)
        gap = gap - drift_of(trained, "mean_field")(theta, behaviour, 0.5)
        errors.append(float(jnp.max(jnp.abs(gap))))
    if max(errors) > 1e-12:
        order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
        assert order > 1.5 if advantage == "median" else order == pytest.approx(1, abs=0.05)
    else:
        assert advantage in ("none", "rloo", "sign")


def test_mean_field_of_two_fixed_arms_is_the_textbook_gradient():
    """dr_grpo: p (1-p); grpo: sqrt(p (1-p)); per logit, for rewards 1 and 0 and no KL."""
    theta = jnp.array([0.4, -0.5])
    p = float(jax.nn.sigmoid(0.9))
    for name, expected in (("dr_grpo", p * (1 - p)), ("grpo", np.sqrt(p * (1 - p)))):
        gradient = drift_of(learner(name, two_arm((1.0, 0.0))), "mean_field")(theta, theta, 0.0)
        np.testing.assert_allclose(gradient, [expected, -expected], rtol=1e-13)


def test_dropping_silent_groups_divides_the_mean_by_their_complement():
    """Two arms: the reward part is that of GRPO over 1 - p^G - (1 - p)^G, also where that is 1e-10."""
    arms = two_arm((1.0, 0.0))
    for gap, size in ((0.3, 2), (2.0, 8), (24.0, 8)):
        theta = jnp.array([gap / 2, -gap / 2])
        parts = {a: finite_group(learner(a, arms, group_size=size)) for a in ("grpo", "dapo")}
        value = {a: f(KEY, 0.0, theta, theta).value for a, f in parts.items()}
        q = 1 / (1 + np.exp(gap))
        alive = -np.expm1(size * np.log1p(-q)) - q**size
        np.testing.assert_allclose(value["dapo"] * alive, value["grpo"], rtol=1e-12)
    # At the vertex one wrong action is left in a group that is not silent: gradient = its std = sqrt(G - 1)/G.
    assert float(value["dapo"][0]) == pytest.approx(np.sqrt(7) / 8, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "advantage", "estimator"), thinned(KINDS, ["grpo", "dapo"], ["ratio", "clipped", "clip_higher"])
)
def test_sampled_mean_is_the_exact_mean(kind, advantage, estimator):
    """n = 40,000 groups of 4, key 3, |z| <= 5 on 3 coordinates: false alarm below 2e-6 each.

    Planted: silent groups kept (or dropped) against the rule, and for clips the unclipped ratio.
    """
    bandit = KINDS[kind]
    trained = learner(advantage, bandit, estimator=ESTIMATORS[estimator](), group_size=4, kl_estimator="k3")
    draw = jax.vmap(lambda k: sampled(trained)(k, 0.4, THETA, BEHAVIOUR).value)
    g = np.asarray(jax.jit(draw)(jax.random.split(jax.random.key(3), 40_000)))
    error = g.std(0) / np.sqrt(len(g))

    def z_of(advantage, estimator):
        other = learner(advantage, bandit, estimator=ESTIMATORS[estimator](), group_size=4, kl_estimator="k3")
        return np.max(np.abs(g.mean(0) - drift_of(other, "finite_group")(THETA, BEHAVIOUR, 0.4)) / error)

    assert z_of(advantage, estimator) <= 5
    assert z_of("dapo" if advantage == "grpo" else "grpo", estimator) > 5
    if estimator != "ratio":
        assert z_of(advantage, "ratio") > 5


@pytest.mark.parametrize("estimator", ["frozen", "clipped"])
def test_along_a_run_updates_are_a_martingale_around_the_exact_mean(estimator):
    """Mean over seeds of (update - its exact mean given the state), at every one of 60 steps.

    n = 8,192 seeds, seed 7, |z| <= 5 on 180 numbers: false alarm below 1.1e-4. Policies one step too old are caught.
    """
    trained = learner("grpo", BERNOULLI, estimator=ESTIMATORS[estimator](), group_size=4)
    hyper = Hyper(jnp.array(0.3), jnp.array(0.5), jnp.int32(5), jnp.array(0.5))
    exact, draw = drift_of(trained, "finite_group"), sampled(trained)

    def one(key):
        def step(carry, _):
            state, (theta, behaviour) = carry
            new, info = update(trained, draw, hyper, key, state)
            gap = info.gradient - exact(info.theta, info.behaviour, hyper.kl_weight)
            wrong = info.gradient - exact(theta, behaviour, hyper.kl_weight)
            return (new, (info.theta, info.behaviour)), (gap, wrong)

        theta = trained.bandit.initial_parameters
        return jax.lax.scan(step, (init(trained, hyper, theta), (theta, theta)), length=60)[1]

    gap, wrong = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), 8192))
    z = gap.mean(0) / (gap.std(0) / np.sqrt(8192))
    assert np.max(np.abs(z)) <= 5
    assert np.max(np.abs(wrong.mean(0) / (wrong.std(0) / np.sqrt(8192)))) > 5


def test_identities_of_a_single_group():
    """Per realised group: the frozen gradient does not see theta, and two fixed arms give the group's std."""
    old, theta = jnp.array([0.2, -0.4]), jnp.array([1.0, 0.3])
    arms = two_arm((1.0, 0.0))
    results = {}
    for name in ("frozen", "uncorrected"):
        trained = learner("grpo", arms, estimator=ESTIMATORS[name](), group_size=16)
        results[name] = sampled(trained)(KEY, 0.0, theta, old)
    np.testing.assert_allclose(results["frozen"].value, results["uncorrected"].value, atol=1e-15)
    dr = sampled(learner("dr_grpo", arms, group_size=16))(KEY, 0.0, theta, old).value[0]
    # dr_grpo gives the group's variance s^2 = k (G - k)/G^2 and grpo its std s: the same group, drawn with the same key
    np.testing.assert_allclose(results["frozen"].value[0] ** 2, dr, atol=1e-15)


def test_silent_groups_are_counted_exactly():
    """n = 200,000 groups of 3, seed 9, |z| <= 5: false alarm below 1e-6; p^G alone (one of two ends) is caught."""
    trained = learner("grpo", BERNOULLI, group_size=3)
    theta = THETA
    draw = jax.jit(jax.vmap(lambda k: sampled(trained)(k, 0.0, theta, theta).silent))
    share = float(draw(jax.random.split(jax.random.key(9), 200_000)).mean())
    exact, dropped = (
        float(finite_group(one)(KEY, 0.0, theta, theta).silent)
        for one in (trained, learner("dapo", BERNOULLI, group_size=3))
    )
    error = np.sqrt(exact * (1 - exact) / 200_000)
    win = float(jax.nn.softmax(theta) @ BERNOULLI.law.means[0])
    assert abs(share - exact) <= 5 * error
    assert exact == dropped == pytest.approx(win**3 + (1 - win) ** 3, rel=1e-13)
    assert abs(share - win**3) > 5 * error
    assert float(mean_field(trained)(KEY, 0.0, theta, theta).silent) == 0


def test_conditional_draw_has_the_law_of_redrawing():
    """Groups of 3 over 2 contexts, n = 200,000, key 4: every outcome's share within 5 standard errors (128 outcomes:
    false alarm below 1e-4). Planted: contexts drawn uniformly instead of by their chance of a group that is not silent.
    """
    law = RewardLaw(jnp.array([0.0, 1.0]), jnp.array([[[0.3, 0.7], [0.9, 0.1]], [[0.05, 0.95], [0.2, 0.8]]]))
    policy, size, draws = jnp.array([[0.4, 0.6], [0.7, 0.3]]), 3, 200_000
    bandit = TabularBandit(law, jnp.zeros(2), jnp.log(policy))
    group = jax.jit(jax.vmap(lambda k: draw_non_silent_group(bandit, k, policy, size)))(
        jax.random.split(jax.random.key(4), draws)
    )
    code = np.asarray(group.context)
    for i in range(size):
        code = code * 4 + np.asarray(group.arms[:, i]) * 2 + np.asarray(group.rewards[:, i], int)
    shares = np.bincount(code, minlength=128) / draws
    joint = np.asarray(policy)[:, :, None] * np.asarray(law.probabilities)
    chance = np.zeros(128)
    for x, *cells in product(range(2), *[range(4)] * size):
        rewards = [c % 2 for c in cells]
        index = ((x * 4 + cells[0]) * 4 + cells[1]) * 4 + cells[2]
        chance[index] = 0 if len(set(rewards)) == 1 else np.prod([joint[x, c // 2, c % 2] for c in cells])
    uniform_contexts = (chance.reshape(2, 64) / chance.reshape(2, 64).sum(1, keepdims=True) / 2).ravel()
    chance = chance / chance.sum()
    error = np.sqrt(chance * (1 - chance) / draws)
    assert np.all(np.abs(shares - chance) <= 5 * error)
    assert np.any(np.abs(shares - uniform_contexts) > 5 * error)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conditional_draw_close_to_and_at_a_vertex(dtype):
    """A wrong action of chance 1e-5..1e-12 is still drawn into every group of 8 once; at chance 0 nothing is NaN."""
    arms = jax.tree.map(lambda x: jnp.asarray(x, dtype), two_arm((1.0, 0.0)))
    keys = jax.random.split(jax.random.key(8), 500)
    draw = jax.jit(jax.vmap(lambda k, p: draw_non_silent_group(arms, k, p, 8), (0, None)))
    for wrong in (1e-5, 1e-12):
        policy = jnp.array([[1 - wrong, wrong]], dtype)
        group = draw(keys, policy)
        assert np.all(np.sum(np.asarray(group.rewards), axis=1) == 7)
        places = np.bincount(np.argmin(np.asarray(group.rewards), axis=1), minlength=8)
        # 500 draws over 8 equally likely places, |z| <= 5
        assert np.all(np.abs(places - 500 / 8) <= 5 * np.sqrt(500 / 8))
    silent = jax.jit(sampled(learner("dapo", arms, group_size=8)))
    theta = jnp.array([400.0, -400.0], dtype)
    gradient = silent(KEY, jnp.zeros((), dtype), theta, theta)
    assert np.all(np.asarray(gradient.value) == 0)
    assert float(gradient.silent) == 1


def test_too_many_groups_to_enumerate_is_said():
    trained = learner("grpo", k_arm((0.9, 0.7, 0.5, 0.3, 0.1), kind="fixed"), group_size=64)
    with pytest.raises(ValueError, match=r"group_size: expected at most 20000 ways .* got '766480 ways"):
        finite_group(trained)
