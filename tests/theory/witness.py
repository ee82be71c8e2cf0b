"""Brute force: groups written out from the definitions, an independent witness for the closed forms."""

import itertools
import math

import numpy as np

POWER = 0.5
"""Of the std, for the rule `tempered`: the default of the closed form, too."""


def advantages(rule, rewards, eps, ddof):
    """Advantages of one group, written from the definitions."""
    rewards = np.asarray(rewards, float)
    if rule == "sign":
        return 2 * rewards - 1
    if rule == "none":
        return rewards
    if rule == "median":
        return rewards - np.median(rewards)
    centred = rewards - rewards.mean()
    if rule == "dr_grpo":
        return centred
    if rule == "rloo":
        return centred * len(rewards) / (len(rewards) - 1)
    if rule == "tempered":
        return centred / rewards.std() ** POWER if rewards.std() > 0 else 0 * centred
    spread = rewards.std(ddof=ddof)
    return centred / (spread + eps) if spread > 0 else 0 * centred


def enumerate_group(rule, success, policy, size, eps=0.0, ddof=0, penalty=None):
    """Exact mean and covariance of the group gradient by summing over every group of actions and rewards."""
    arms = len(policy)
    atoms = [(a, y, policy[a] * (success[a] if y else 1 - success[a])) for a in range(arms) for y in (0, 1)]
    mean, second, total = np.zeros(arms), np.zeros((arms, arms)), 0.0
    for group in itertools.product(atoms, repeat=size):
        rewards = [y for _, y, _ in group]
        if rule == "dapo" and sum(rewards) in (0, size):
            continue
        weight = math.prod(w for _, _, w in group)
        weights = advantages("grpo" if rule == "dapo" else rule, rewards, eps, ddof)
        penalty = np.zeros(arms) if penalty is None else penalty
        g = (
            sum((w - penalty[a]) * (np.eye(arms)[a] - policy) for w, (a, _, _) in zip(weights, group, strict=True))
            / size
        )
        mean, second, total = mean + weight * g, second + weight * np.outer(g, g), total + weight
    mean = mean / total
    return mean, second / total - np.outer(mean, mean)
