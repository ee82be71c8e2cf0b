"""The exact mean dynamics against brute force, against each other and against sampling."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner, nightly_but, thinned

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, Learner, drawn_advantages, init, update
from bandit_lab.grpo.update import Hyper
from bandit_lab.simulation import drift_of, finite_group, mean_field, sampled

BERNOULLI = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3))
FIXED = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3), kind="fixed")
KEY = jax.random.key(0)


def brute_force(trained: Learner, theta, behaviour, kl_weight) -> np.ndarray:
    """Expected gradient by listing every (action, reward) tuple of a group: written without the library's pieces."""
    bandit, size = trained.bandit, trained.group_size

    def softmax(x):
        return np.exp(x - np.max(x)) / np.exp(x - np.max(x)).sum()

    old, new = softmax(np.asarray(behaviour)), softmax(np.asarray(theta))
    values, law = np.asarray(bandit.law.values), np.asarray(bandit.law.probabilities)[0]
    cells = [(k, u) for k in range(len(old)) for u in range(len(values)) if law[k, u] > 0]
    at_old = type(trained.estimator).__name__ == "Frozen"
    weighted = type(trained.estimator).__name__ == "Ratio"
    base = old if at_old else new
    total = np.zeros(len(old))
    for group in product(cells, repeat=size):
        chance = np.prod([old[k] * law[k, u] for k, u in group])
        advantage = np.asarray(drawn_advantages(trained.advantage, jnp.array([[values[u] for _, u in group]]))[0])
        for (k, _), a in zip(group, advantage, strict=True):
            score = np.eye(len(old))[k] - base
            total += chance * a * (new[k] / old[k] if weighted else 1) * score / size
    reference = np.asarray(bandit.reference_log_policy)[0]
    gap = np.log(base) - reference
    return total - kl_weight * base * (gap - base @ gap)


SIZES = {"bernoulli": (BERNOULLI, 4), "fixed": (FIXED, 3)}


@pytest.mark.parametrize(
    ("advantage", "estimator", "arms"),
    thinned(["grpo", "dr_grpo", "rloo"], ["frozen", "uncorrected", "ratio"], SIZES),
)
def test_finite_group_equals_enumeration_of_every_group(advantage, estimator, arms):
    bandit, size = SIZES[arms]
    trained = learner(advantage, bandit, estimator=ESTIMATORS[estimator](), group_size=size)
    theta, behaviour = jnp.array([0.7, -0.2, 0.1]), jnp.array([-0.3, 0.5, 0.2])
    exact = drift_of(trained, "finite_group")(theta, behaviour, 0.6)
    np.testing.assert_allclose(exact, brute_force(trained, theta, behaviour, 0.6), atol=1e-14)


SUMMED = [name for name in ESTIMATORS if not hasattr(ESTIMATORS[name](), "of_group")]


@pytest.mark.parametrize(
    ("advantage", "estimator"), [*((name, "clipped") for name in ADVANTAGES), *(("grpo", name) for name in SUMMED)]
)
def test_large_groups_approach_the_mean_field_with_order_one(advantage, estimator):
    """The distance falls as 1/G; without a baseline there is none. That of a median is the chance that a group has its
    median on the other side, exp(-2 G (J - 1/2)^2): fast at J = 0.74, which is looked at for it."""
    sizes, errors = np.array([32, 64, 128]), []
    theta, behaviour = jnp.array([0.7, -0.2, 0.1]), jnp.array([-0.3, 0.5, 0.2])
    if advantage == "median":
        behaviour = jnp.array([2.5, 0.0, 0.0])
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


POINTS = jax.random.normal(jax.random.key(11), (20, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("advantage", nightly_but(["grpo"], ["grpo", "dr_grpo", "rloo"]))
def test_sampled_update_has_the_exact_mean(advantage):
    """n = 100,000 groups of 8 at 20 (theta, theta_old), seed 5, |z| <= 5 on 60 coordinates: false alarm < 4e-5.

    The planted defect, a std that divides by G - 1 (or a mean that leaves one out), is caught.
    """
    trained = learner(advantage, BERNOULLI, estimator=ESTIMATORS["ratio"](), group_size=8)
    draw, exact = sampled(trained), drift_of(trained, "finite_group")

    def moments(key, theta, behaviour):
        g = jax.vmap(lambda k: draw(k, 0.5, theta, behaviour).value)(jax.random.split(key, 100_000))
        return g.mean(0), g.std(0)

    z, defect = [], []
    wrong = {"grpo": np.sqrt(7 / 8), "dr_grpo": 8 / 7, "rloo": 7 / 8}[advantage]
    run = jax.jit(moments)
    for key, (theta, behaviour) in zip(jax.random.split(jax.random.key(5), 20), POINTS, strict=True):
        mean, std = run(key, theta, behaviour)
        error = std / np.sqrt(100_000)
        penalty = exact(theta, behaviour, 0.5) - exact(theta, behaviour, 0.0)
        z.append((mean - exact(theta, behaviour, 0.5)) / error)
        defect.append((mean - (wrong * exact(theta, behaviour, 0.0) + penalty)) / error)
    assert np.max(np.abs(z)) <= 5
    assert np.max(np.abs(defect)) > 5


@pytest.mark.parametrize("estimator", nightly_but(["frozen", "clipped", "gspo"], SUMMED))
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


@pytest.mark.parametrize("key", range(5))
def test_identities_of_a_single_group(key):
    """Per realised group: the frozen gradient does not see theta, and two fixed arms give the group's std."""
    old, theta = jnp.array([0.2, -0.4]), jnp.array([1.0, 0.3])
    arms = two_arm((1.0, 0.0))
    results = {}
    for name in ("frozen", "uncorrected"):
        trained = learner("grpo", arms, estimator=ESTIMATORS[name](), group_size=16)
        results[name] = sampled(trained)(jax.random.key(key), 0.0, theta, old)
    np.testing.assert_allclose(results["frozen"].value, results["uncorrected"].value, atol=1e-15)
    dr = sampled(learner("dr_grpo", arms, group_size=16))(jax.random.key(key), 0.0, theta, old).value[0]
    # dr_grpo gives the group's variance s^2 = k (G - k)/G^2 and grpo its std s: the same group, drawn with the same key
    np.testing.assert_allclose(results["frozen"].value[0] ** 2, dr, atol=1e-15)


def test_silent_groups_are_counted_exactly():
    """n = 200,000 groups of 3, seed 9, |z| <= 5: false alarm below 1e-6; p^G alone (one of two ends) is caught."""
    trained = learner("grpo", BERNOULLI, group_size=3)
    theta = jnp.array([0.7, -0.2, 0.1])
    draw = jax.jit(jax.vmap(lambda k: sampled(trained)(k, 0.0, theta, theta).silent))
    share = float(draw(jax.random.split(jax.random.key(9), 200_000)).mean())
    exact = float(finite_group(trained)(KEY, 0.0, theta, theta).silent)
    error = np.sqrt(exact * (1 - exact) / 200_000)
    win = float(jax.nn.softmax(theta) @ BERNOULLI.law.means[0])
    assert abs(share - exact) <= 5 * error
    assert exact == pytest.approx(win**3 + (1 - win) ** 3, rel=1e-13)
    assert abs(share - win**3) > 5 * error
    assert float(mean_field(trained)(KEY, 0.0, theta, theta).silent) == 0


def test_prompts_average_groups():
    """The variance of the gradient falls as 1/prompts: n = 20,000, seed 13, ratio 4 within 5 standard errors (2 %)."""
    theta = jnp.array([0.7, -0.2, 0.1])
    variances = []
    for prompts in (1, 4):
        trained = learner("grpo", BERNOULLI, group_size=4, prompts=prompts)
        draw = jax.jit(jax.vmap(lambda k, t=trained: sampled(t)(k, 0.0, theta, theta).value))
        g = draw(jax.random.split(jax.random.key(13), 20_000))
        variances.append(float(g.var(0).sum()))
    assert variances[0] / variances[1] == pytest.approx(4, rel=5 * 0.02)


def test_k3_kl_has_the_forward_kl_gradient_on_policy():
    trained = learner("dr_grpo", k_arm((0.5, 0.5, 0.5), reference_logits=(0.0, 0.4, -0.3)), kl_estimator="k3")
    theta = jnp.array([0.7, -0.2, 0.1])
    reference = jnp.exp(trained.bandit.reference_log_policy[0])
    np.testing.assert_allclose(
        drift_of(trained, "mean_field")(theta, theta, 1.0), reference - jax.nn.softmax(theta), atol=1e-15
    )


def test_too_many_groups_to_enumerate_is_said():
    trained = learner("grpo", k_arm((0.9, 0.7, 0.5, 0.3, 0.1), kind="fixed"), group_size=64)
    with pytest.raises(ValueError, match=r"group_size: expected at most 20000 ways .* got '766480 ways"):
        finite_group(trained)
