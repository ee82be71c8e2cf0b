"""Critical KL weights of mean-only training under a sampler at temperature tau: any arms, and sequences of tokens.

Derived here. Fixed points balance F_b r = beta F_pi (theta - theta_ref) with b ~ pi^(1/tau). With l = log pi, c = 1 -
1/tau, J = b.r, B = sum pi^(1/tau) and C = KL(pi || ref), arm by arm:

    beta (l_k - log ref_k - C) = e^(-c l_k) (r_k - J)/B.

For tau > 1 and r_k < J the two sides, a line and a concave curve, meet only if

    beta >= e c (J - r_k) (ref_k e^C)^(-c)/B      (`arm_bound`; every fixed point satisfies it for every arm).

So one arm runs out of support, not the policy: the fold belongs to one arm, the others answer through J, B and C alone.
As tau -> 1 the policy is near the best arm's vertex, where J -> r_best, B -> 1, e^C -> 1/ref_best:

    beta_c -> e (1 - 1/tau) max_k (r_best - r_k) (ref_best/ref_k)^(1-1/tau)      (`collapse_asymptote`).

Two arms, uniform reference: beta_c is at most this, since s(x)/s(x/tau) >= e^(-cx). With a uniform reference no
exception was found among random bandits; with another reference there are.

*Unequal arms die out in turn.* An arm that is lost leaves the bandit of the others with their reference, renormalised.
That one has a critical weight of its own, which goes with the distance of its rewards. So below the first weight
training gives up its worst arm, and the others may go on sharing; below the last one it is at the best arm's vertex.
Where the others are equal they go at once.

*Sequences* are drawn token by token, each of a softmax row; near the good sequence's vertex token t of L obeys the same
equation with the KL weight of what follows added to its log-odds, so that its own critical weight has the factor
V^(-c (L - t)). The last token goes first, at the limit of a bandit: e (1 - 1/tau) (r_best - r_other), whatever L.

`critical_collapse` follows the branch of fixed points from the reference (beta = infinity) in 1/beta by arc length, to
its first fold. That is exact, and for tau > 1 the weight below which training from the reference leaves the interior.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bandit_lab import _checks

_STEP, _MOST_STEPS, _FAR = 0.08, 4000, 80.0
"""Arc length, nats, of a step relative to where it starts; log-probability beyond which an arm is a vertex' matter."""
_TINY = 1e-30


class Collapse(NamedTuple):
    """First fold of the branch of fixed points from the reference.

    kl_weight: beta there, reward per nat. policy: [K] there. lost: index of the arm whose share falls fastest.
    """

    kl_weight: float
    policy: np.ndarray
    lost: int


def sequence_choices(vocabulary: int, length: int) -> np.ndarray:
    """Indicator of the logits' entries that a sequence takes: 0 or 1 [V^L, (1 + (L - 1) V) V], lexicographic order.

    One row for the first token, then one for every place and token before.
    """
    size, steps = _checks.integer("vocabulary", vocabulary, 2), _checks.integer("length", length, 1)
    tokens = np.stack(np.unravel_index(np.arange(size**steps), (size,) * steps), axis=1)
    chosen = np.zeros((size**steps, 1 + (steps - 1) * size, size))
    for place in range(steps):
        row = 0 if place == 0 else 1 + (place - 1) * size + tokens[:, place - 1]
        chosen[np.arange(len(tokens)), row, tokens[:, place]] = 1
    return chosen.reshape(len(tokens), -1)


class _Branch:
    """Fixed points y = (logits, 1/beta) of answers made of softmax rows of V logits each."""

    def __init__(self, means: np.ndarray, reference: np.ndarray, tau: float, choices: np.ndarray, size: int):
        self.means, self.log_reference, self.tau, self.choices, self.size = means, np.log(reference), tau, choices, size
        self.gauge = np.kron(np.eye(choices.shape[1] // size), np.ones(size))

    def log_law(self, logits: np.ndarray) -> np.ndarray:
        rows = logits.reshape(-1, self.size)
        rows = rows - rows.real.max(1, keepdims=True)
        return self.choices @ (rows - np.log(np.exp(rows).sum(1, keepdims=True))).ravel()

    def _scores(self, logits: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """sum_y weight(y) grad log pi(y)."""
        rows = logits.reshape(-1, self.size)
        policy = np.exp(rows - rows.real.max(1, keepdims=True))
        taken = (self.choices.T @ weight).reshape(-1, self.size)
        return (taken - taken.sum(1, keepdims=True) * policy / policy.sum(1, keepdims=True)).ravel()

    def parts(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(reward's part, KL part over beta) of the mean update."""
        log_policy, drawn = self.log_law(logits), np.exp(self.log_law(logits / self.tau))
        reward = self._scores(logits, drawn * (self.means - drawn @ self.means))
        return reward, self._scores(logits, np.exp(log_policy) * (log_policy - self.log_reference))

    def equations(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(residual, Jacobian by complex steps), equations brought to one size.

        The likeliest token's equation of every row, which the others imply and rounding spoils, makes way for a gauge.
        """
        n, rows = len(y) - 1, y[:-1].reshape(-1, self.size)
        free = np.ravel(np.arange(self.size) != rows.argmax(1)[:, None])
        reward, pull = self.parts(y[:-1])
        slopes = [self.parts(y[:-1] + 1j * _TINY * one) for one in np.eye(n)]
        bent = np.stack([(y[-1] * r - p).imag / _TINY for r, p in slopes], axis=1)
        whole = np.column_stack([bent, reward])[free]
        scale = 1 / np.linalg.norm(whole, axis=1)
        fixed = np.column_stack([self.gauge, np.zeros(len(self.gauge))])
        residual = np.concatenate([scale * (y[-1] * reward - pull)[free], self.gauge @ y[:-1]])
        return residual, np.concatenate([scale[:, None] * whole, fixed])

    def tangent(self, y: np.ndarray, before: np.ndarray) -> np.ndarray:
        along = np.linalg.svd(self.equations(y)[1])[2][-1]
        return along * np.sign(along @ before)

    def moved(self, y: np.ndarray, along: np.ndarray, step: float) -> np.ndarray:
        """The point of the branch a step along its tangent, by Newton's method across it."""
        guess = new = y + step * along
        for _ in range(12):
            residual, slope = self.equations(new)
            right = np.append(residual, along @ (new - guess))
            change = np.linalg.lstsq(np.vstack([slope, along]), right, rcond=None)[0]
            new = new - change
            if np.linalg.norm(change) < 1e-13 * (1 + np.linalg.norm(new)):
                break
        return new


def critical_collapse(
    means: np.ndarray, reference: np.ndarray, tau: float, choices: np.ndarray | None = None, vocabulary: int = 0
) -> Collapse | None:
    """The KL weight below which mean-only training from the reference leaves the interior, or None if every one holds.

    means: [K] rewards of the answers. reference: [K] probabilities. choices, vocabulary: of sequences, see
    `sequence_choices`; the reference is then uniform. G = infinity; other group sizes multiply it by the factor of
    their `GroupLaw`. Raises ValueError for tau <= 0, equal rewards, other shapes.
    """
    means, reference = np.asarray(means, float), np.asarray(reference, float)
    _checks.positive("tau", tau)
    _checks.require(np.ptp(means) > 0, "rewards", "not all equal", means.tolist())
    _checks.require(reference.shape == means.shape, "reference", f"{means.shape[0]} probabilities", reference.shape)
    size = vocabulary if choices is not None else len(means)
    unit = float(np.ptp(means)) * (math.e * (1 - 1 / tau) if tau > 1 else 1.0)  # of KL weights: the fold is then near 1
    branch = _Branch(means / unit, reference, tau, np.eye(size) if choices is None else choices, size)
    logits = np.zeros(branch.choices.shape[1]) if choices is not None else np.log(reference) - np.log(reference).mean()
    y, along = np.append(logits, 0.0), np.append(0 * logits, 1.0)
    along = branch.tangent(y, along)
    for _ in range(_MOST_STEPS):
        step = _STEP * (1 + 0.2 * float(np.linalg.norm(y)))
        new = branch.moved(y, along, step)
        turned = branch.tangent(new, along)
        if turned[-1] < 0:

            def slope(part: float, y: np.ndarray = y, along: np.ndarray = along) -> float:
                return float(branch.tangent(branch.moved(y, along, part), along)[-1])

            end = branch.moved(y, along, float(brentq(slope, 0, step, xtol=1e-12)))
            turned = branch.tangent(end, along)
            falls = branch.log_law(end[:-1] + 1j * _TINY * turned[:-1]).imag
            return Collapse(float(unit / end[-1]), np.exp(branch.log_law(end[:-1])), int(np.argmin(falls)))
        y, along = new, turned
        if branch.log_law(y[:-1]).min() < -_FAR:
            return None
    return None


def extinctions(means: np.ndarray, reference: np.ndarray, tau: float) -> list[tuple[float, int]]:
    """(critical KL weight, arm lost) in turn, as arms are taken out, until one is left or every weight holds.

    Below the smallest of the weights so far an arm that stands later in the list is lost, too. Raises ValueError as
    `critical_collapse`.
    """
    means, reference = np.asarray(means, float), np.asarray(reference, float)
    left, extinct = np.arange(len(means)), []
    while len(left) > 1 and np.ptp(means[left]) > 0:
        one = critical_collapse(means[left], reference[left] / reference[left].sum(), tau)
        if one is None:
            break
        extinct.append((one.kl_weight, int(left[one.lost])))
        left = np.delete(left, one.lost)
    return extinct


def collapse_asymptote(means: np.ndarray, reference: np.ndarray, tau: float) -> float:
    """e (1 - 1/tau) max_k (r_best - r_k) (ref_best/ref_k)^(1-1/tau), the limit of the critical weight as tau -> 1+."""
    means, reference = np.asarray(means, float), np.asarray(reference, float)
    cold, best = 1 - 1 / _checks.positive("tau", tau), int(np.argmax(means))
    return float(math.e * cold * np.max((means[best] - means) * (reference[best] / reference) ** cold))
