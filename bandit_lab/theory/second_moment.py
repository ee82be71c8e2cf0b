"""M2PO: where a bound on the second moment of log ratios begins to leave answers out, and what it then does.

Derived here, for the rule of arXiv 2510.01161 in an infinite group. b acted, pi is trained, z_k = log pi_k/b_k; the
answers with the largest |z| are left out until E_b[z^2 | kept] <= delta.

*Near the fixed point* nothing is left out: b = pi there, and E_b z^2 = x.F x to leading order, x = theta - theta_old.
So the rule is `ratio` in an ellipsoid around every policy. Fixed point, stiffness, multipliers and threshold are those
of `ratio`.

*Where it begins.* At E_b z^2 = delta. With E_b e^z = 1 that is KL(b || pi) = delta/2 and chi^2(pi || b) = delta, both
up to a factor 1 + O(sqrt(delta/p)), p the rarest answer's share. Two arms, d the change of the logit gap since the
answers were drawn: |d| = sqrt(delta/(p q)), p = 1 - q.

*What goes first.* z = x - b.x: of two arms the rarer one, |z| = max(p, q) |d|. The pull of the reward on the gap,
2 p q h r_gap, comes from arm 1 by the share q_b and from arm 2 by the share p_b (advantages h r_gap q_b and -h r_gap
p_b). So once the rarer, worse arm is left out, the share p_b of the pull is gone, whichever way the policy has moved,
and the KL term pulls back alone. The other arm follows at |d| = sqrt(delta)/min(p, q).

*What it does to a noisy run.* Its mean is moved towards the reference, by the pull that is lost on average over the
stiffness. With a normal d of standard deviation s, to leading order in the noise,

    bias = -(2 p q h r_gap) p P(|d| > sqrt(delta/(p q)))/K .

The bound is one on distance: the rule does not shrink the noise of an answer that it keeps, and it costs nothing until
the distance that staleness and noise make reaches sqrt(delta/(p q)).
"""

import math

import numpy as np
from scipy.optimize import brentq

from bandit_lab import _checks
from bandit_lab.theory.signal import Signal, fisher


def squared_log_ratio(policy: np.ndarray, behaviour: np.ndarray) -> float:
    """E_b[(log pi/b)^2], nats^2; probabilities [K] each."""
    policy, behaviour = np.asarray(policy, float), np.asarray(behaviour, float)
    return float(behaviour @ np.log(policy / behaviour) ** 2)


def kept_answers(policy: np.ndarray, behaviour: np.ndarray, threshold: float) -> np.ndarray:
    """[K] whether each answer counts in an infinite group."""
    policy, behaviour = np.asarray(policy, float), np.asarray(behaviour, float)
    square = np.log(policy / behaviour) ** 2
    order = np.argsort(square)
    mean = np.cumsum(behaviour[order] * square[order]) / np.cumsum(behaviour[order])
    kept = np.zeros(len(policy), bool)
    kept[order] = mean <= threshold
    return kept


def mask_distance(behaviour: np.ndarray, direction: np.ndarray, threshold: float) -> tuple[float, float]:
    """How far logits go along `direction` [K] from `behaviour` [K] until an answer is left out: (exact, leading order).

    In units of the direction's length; leading order: sqrt(delta/(v F v)). Raises ValueError for threshold <= 0.
    """
    _checks.positive("threshold", threshold)
    behaviour, direction = np.asarray(behaviour, float), np.asarray(direction, float)
    leading = math.sqrt(threshold / float(direction @ fisher(behaviour) @ direction))

    def excess(step: float) -> float:
        weights = behaviour * np.exp(step * direction)
        return squared_log_ratio(weights / weights.sum(), behaviour) - threshold

    high = leading
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0, high, xtol=1e-15, rtol=1e-14)), leading


def masked_pull(signal: Signal, policy: np.ndarray, behaviour: np.ndarray, threshold: float) -> np.ndarray:
    """The reward's part of the mean update [K], with what is left out left out: sum_kept pi_k A_k (e_k - pi)."""
    policy, behaviour = np.asarray(policy, float), np.asarray(behaviour, float)
    advantage = signal.factor(behaviour) * (signal.means - behaviour @ signal.means)
    weight = kept_answers(policy, behaviour, threshold) * policy * advantage
    return np.asarray(weight - policy * weight.sum())


def masked_bias(signal: Signal, policy: np.ndarray, stiffness: float, gap_std: float, threshold: float) -> float:
    """Shift of the gap of two arms, nats, at a noisy fixed point `policy` [2] where the better arm is the likelier one.

    stiffness: of the gap on policy. gap_std: standard deviation of the gap's change since the answers were drawn, nats.
    Leading order, see the module.
    """
    better, worse = policy
    pull = 2 * better * worse * signal.factor(np.asarray(policy)) * (signal.means[0] - signal.means[1])
    beyond = math.erfc(math.sqrt(threshold / (better * worse)) / (gap_std * math.sqrt(2)))
    return float(-pull * better * beyond / stiffness)
