"""How the distance to the reference policy is penalised: one file per family of estimators."""

from bandit_lab._registry import import_modules
from bandit_lab.grpo.kl.base import KL, KL_ESTIMATORS, register_kl

import_modules(__name__, __path__)

__all__ = ["KL", "KL_ESTIMATORS", "register_kl"]
