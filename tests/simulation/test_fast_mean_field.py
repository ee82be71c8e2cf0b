"""Mean-field runs of the fast path: those of the reference path to rounding, for every rule, and nothing is drawn."""

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.gaussian import gaussian
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import ESTIMATORS, Clipped, Optimizer, Uncorrected
from bandit_lab.simulation import fast, run

NOISY, FIXED = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3)), k_arm((0.2, 0.5, 0.5, 0.8), kind="fixed")
NORMAL = gaussian((1.0, 0.4, -0.3), (0.3, 0.5, 0.8), reference_logits=(0.0, 0.4, -0.3))
FEATURES = contextual(3, 4, overlap=0.3, conflict=0.4, high=0.9, low=0.2)
TOKENS = sequence(3, 2, initial_logits=np.linspace(-1, 1, 12).tolist())
TPO = ESTIMATORS["tpo"](0.7)
ADAM = Optimizer("adam", (("eps", 1e-4),))  # by default it divides rounding errors by 1e-8
ADAMW = Optimizer("adamw", (("weight_decay", 0.1), ("b2", 0.9), ("eps", 1e-3)))
CASES = {
    "refresh": (NOISY, {}),
    "lag, clipped": (NOISY, {"staleness": "lag", "estimator": Clipped(0.05)}),
    "pipeline, two arms, adam": (two_arm(), {"staleness": "pipeline", "optimizer": ADAM}),
    "ages, normal rewards": (NORMAL, {"staleness": "ages"}),
    "none, clipped, k3": (FIXED, {"advantage": "none", "estimator": Clipped(0.05), "kl_estimator": "k3"}),
    "sign, uncorrected": (NOISY, {"advantage": "sign", "estimator": Uncorrected()}),
    "median, entropy": (FIXED, {"advantage": "median", "entropy_weight": 0.3}),
    "tpo": (FIXED, {"estimator": TPO}),
    "adamw": (NOISY, {"optimizer": ADAMW}),
    "k3, entropy": (NOISY, {"kl_estimator": "k3", "entropy_weight": 0.3}),
    "features": (FEATURES, {}),
    "features, sign, k3": (FEATURES, {"advantage": "sign", "estimator": Uncorrected(), "kl_estimator": "k3"}),
    "features, tpo, lag": (FEATURES, {"estimator": TPO, "staleness": "lag"}),
    "one prompt, median": (contextual(1, 3, overlap=0.5), {"advantage": "median", "entropy_weight": 0.3}),
    "tokens, adam": (TOKENS, {"optimizer": ADAM}),
    "tokens, none, ratio": (TOKENS, {"advantage": "none", "estimator": ESTIMATORS["ratio"]()}),
}
SHORT = ("lag, clipped", "median, entropy", "features, sign, k3")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SHORT else pytest.mark.slow) for n in CASES])
def test_mean_field_runs_agree_to_rounding(name):
    """60 steps: within 1e-12 of the reference path in float64, within 1e-5 in float32 (which, on that path, normal
    rewards are not run in)."""
    bandit, rules = CASES[name]
    trained = learner(bandit=bandit, horizon=8, **rules)
    grid = cells([0.05, 0.3, 0.1], [0.9, 0.0, 0.5], [1, 5, 3], [1.0, 0.2, 0.0])
    for dtype, allowed in ((np.float64, 1e-12), (np.float32, 1e-5))[: 1 + bandit.exact_law]:
        one, other = (
            run(trained, "mean_field", grid, steps=60, dtype=dtype, path=path).reward_mean
            for path in ("fast", "reference")
        )
        np.testing.assert_allclose(one, other, rtol=0, atol=allowed)


def test_an_ensemble_of_cells_is_the_mean_over_cells():
    trained = learner("grpo", k_arm((0.9, 0.5, 0.1)))
    grid = cells(np.geomspace(1e-3, 0.3, 200), 0.5)
    mean, variance = fast.ensemble(trained, "mean_field", grid, steps=40)(0)
    each = run(trained, "mean_field", grid, steps=40, path="fast").reward_mean
    np.testing.assert_allclose(mean, each.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, each.var(0), rtol=1e-4, atol=1e-12)
