"""How the distance to the reference policy is penalised: one file per family of estimators."""

from bandit_lab._registry import import_modules
from bandit_lab.grpo.kl.base import KL, KL_ESTIMATORS, register_kl
from bandit_lab.grpo.kl.reverse import Exact
from bandit_lab.grpo.kl.third import K3

import_modules(__name__, __path__)

__all__ = ["K3", "KL", "KL_ESTIMATORS", "Exact", "register_kl"]
