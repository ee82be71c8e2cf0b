"""What is being learned: one small file per family of bandits."""

from collections.abc import Callable

from bandit_lab.bandits.base import Bandit, RewardLaw, expected_reward, num_contexts_and_arms
from bandit_lab.bandits.proxy import ProxyBandit, proxy
from bandit_lab.bandits.tabular import TabularBandit, k_arm, two_arm

BANDITS: dict[str, Callable[..., Bandit]] = {"two_arm": two_arm, "k_arm": k_arm, "proxy": proxy}

__all__ = [
    "BANDITS",
    "Bandit",
    "ProxyBandit",
    "RewardLaw",
    "TabularBandit",
    "expected_reward",
    "k_arm",
    "num_contexts_and_arms",
    "proxy",
    "two_arm",
]
