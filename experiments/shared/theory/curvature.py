"""Reward spread bounds the curvature of the expected reward in a log-linear policy (after arXiv 2601.23135).

Derived here. Along a direction u with scores c = u.phi - E[u.phi], d^2/dt^2 E[r] = Cov(r, c^2), hence

    |u^T H u| <= sigma_r sd(c^2) <= B^2 sigma_r    for |u.phi| <= B,

and B^2 is the best constant. With y = u.phi, m = E y, s = B^2 - y^2 >= 0 the second moment of c^2 about B^2 - m^2 is
4 m^2 (B^2 - m^2) + E[s (B^2 - 4 m^2 - (y - 2m)^2)]; the bracket is at most B^2 - 4 m^2 and E s <= B^2 - m^2, so it is
at most B^4 whether 4 m^2 exceeds B^2 or not. Two values +-B with probability (1 +- 1/sqrt 2)/2 attain it: two arms with
one logit (B = 1/2), J'' = p(1-p)(1-2p), |J''| <= sigma/4 with equality where p(1-p) = 1/8.
"""

import numpy as np


def directional_curvature(policy: np.ndarray, rewards: np.ndarray, feature: np.ndarray) -> float:
    """Second derivative of the expected reward along `feature` u.phi [K]: Cov(r, c^2); `rewards` are arm means [K]."""
    policy, rewards = np.asarray(policy, float), np.asarray(rewards, float)
    square = (feature - policy @ feature) ** 2
    return float(policy @ (rewards * square) - (policy @ rewards) * (policy @ square))


def spread_bound(policy: np.ndarray, rewards: np.ndarray, feature: np.ndarray) -> float:
    """sigma_r sd(c^2), the Cauchy-Schwarz bound on `directional_curvature`, std over arms."""
    policy, rewards = np.asarray(policy, float), np.asarray(rewards, float)
    square = (feature - policy @ feature) ** 2
    return _deviation(policy, rewards) * _deviation(policy, square)


def uniform_bound(policy: np.ndarray, rewards: np.ndarray, size: float) -> float:
    """B^2 sigma_r for |u.phi| <= B = `size` (features may be shifted by a constant); sharp. Derived in this module."""
    return size**2 * _deviation(np.asarray(policy, float), np.asarray(rewards, float))


def one_logit_curvature(success: np.ndarray) -> np.ndarray:
    """J'' = p(1-p)(1-2p) of two arms with rewards 1 and 0 in one logit, shape of `success`."""
    p = np.asarray(success, float)
    return p * (1 - p) * (1 - 2 * p)


def _deviation(policy: np.ndarray, values: np.ndarray) -> float:
    return float(np.sqrt(max(policy @ (values - policy @ values) ** 2, 0.0)))
