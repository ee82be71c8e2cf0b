"""Weights of actions that an old policy drew, in the gradient at the current one: one file per rule."""

from bandit_lab._registry import import_modules
from bandit_lab.grpo.estimator.base import (
    ESTIMATORS,
    Estimator,
    TokenMean,
    register_estimator,
)
from bandit_lab.grpo.estimator.clip_higher import ClipHigher
from bandit_lab.grpo.estimator.clipped import Clipped
from bandit_lab.grpo.estimator.frozen import Frozen
from bandit_lab.grpo.estimator.ratio import Ratio
from bandit_lab.grpo.estimator.uncorrected import Uncorrected

import_modules(__name__, __path__)
