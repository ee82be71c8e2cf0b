"""The sampled k2 loss, log(pi/ref)^2 / 2 per drawn action."""

from dataclasses import dataclass

from bandit_lab.grpo.kl.base import register_kl
from bandit_lab.grpo.kl.reverse import Exact


@register_kl("k2")
@dataclass(frozen=True)
class K2(Exact):
    """Its gradient is log(pi/ref) grad log pi; on policy that is in the mean the exact one of the reverse KL.

    joschu.net/blog/kl-approx.html; as a loss arXiv 2510.01555.
    """

    sampled = True
