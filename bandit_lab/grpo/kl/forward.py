"""Forward KL, KL(ref || pi) = sum_k ref_k log(ref_k / pi_k), summed over all arms."""

from dataclasses import dataclass

from bandit_lab.grpo.kl.base import register_kl
from bandit_lab.grpo.kl.third import K3


@register_kl("forward")
@dataclass(frozen=True)
class Forward(K3):
    """grad KL = sum_k (pi_k - ref_k) grad log pi_k: the mean of `k3` on policy, and without its noise."""

    sampled = False
