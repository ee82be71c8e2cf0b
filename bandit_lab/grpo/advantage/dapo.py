"""GRPO's advantage with silent groups drawn anew."""

from dataclasses import dataclass

from bandit_lab.grpo.advantage.base import register_advantage
from bandit_lab.grpo.advantage.grpo import GRPO


@register_advantage("dapo")
@dataclass(frozen=True)
class DAPO(GRPO):
    """GRPO's advantage in groups that are drawn conditional on not being silent. arXiv 2503.14476, eq. 11.

    Prompts and groups are drawn until a group is not silent. The mean over groups is thus the GRPO mean over the
    probability of a signal; a prompt that is more often silent is seen less often. DAPO's asymmetric clip is the
    estimator `clip_higher`, its zero KL weight is `kl_weight=0`. eps and ddof are those of `grpo`.
    """

    drops_silent = True
