"""What the theory predicts for the bandits of the noise tests: fixed point, learning rates, variances."""

from typing import NamedTuple

import numpy as np
from settings import cells

from bandit_lab import theory
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner

BANDITS = {
    "two_arms": ((0.9, 0.2), (0.0, 0.4)),
    "five_arms": ((0.85, 0.7, 0.45, 0.3, 0.1), (0.0, 0.3, -0.2, 0.1, 0.4)),
}
KL_WEIGHT = 2.0
SETTINGS = [(interval, momentum) for interval in (1, 4, 16) for momentum in (0.0, 0.9)]


class Case(NamedTuple):
    """One bandit, advantage and group size: everything the theory needs, and the learner that is sampled."""

    rewards: np.ndarray
    policy: np.ndarray
    split: theory.Split
    noise: np.ndarray
    learner: Learner

    def loop(self, momentum, model="refresh"):
        return theory.LinearLoop(*self.split.reduced(), momentum, model)

    def variances(self, rate, momentum, interval, reuse=False, noise_factor=1.0):
        """Predicted variance of (log-odds of the best arm, expected reward), averaged over the block's phases."""
        noise = self.noise * noise_factor
        average = theory.stationary_covariance(self.loop(momentum), rate, interval, noise, reuse).average
        logit, reward = theory.logit_std, theory.reward_std
        return np.array([f(self.policy, self.rewards, average) ** 2 for f in (logit, reward)])

    def relaxation(self, rate, momentum, interval):
        """Steps in which the slowest departure falls by e."""
        return -1 / np.log(theory.spectral_radius(self.loop(momentum), rate, interval, per_step=True))

    def threshold(self, momentum, interval):
        """Exact threshold learning rate."""
        return theory.exact("refresh", interval, momentum, "heavy_ball").kappa / theory.largest_stiffness(self.split)

    def rate_for(self, variance, momentum, interval, share=0.15):
        """Learning rate at which the log-odds would have this variance, at most `share` of the threshold."""
        tiny = 1e-4 * (1 - momentum)
        per_rate = self.variances(tiny, momentum, interval)[0] / tiny
        return min(variance / per_rate, share * self.threshold(momentum, interval))


def case(bandit, advantage, size, kl_weight=KL_WEIGHT, **options) -> Case:
    """A case from names; `frozen`, so that everything is stale."""
    rewards, reference = (np.array(column) for column in BANDITS[bandit])
    law = theory.GroupLaw(advantage, size)
    chance = np.exp(reference) / np.exp(reference).sum()
    point = theory.attracting_fixed_point(theory.BinarySignal(law, tuple(rewards)), chance, kl_weight)
    split = theory.stiffness_split(theory.BinarySignal(law, tuple(rewards)), point.policy, kl_weight, "frozen")
    noise = theory.reduce_matrix(theory.binary_covariance(law, rewards, point.policy))
    learner = Learner(
        k_arm(rewards.tolist(), reference_logits=reference.tolist()),
        advantage=ADVANTAGES[advantage](),
        group_size=size,
        **options,
    )
    return Case(rewards, point.policy, split, noise, learner)


def plan(case: Case, rates, settings=SETTINGS, kl_weight=KL_WEIGHT) -> tuple[Hyper, np.ndarray, int]:
    """(cells, fixed points, slowest relaxation in steps rounded up to 16) for one learning rate per setting."""
    intervals, momenta = np.array([s[0] for s in settings]), np.array([s[1] for s in settings])
    slowest = max(case.relaxation(r, m, n) for r, n, m in zip(rates, intervals, momenta, strict=True))
    fixed = np.tile(np.log(case.policy), (len(settings), 1))
    return cells(np.array(rates), momenta, intervals, kl_weight), fixed, int(np.ceil(slowest / 16) * 16)
