"""Bandits, places and options that the comparisons with `by_hand` share, and learners from the rules of a `Setting`."""

import by_hand
import numpy as np
from by_hand import Setting

from bandit_lab.bandits import k_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import (
    ADVANTAGES,
    CORRECTIONS,
    ESTIMATORS,
    KL_ESTIMATORS,
    OPTIMIZERS,
    SAMPLERS,
    STALENESS,
    Learner,
    Optimizer,
)

REGISTRIES = {
    "advantage": ADVANTAGES,
    "estimator": ESTIMATORS,
    "kl_estimator": KL_ESTIMATORS,
    "sampler": SAMPLERS,
    "correction": CORRECTIONS,
    "staleness": STALENESS,
    "optimizer": OPTIMIZERS,
}
VARIED = {
    "advantage": {
        "grpo": {"eps": 0.3, "ddof": 1},
        "dapo": {"eps": 0.3, "ddof": 1},
        "batch_std": {"eps": 0.3, "ddof": 1},
        "sign": {"threshold": 0.3},
        "tempered": {"power": 1.5},
    },
    "estimator": {
        "clipped": {"epsilon": 0.4},
        "clip_higher": {"epsilon_low": 0.4, "epsilon_high": 0.4},
        "cispo": {"epsilon_low": 0.1, "epsilon_high": 0.05},
        "gspo": {"epsilon_low": 0.3, "epsilon_high": 0.5},
        "tpo": {"temperature": 0.4},
    },
    "sampler": {
        "temperature": {"tau": 0.5},
        "top_p": {"p": 0.6},
        "top_k": {"k": 2},
        "logit_noise": {"noise": [0.6, -0.2, 0.3], "std": 1.1, "seed": 1},
        "rounding": {"format": "fp8"},
    },
    "correction": {
        "tis": {"largest": 1.1},
        "icepop": {"low": 0.95, "high": 1.3},
    },
    "staleness": {
        "ages": {"weights": [0.05, 0.05, 0.9]},
    },
    "optimizer": {
        "adam": {"b1": 0.3, "b2": 0.9, "eps": 0.05},
        "adamw": {"b1": 0.3, "b2": 0.9, "eps": 0.05, "weight_decay": 0.2},
    },
}
"""Of every option a value that is not its default, and that an update shows."""


def features(contexts, arms, dimension):
    return np.random.default_rng(3).normal(size=(contexts, arms, dimension))


PROMPT_REWARDS = [[0.85, 0.3], [0.4, 0.95]]
BANDITS = {
    "arms": k_arm((0.8, 0.35), reference_logits=(0.0, 0.4)),
    "graded": k_arm((0.2, 0.5, 0.9), reference_logits=(0.3, 0.0, -0.2), kind="fixed"),
    "prompts": contextual(
        contexts=2, arms=2, spread=0.8, seed=2, features=features(2, 2, 3).tolist(), rewards=PROMPT_REWARDS
    ),
    "tokens": sequence(2, 2, (0.9, 0.2, 0.4, 0.7)),
}
POLICIES = {
    "arms": by_hand.softmax_of_arms(2),
    "graded": by_hand.softmax_of_arms(3),
    "prompts": by_hand.log_linear(features(2, 2, 3), np.asarray(BANDITS["prompts"].reference_log_policy)),
    "tokens": by_hand.two_tokens,
}
PLACES = {
    "arms": ([0.7, -0.2], [0.1, 0.3]),
    "graded": ([0.7, -0.2, 0.1], [0.2, 0.2, -0.3]),
    "prompts": ([0.3, -0.2, 0.5], [-0.1, 0.4, 0.2]),
    "tokens": ([0.3, -0.2, 0.5, 0.1, -0.4, 0.2], [-0.3, 0.4, 0.1, -0.3, 0.3, 0.3]),
}
"""Where a policy is, and the one that acts: ratios on both sides of every clip."""


def setting(bandit, **rules):
    law = BANDITS[bandit].law
    return Setting(
        POLICIES[bandit],
        np.asarray(law.values),
        np.asarray(law.probabilities),
        np.asarray(BANDITS[bandit].reference_log_policy),
        **rules,
    )


def learner(bandit, **rules):
    """The package's learner with the rules of a `Setting`."""
    rules = {"group_size": 2, "horizon": 1, **rules}
    options = rules.pop("options", {})
    assert set(options) <= set(rules), "options of a variant that is not named"
    for kind in set(rules) & set(REGISTRIES):
        chosen = options.get(kind, {})
        build = Optimizer if kind == "optimizer" else REGISTRIES[kind].build
        rules[kind] = build(rules[kind], tuple(chosen.items()) if kind == "optimizer" else chosen)
    return Learner(BANDITS[bandit], **rules)
