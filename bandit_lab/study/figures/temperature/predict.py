"""Prediction of experiments/temperature.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.temperature.problem import REWARDS, dataset
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Exact threshold, Lyapunov variances, the closed form of a reused batch."""
    law, reference = theory.GroupLaw("dr_grpo", setting.group_size), np.full(2, 0.5)
    signal = theory.BinarySignal(law, REWARDS)
    policy = theory.settled_point(signal, reference, setting.kl_weight).policy
    split = theory.stiffness_split(signal, policy, setting.kl_weight, "frozen")
    stiffness = theory.largest_stiffness(split)
    noise = theory.reduce_matrix(theory.binary_covariance(law, signal.means, policy))
    to_reward = theory.reward_std(policy, signal.means, np.eye(1)) ** 2  # reward^2 per logit^2 along the gap
    threshold, variance, growth, fresh, reused = [], [], [], [], []
    fine = np.linspace(setting.shares[0], setting.shares[-1], 60)
    for n, mu in zip(setting.loops.refresh_interval, setting.loops.momentum, strict=True):
        critical = theory.exact("refresh", n, mu).kappa / stiffness
        loop = theory.LinearLoop(*split.reduced(), mu, "refresh")
        state = partial(theory.stationary_covariance, loop, refresh_interval=n, noise=noise)
        threshold.append(critical)
        variance.append([to_reward * np.asarray(state(s * critical).average).item() for s in setting.shares])
        warned = theory.early_warning(loop, critical, n, noise, fine)
        growth.append(warned / warned[0])
        rates = [s * critical for s in setting.reused_shares]
        fresh.append([np.asarray(state(rate).covariance).item() for rate in rates])
        reused.append([theory.reused_batch_variance(rate, stiffness, mu, noise.item(), n) for rate in rates])
    more = {"growth_line": (("loop", "fine_share"), growth, "1")}
    seen = [np.array(column) for column in (threshold, variance, fresh, reused)]
    return dataset(setting, seen[0], seen[1], seen[2], seen[3], more).assign_coords(fine_share=fine)
