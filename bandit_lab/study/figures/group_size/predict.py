"""Prediction of experiments/group_size.py."""

import numpy as np

from bandit_lab import theory
from bandit_lab.study.figures.group_size.problem import (
    CASES,
    RULES,
    dataset,
    failures,
    level_crossings,
    log_odds,
    times,
)


def predict(setting):
    time, start = times(setting)[0], log_odds(setting.curve.start)
    fine = np.unique(np.round(np.geomspace(2, max(setting.sizes), 60)).astype(int))
    levels = np.array(setting.factor.levels)
    dense = np.geomspace(0.5, setting.factor.smallest_failure / 4, 2000)

    def crossings(sizes):
        factors = [theory.GroupLaw("grpo", int(g)).group_factor(1 - dense) for g in sizes]
        return [level_crossings(dense, f, levels) for f in factors]

    product = 1 / (8 * np.outer(fine, 1 - levels))  # p(1-p) at which the first-order law has that level
    law = np.where(product < 0.25, 0.5 * (1 - np.sqrt(np.clip(1 - 4 * product, 0, 1))), np.nan)
    extra = {
        "failure_line": (("fine_size", "level"), crossings(fine), "probability"),
        "failure_law": (("fine_size", "level"), law, "probability"),
    }
    return dataset(
        setting,
        [[theory.group_curve(time, start, theory.GroupLaw(r, g)) for g in setting.sizes] for r in RULES],
        [theory.group_curve(time, start, theory.GroupLaw(r)) for r in RULES],
        [theory.GroupLaw("grpo", g).group_factor(1 - failures(setting)) for g in setting.sizes],
        crossings(setting.sizes),
        np.array([[[_variance(setting, c, i, g) for g in setting.sizes] for i in (0, 1)] for c in CASES]),
        extra,
    ).assign_coords(fine_size=fine)


def _variance(setting, case, i, size):
    about, loops = setting.variance[case], setting.variance.loops
    law = theory.GroupLaw("grpo", size)
    signal = theory.BinarySignal(law, tuple(about.rewards))
    reference = np.exp(about.reference) / np.exp(about.reference).sum()
    policy = theory.settled_point(signal, reference, about.kl_weight).policy
    split = theory.stiffness_split(signal, policy, about.kl_weight, "frozen")
    loop = theory.LinearLoop(*split.reduced(), loops.momentum[i], "refresh")
    noise = theory.reduce_matrix(theory.binary_covariance(law, signal.means, policy))
    found = theory.stationary_covariance(loop, loops.learning_rate[i], loops.refresh_interval[i], noise).average
    assert found is not None, "a loop beyond its threshold has no stationary variance"
    return theory.reward_std(policy, signal.means, found) ** 2
