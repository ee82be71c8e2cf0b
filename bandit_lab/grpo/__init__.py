"""How it is learned: advantage, estimator, staleness, optimiser, and the one update step that joins them."""

from bandit_lab.grpo.advantage import ADVANTAGES, DAPO, GRPO, RLOO, Advantage, DrGRPO
from bandit_lab.grpo.estimator import ESTIMATORS, ClipHigher, Clipped, Estimator, Frozen, Ratio, Uncorrected
from bandit_lab.grpo.optimizer import Optimizer, optimizer_names
from bandit_lab.grpo.random_ages import Mixture, Random, RandomMean
from bandit_lab.grpo.staleness import STALENESS, Lag, Pipeline, Refresh, Staleness
from bandit_lab.grpo.update import (
    KL_ESTIMATORS,
    Gradient,
    GradientFn,
    Hyper,
    Info,
    Learner,
    State,
    importance_ratio,
    init,
    policy_gradient,
    update,
)

__all__ = [
    "ADVANTAGES",
    "DAPO",
    "ESTIMATORS",
    "GRPO",
    "KL_ESTIMATORS",
    "RLOO",
    "STALENESS",
    "Advantage",
    "ClipHigher",
    "Clipped",
    "DrGRPO",
    "Estimator",
    "Frozen",
    "Gradient",
    "GradientFn",
    "Hyper",
    "Info",
    "Lag",
    "Learner",
    "Mixture",
    "Optimizer",
    "Pipeline",
    "Random",
    "RandomMean",
    "Ratio",
    "Refresh",
    "Staleness",
    "State",
    "Uncorrected",
    "importance_ratio",
    "init",
    "optimizer_names",
    "policy_gradient",
    "update",
]
