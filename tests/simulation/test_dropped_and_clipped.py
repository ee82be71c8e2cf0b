"""Clipped weights, dropped silent groups and the proxy reward: exact means against enumeration and against sampling."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner, thinned

from bandit_lab.bandits import BANDITS, RewardLaw, expected_reward, k_arm, two_arm
from bandit_lab.bandits.tabular import TabularBandit
from bandit_lab.grpo import ESTIMATORS, ClipHigher, Clipped, drawn_advantages
from bandit_lab.measure import find_fixed_point, measure_stiffness
from bandit_lab.simulation import drift_of, finite_group, sampled
from bandit_lab.simulation.draw import draw_non_silent_group

BERNOULLI = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3))
GRADED = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3), kind="fixed")
KINDS = {"bernoulli": BERNOULLI, "graded": GRADED}
THETA, BEHAVIOUR = jnp.array([0.7, -0.2, 0.1]), jnp.array([-0.3, 0.5, 0.2])


def softmax(logits):
    shifted = np.exp(np.asarray(logits) - np.max(logits))
    return shifted / shifted.sum()


def clip_factor(ratio, advantage, low, high):
    """d/d ratio of min(ratio A, clip(ratio) A) times the ratio over A, by its definition."""
    clipped = min(max(ratio, 1 - low), 1 + high)
    takes_clip = clipped * advantage < ratio * advantage
    return ratio * (0.0 if takes_clip else 1.0)


def enumerate_groups(trained, theta, behaviour, kl_weight, low=None, high=None):
    """Mean gradient and silent probability by listing all groups; clipping and dropping written from their words."""
    bandit, size = trained.bandit, trained.group_size
    old, new = softmax(behaviour), softmax(theta)
    values, law = np.asarray(bandit.law.values), np.asarray(bandit.law.probabilities)[0]
    cells = [(k, u) for k in range(len(old)) for u in range(len(values)) if law[k, u] > 0]
    total, kept = np.zeros(len(old)), 0.0
    for group in product(cells, repeat=size):
        rewards = np.array([values[u] for _, u in group])
        if trained.advantage.drops_silent and np.all(rewards == rewards[0]):
            continue
        chance = np.prod([old[k] * law[k, u] for k, u in group])
        kept += chance
        found = np.asarray(drawn_advantages(trained.advantage, jnp.asarray(rewards)[None])[0])
        for (k, _), a in zip(group, found, strict=True):
            weight = 1.0 if low is None else clip_factor(new[k] / old[k], a, low, high)
            total += chance * a * weight * (np.eye(len(old))[k] - new) / size
    gap = np.log(new) - np.asarray(bandit.reference_log_policy)[0]
    return total / kept - kl_weight * new * (gap - new @ gap), 1 - kept


SIZES = {"bernoulli": (BERNOULLI, 4), "graded": (GRADED, 3)}
CLIPS = {
    "uncorrected": (ESTIMATORS["uncorrected"](), None, None),
    "clipped": (Clipped(0.15), 0.15, 0.15),
    "clip_higher": (ClipHigher(0.1, 0.6), 0.1, 0.6),
}


@pytest.mark.parametrize(("arms", "advantage", "clip"), thinned(SIZES, ["grpo", "dapo", "dr_grpo"], CLIPS))
def test_exact_mean_equals_enumeration(arms, advantage, clip):
    (bandit, size), (estimator, low, high) = SIZES[arms], CLIPS[clip]
    trained = learner(advantage, bandit, estimator=estimator, group_size=size)
    expected, dropped = enumerate_groups(trained, THETA, BEHAVIOUR, 0.6, low, high)
    found = finite_group(trained)(jax.random.key(0), 0.6, THETA, BEHAVIOUR)
    np.testing.assert_allclose(found.value, expected, atol=1e-14)
    if advantage == "dapo":
        assert float(found.silent) == pytest.approx(dropped, abs=1e-14)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.2, 0.28)])
def test_clip_counts_what_the_clipped_objective_lets_through(low, high):
    estimator = Clipped(low) if low == high else ClipHigher(low, high)
    for ratio in (0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 1.27, 1.29, 3.0):
        for advantage in (-1.3, 0.7):
            found = float(estimator.weight(jnp.array(ratio), jnp.array(advantage)))
            assert found == clip_factor(ratio, advantage, low, high)


def test_nothing_is_clipped_on_policy():
    on_policy = {
        name: drift_of(learner("grpo", BERNOULLI, estimator=ESTIMATORS[name](), group_size=5), "finite_group")
        for name in ("ratio", "clipped", "clip_higher")
    }
    for name in ("clipped", "clip_higher"):
        np.testing.assert_array_equal(on_policy[name](THETA, THETA, 0.3), on_policy["ratio"](THETA, THETA, 0.3))


def test_dropping_silent_groups_divides_the_mean_by_their_complement():
    """Two arms: the reward part is that of GRPO over 1 - p^G - (1 - p)^G, also where that is 1e-10."""
    arms = two_arm((1.0, 0.0))
    for gap, size in ((0.3, 2), (2.0, 8), (24.0, 8)):
        theta = jnp.array([gap / 2, -gap / 2])
        parts = {a: finite_group(learner(a, arms, group_size=size)) for a in ("grpo", "dapo")}
        value = {a: f(jax.random.key(0), 0.0, theta, theta).value for a, f in parts.items()}
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


def test_an_arm_with_one_reward_is_drawn_as_the_cell_that_it_is():
    """4,000 groups of 5 over 2 contexts, 3 arms and 4 values: the same whether or not the law is known to be certain.

    Planted: the values of two arms exchanged.
    """
    policy = jnp.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    values, places = jnp.array([0.1, 0.4, 0.6, 0.9]), np.array([[2, 0, 1], [3, 3, 0]])

    def drawn(places, certain):
        law = RewardLaw(values, jnp.eye(4)[places], certain=certain)
        bandit = TabularBandit(law, jnp.zeros(3), jnp.log(policy))
        draw = jax.jit(jax.vmap(lambda k: draw_non_silent_group(bandit, k, policy, 5)))
        return jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(6), 4_000)))

    found, expected, planted = drawn(places, True), drawn(places, False), drawn(places[:, [1, 0, 2]], True)
    assert np.all(np.ptp(found.rewards, axis=1) > 0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.any(planted.rewards != expected.rewards)


@pytest.mark.parametrize("kind", ["fixed", "bernoulli"])
def test_weights_of_a_conditional_draw_are_not_kept_for_every_place(kind):
    """64 arms, groups of 64, 512 runs as in a block of the reference path: the compiled program holds less than 1.5
    float32 for each place, cell (arm, or arm and reward) and run. Weights for every place took 2 of them."""
    bandit = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), k_arm(np.linspace(0.2, 0.8, 64).tolist(), kind=kind))
    lanes, size = 512, 64
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), lanes))

    def every(bandit, keys, policy):
        return jax.vmap(partial(draw_non_silent_group, bandit, size=size), -1, -1)(keys, policy)

    policy = jax.ShapeDtypeStruct((1, 64, lanes), jnp.float32)
    memory = jax.jit(every).lower(bandit, keys, policy).compile().memory_analysis()
    cells = 64 if kind == "fixed" else 128
    assert memory.temp_size_in_bytes < 1.5 * 4 * size * cells * lanes


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
    gradient = silent(jax.random.key(0), jnp.zeros((), dtype), theta, theta)
    assert np.all(np.asarray(gradient.value) == 0)
    assert float(gradient.silent) == 1


def test_dropped_groups_have_a_potential_for_one_context_and_exact_kl():
    trained = learner("dapo", BERNOULLI, group_size=4)
    point = find_fixed_point(trained, "finite_group", 1.0)
    report = measure_stiffness(trained, "finite_group", 1.0, point)
    assert report.hessian is not None
    np.testing.assert_allclose(report.hessian, report.jacobian, rtol=1e-9)
    k3 = learner("dapo", BERNOULLI, group_size=4, kl_estimator="k3")
    point = find_fixed_point(k3, "finite_group", 1.0)
    assert measure_stiffness(k3, "finite_group", 1.0, point).hessian is None


def test_a_proxy_is_trained_on_one_reward_and_reported_by_another():
    bandit = BANDITS["proxy"](rewards=(0.9, 0.6, 0.1), true_rewards=(0.2, 0.8, 0.1))
    plain = k_arm((0.9, 0.6, 0.1))
    theta = jnp.array([0.3, -0.1, 0.2])
    for dynamics in ("mean_field", "finite_group"):
        np.testing.assert_array_equal(
            drift_of(learner("grpo", bandit, group_size=4), dynamics)(theta, theta, 0.5),
            drift_of(learner("grpo", plain, group_size=4), dynamics)(theta, theta, 0.5),
        )
    assert float(expected_reward(bandit, theta)) == pytest.approx(softmax(theta) @ [0.2, 0.8, 0.1], rel=1e-14)
    # Trained without a leash on the proxy, the reported reward ends below where it began.
    point = find_fixed_point(learner("dr_grpo", bandit), "mean_field", 0.05)
    assert point.exists
    assert point.expected_reward < float(expected_reward(bandit, jnp.zeros(3)))
