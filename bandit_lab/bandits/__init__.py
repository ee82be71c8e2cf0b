"""Problems to learn: one small file per family of bandits. A new file registers itself."""

from bandit_lab._registry import import_modules
from bandit_lab.bandits.base import (
    BANDITS,
    Bandit,
    RewardLaw,
    expected_reward,
    register_bandit,
)
from bandit_lab.bandits.proxy import ProxyBandit, proxy
from bandit_lab.bandits.tabular import TabularBandit, k_arm, two_arm

import_modules(__name__, __path__)
