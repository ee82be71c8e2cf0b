"""Mean-field runs of the fast path: those of the reference path to rounding, for every rule, and nothing is drawn."""

from dataclasses import dataclass
from itertools import cycle, product

import numpy as np
import pytest
from settings import cells, learner, nightly_but, thinned

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.gaussian import gaussian
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import ESTIMATORS, Clipped, Optimizer, Uncorrected, weighs_tokens
from bandit_lab.simulation import fast, run

ARMS = {
    "noisy": k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3)),
    "fixed": k_arm((0.2, 0.5, 0.5, 0.8), kind="fixed"),
    "two": two_arm(),
    "normal": gaussian((1.0, 0.4, -0.3), (0.3, 0.5, 0.8), reference_logits=(0.0, 0.4, -0.3)),
}


@pytest.mark.parametrize(
    ("staleness", "bandit", "estimator"), thinned(["refresh", "lag", "pipeline"], ARMS, ["frozen", "clipped"])
)
def test_mean_field_runs_agree_to_rounding(staleness, bandit, estimator):
    """float64, 60 steps: within 1e-12 of the reference path."""
    if (bandit, estimator) == ("normal", "clipped"):
        pytest.skip("a clip over normal rewards is integrated in parts, which the reference path alone does")
    bandit, estimator = ARMS[bandit], None if estimator == "frozen" else Clipped(0.05)
    options = {} if estimator is None else {"estimator": estimator}
    trained = learner("grpo", bandit, staleness, horizon=8, **options)
    grid = cells([0.05, 0.3, 0.1], [0.9, 0.0, 0.5], [1, 5, 3], [1.0, 0.2, 0.0])
    both = [
        run(trained, "mean_field", grid, steps=60, dtype=np.float64, path=path).reward_mean
        for path in ("fast", "reference")
    ]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-12)


@dataclass(frozen=True)
class Whole:
    """A user's estimator that weighs whole groups and asks for logarithms."""

    at_snapshot = False

    def of_group(self, log_policy, log_old, advantage, share):
        return ESTIMATORS["tpo"](0.7).of_group(log_policy, log_old, advantage, share)


OTHER_RULES = [
    {"advantage": "none"},
    {"advantage": "sign", "estimator": Uncorrected()},
    {"advantage": "median"},
    {"estimator": ESTIMATORS["tpo"](0.7)},
    {"estimator": Whole()},
    {"optimizer": Optimizer("adam", (("eps", 1e-4),))},  # by default it divides rounding errors by 1e-8
    {"optimizer": Optimizer("adamw", (("weight_decay", 0.1), ("b2", 0.9), ("eps", 1e-3)))},
    {"kl_estimator": "k3", "entropy_weight": 0.3},
    {"kl_estimator": "k3", "estimator": Clipped(0.05)},
    {"entropy_weight": 0.3},
    {"staleness": "ages"},
]
REPRESENTATIVES = list(zip(OTHER_RULES[1::2], cycle(["noisy", "fixed"]), strict=False))
"""Every part of a learner that can be exchanged, on half of the rules; the others are nightly."""


def named(options):
    """How a test is named by its options."""
    return ", ".join(f"{key}={value}" for key, value in options.items()) if isinstance(options, dict) else options


def assert_both_paths_agree(trained):
    """float64, 60 steps, blocks of 3: within 1e-12 of the reference path."""
    if weighs_tokens(trained):
        pytest.skip("weights of tokens are left to the reference path")
    grid = cells([0.05, 0.3, 0.1], [0.9, 0.0, 0.5], 3, [1.0, 0.2, 0.0])
    both = [
        run(trained, "mean_field", grid, steps=60, dtype=np.float64, path=path).reward_mean
        for path in ("fast", "reference")
    ]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "bandit"), nightly_but(REPRESENTATIVES, product(OTHER_RULES, ["noisy", "fixed"])), ids=named
)
def test_mean_field_runs_of_other_rules_agree_to_rounding(options, bandit):
    assert_both_paths_agree(learner(bandit=ARMS[bandit], horizon=8, **options))


POLICIES = {
    "features": contextual(3, 4, overlap=0.3, conflict=0.4, high=0.9, low=0.2),
    "dense features": contextual(2, 3, dimension=5, high=0.9, low=0.2),
    "one prompt": contextual(1, 3, overlap=0.5),
    "tokens": sequence(3, 2, initial_logits=np.linspace(-1, 1, 12).tolist()),
}
OWN_RULES = [{}, *OTHER_RULES]


@pytest.mark.parametrize(
    ("options", "policy"),
    nightly_but(list(zip(OWN_RULES[1::3], cycle(POLICIES), strict=False)), product(OWN_RULES, POLICIES)),
    ids=named,
)
def test_mean_field_runs_of_policies_of_their_own_agree_to_rounding(options, policy):
    assert_both_paths_agree(learner(bandit=POLICIES[policy], horizon=8, **options))


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_of_their_own_stay_in_single_precision(policy):
    """60 steps: within 1e-5 of the reference path."""
    trained, grid = learner(bandit=POLICIES[policy]), cells([0.05, 0.3], 0.9, 1, 0.2)
    both = [run(trained, "mean_field", grid, steps=60, path=path).reward_mean for path in ("fast", "reference")]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-5)


def test_an_ensemble_of_cells_is_the_mean_over_cells():
    trained = learner("grpo", k_arm((0.9, 0.5, 0.1)))
    grid = cells(np.geomspace(1e-3, 0.3, 200), 0.5)
    mean, variance = fast.ensemble(trained, "mean_field", grid, steps=40)(0)
    each = run(trained, "mean_field", grid, steps=40, path="fast").reward_mean
    np.testing.assert_allclose(mean, each.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, each.var(0), rtol=1e-4, atol=1e-12)


def test_no_random_number_is_left_in_the_mean_field():
    trained = learner("grpo", two_arm())
    one, other = (
        run(trained, "mean_field", cells(0.1), steps=20, seed=s, dtype=np.float64, path="fast") for s in (0, 1)
    )
    np.testing.assert_array_equal(one.reward_mean, other.reward_mean)
