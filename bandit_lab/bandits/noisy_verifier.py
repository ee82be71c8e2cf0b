"""A verifier that errs: the reward is its verdict, what is reported is the truth (arXiv 2601.04411)."""

from collections.abc import Sequence

from bandit_lab import _checks
from bandit_lab.bandits.base import register_bandit
from bandit_lab.bandits.proxy import ProxyBandit, proxy


@register_bandit("noisy_verifier")
def noisy_verifier(
    rewards: Sequence[float] = (1.0, 0.0),
    true_positive: float = 0.8,
    false_positive: float = 0.3,
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
) -> ProxyBandit:
    """Arms whose success is seen through a verifier: P(reward = 1) = FPR + (TPR - FPR) s for success probability s.

    The mean trained reward is an affine function of the true one. The sign of Youden's J = TPR - FPR decides between
    learning, standing still and learning the wrong arms; J = 1 is the clean `k_arm`. Derived here for K arms: the
    logits move along h F (FPR + J s) = h J F s with F = Diag(pi) - pi pi^T and h > 0. So d(true reward)/dt is
    h J |F s|^2.

    Args:
      rewards: [K] true success probabilities. true_positive, false_positive: TPR = P(accepted | right), FPR =
        P(accepted | wrong), in [0, 1]. reference_logits, initial_logits: as in `k_arm`.

    Raises:
      ValueError: what `k_arm` raises; a rate outside [0, 1].
    """
    truth = _checks.rewards("bandit.rewards", rewards)
    for i, success in enumerate(truth):
        _checks.require(0 <= success <= 1, f"bandit.rewards[{i}]", "a success probability in [0, 1]", success)
    for name, rate in (("true_positive", true_positive), ("false_positive", false_positive)):
        in_range = 0 <= _checks.finite_number(f"bandit.{name}", rate) <= 1
        _checks.require(in_range, f"bandit.{name}", "a probability in [0, 1]", rate)
    accepted = [true_positive * success + false_positive * (1 - success) for success in truth]
    return proxy(accepted, truth, reference_logits, initial_logits)
